package blackboxexporter_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/blackboxexporter"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	variants := map[string][]client.Object{}
	for name, settings := range map[string]string{
		"shipped": `{}`, "own-certificate": `{sni: {secretName: cert, domainPatterns: [api.example.com, '*.example.com']}}`,
	} {
		v := goldentest.Values(t, func(v *values.Values) any { return &v.KubeAPIServer }, settings,
			func(v *values.Values) { v.Domains = []string{"garden.example.com", "other.example.com"} })
		objects, err := blackboxexporter.Objects(v, blackboxexporter.Authorities{Kubernetes: "ca-bundle-1", Gardener: "ca-gardener-bundle-1"})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		variants[name] = objects
	}
	goldentest.Compare(t, "shipped", variants)
}
