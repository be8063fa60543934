package metricsexporter_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/metricsexporter"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	g := NewWithT(t)
	v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}")
	objects, err := metricsexporter.Objects(v, "generic-token-kubeconfig-1")
	g.Expect(err).NotTo(HaveOccurred())
	goldentest.Compare(t, "", map[string][]client.Object{
		"runtime": append(objects.Direct, objects.Set...), "virtual": metricsexporter.VirtualObjects(),
	})
}
