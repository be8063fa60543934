package fluentoperator_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/fluentoperator"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFile(t *testing.T) {
	g := NewWithT(t)
	objects, err := fluentoperator.Objects(goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}"))
	g.Expect(err).NotTo(HaveOccurred())
	goldentest.Compare(t, "", map[string][]client.Object{"shipped": objects})
}
