package vali_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/vali"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := func(changes ...func(*values.Values)) []client.Object {
		v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}", changes...)
		all, err := vali.Objects(v)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return all
	}
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain":        objects(),
		"large-volume": objects(func(v *values.Values) { v.MinimumVolumeSize = ptr.To(resource.MustParse("50Gi")) }),
	})
}

func TestGardensWithoutVali(t *testing.T) {
	g := NewWithT(t)
	g.Expect(vali.Unless(values.Values{})).To(BeEmpty())
	g.Expect(vali.Unless(values.Values{PodsHaveIPv6: true})).To(ContainSubstring("IPv6"))
	g.Expect(vali.Unless(values.Values{Operator: values.Operator{RemoveVali: true}})).To(ContainSubstring("RemoveVali"))
}
