package alertmanager_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/alertmanager"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	variants := map[string][]client.Object{}
	for name, change := range map[string]func(*values.Values){
		"shipped": func(*values.Values) {},
		"large-volumes": func(v *values.Values) {
			v.MinimumVolumeSize, v.Ingress.Domains = ptr.To(resource.MustParse("20Gi")), []string{"ingress.example.com"}
		},
	} {
		v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}", change)
		objects, err := alertmanager.Objects(v)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		variants[name] = objects
	}
	goldentest.Compare(t, "shipped", variants)
}
