package goldentest

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Values returns values for Kubernetes 1.36. It decodes settings, the settings of a program in YAML, into the field to which the function
// of returns a pointer.
func Values(t *testing.T, of func(*values.Values) any, settings string, changes ...func(*values.Values)) values.Values {
	t.Helper()
	g := NewWithT(t)
	list, err := images.Embedded()
	g.Expect(err).NotTo(HaveOccurred())
	v := values.Values{
		Operator: values.Operator{Namespace: "garden", Images: list}, Kubernetes: version.MustParseSemantic("1.36.3"),
		VerticalPodAutoscaler: true,
	}
	g.Expect(yaml.UnmarshalStrict([]byte(settings), of(&v))).To(Succeed())
	for _, each := range changes {
		each(&v)
	}
	return v
}
