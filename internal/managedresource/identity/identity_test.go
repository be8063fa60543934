package identity_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/identity"
)

func TestUserOfASet(t *testing.T) {
	free := &config.EspalierAccounts{Lockdown: ptr.To(false)}
	named := &config.EspalierAccounts{Lockdown: ptr.To(false), Default: "standard", ByNamespace: map[string]string{"shop": "deployer"}}
	locked := &config.EspalierAccounts{Lockdown: ptr.To(true)}
	for name, tc := range map[string]struct {
		rules           *config.EspalierAccounts
		annotation      *string
		namespace, user string
		refusal         string
	}{
		"off":                        {namespace: "shop"},
		"annotated, off":             {annotation: ptr.To("a"), namespace: "shop", user: "shop:a", refusal: "with its own rights"},
		"empty annotation, off":      {annotation: ptr.To(""), namespace: "shop", user: "shop:", refusal: "with its own rights"},
		"not named":                  {rules: free, namespace: "shop"},
		"annotated":                  {rules: free, annotation: ptr.To("a"), namespace: "shop", user: "shop:a"},
		"empty annotation":           {rules: free, annotation: ptr.To(""), namespace: "shop", user: "shop:", refusal: "not the name"},
		"another namespace":          {rules: free, annotation: ptr.To("a:b"), namespace: "shop", user: "shop:a:b", refusal: "not the name"},
		"a header":                   {rules: free, annotation: ptr.To("a\r\nb"), namespace: "shop", user: "shop:a\r\nb", refusal: "not"},
		"for the namespace":          {rules: named, namespace: "shop", user: "shop:deployer"},
		"default":                    {rules: named, namespace: "bar", user: "bar:standard"},
		"annotation before settings": {rules: named, annotation: ptr.To("a"), namespace: "shop", user: "shop:a"},
		"locked":                     {rules: locked, namespace: "shop", user: "shop:", refusal: "has no ServiceAccount"},
		"locked, annotated":          {rules: locked, annotation: ptr.To("a"), namespace: "shop", user: "shop:a"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace}}
			if tc.annotation != nil {
				mr.Annotations = map[string]string{"espalier.dev/service-account": *tc.annotation}
			}
			rules := identity.Rules{EspalierAccounts: tc.rules}
			user := ""
			if tc.user != "" {
				user = "system:serviceaccount:" + tc.user
			}
			g.Expect(rules.User(mr)).To(Equal(user))
			if tc.refusal == "" {
				g.Expect(rules.Refusal(mr)).To(BeEmpty())
			} else {
				g.Expect(rules.Refusal(mr)).To(ContainSubstring(tc.refusal))
			}
		})
	}
}
