package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestParseDependsOn(t *testing.T) {
	g := NewWithT(t)
	g.Expect(resourcesv1alpha1.ParseDependsOn(" db, other/cache ,,a/b/c", "shop")).To(Equal([]types.NamespacedName{
		{Namespace: "shop", Name: "db"}, {Namespace: "other", Name: "cache"}, {Namespace: "a", Name: "b/c"},
	}))
	g.Expect(resourcesv1alpha1.ParseDependsOn("", "shop")).To(BeEmpty())
}
