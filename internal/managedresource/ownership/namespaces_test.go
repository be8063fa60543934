package ownership

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestRefuseSet(t *testing.T) {
	allowed := &metav1.LabelSelector{MatchLabels: map[string]string{"espalier.dev/managedresources": "allowed"}}
	for name, tc := range map[string]struct {
		limits config.EspalierNamespaces
		labels map[string]string
		want   string
	}{
		"no restriction":       {limits: config.EspalierNamespaces{}},
		"a list with the name": {limits: config.EspalierNamespaces{Sets: &[]string{"shop"}}},
		"a list without the name": {
			limits: config.EspalierNamespaces{Sets: &[]string{"garden"}},
			want:   `refused: sets may not live in namespace "shop" (espalier.managedResource.namespaces.sets)`,
		},
		"an empty list": {
			limits: config.EspalierNamespaces{Sets: &[]string{}},
			want:   `refused: sets may not live in namespace "shop" (espalier.managedResource.namespaces.sets)`,
		},
		"the label": {
			limits: config.EspalierNamespaces{SetSelector: allowed},
			labels: map[string]string{"espalier.dev/managedresources": "allowed", "a": "b"},
		},
		"no label, but the list has the name": {limits: config.EspalierNamespaces{SetSelector: allowed, Sets: &[]string{"shop"}}},
		"the label, and not in the list": {
			limits: config.EspalierNamespaces{SetSelector: allowed, Sets: &[]string{"garden"}},
			labels: map[string]string{"espalier.dev/managedresources": "allowed"},
		},
		"no label": {
			limits: config.EspalierNamespaces{SetSelector: allowed, Sets: &[]string{"garden"}},
			want: `refused: the labels of namespace "shop" do not allow sets (espalier.managedResource.namespaces.setSelector wants ` +
				`espalier.dev/managedresources=allowed); ` +
				`an administrator allows them with: kubectl label --overwrite namespace shop espalier.dev/managedresources=allowed`,
		},
		"the label with another value": {
			limits: config.EspalierNamespaces{SetSelector: allowed}, labels: map[string]string{"espalier.dev/managedresources": "denied"},
			want: `refused: the labels of namespace "shop" do not allow sets (espalier.managedResource.namespaces.setSelector wants ` +
				`espalier.dev/managedresources=allowed); ` +
				`an administrator allows them with: kubectl label --overwrite namespace shop espalier.dev/managedresources=allowed`,
		},
		"an empty selector": {limits: config.EspalierNamespaces{SetSelector: &metav1.LabelSelector{}}},
		"a selector that cannot be read": {
			limits: config.EspalierNamespaces{SetSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: "a", Operator: "Like",
				Values: []string{"b"},
			}}}},
			want: `refused: the labels of namespace "shop" do not allow sets (espalier.managedResource.namespaces.setSelector wants <error>); ` +
				`an administrator allows them with: kubectl label --overwrite namespace shop `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Limits{Own: tc.limits}.RefuseSet("shop", tc.labels)).To(Equal(tc.want))
		})
	}
}

func TestMissingLabelsAreArgumentsOfKubectl(t *testing.T) {
	selector := &metav1.LabelSelector{
		MatchLabels: map[string]string{"b": "2", "a": "1"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "in", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y"}},
			{Key: "exists", Operator: metav1.LabelSelectorOpExists},
			{Key: "not-in", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"z"}},
			{Key: "absent", Operator: metav1.LabelSelectorOpDoesNotExist},
		},
	}
	g := NewWithT(t)
	g.Expect(missingLabels(selector, nil)).To(Equal([]string{"a=1", "b=2", "in=x", "exists="}))
	g.Expect(missingLabels(selector, map[string]string{"a": "2", "in": "z", "not-in": "z", "absent": ""})).
		To(Equal([]string{"a=1", "b=2", "in=x", "exists=", "not-in-", "absent-"}))
	g.Expect(missingLabels(selector, map[string]string{"a": "1", "b": "2", "in": "y", "exists": "", "not-in": "a"})).To(BeEmpty())
}
