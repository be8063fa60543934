package observability

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestGardenDemandsALeastSizeOfVolumes(t *testing.T) {
	g := NewWithT(t)
	g.Expect(volumeSize(values.Values{}, "1Gi")).To(Equal("1Gi"))
	v := values.Values{MinimumVolumeSize: ptr.To(resource.MustParse("20Gi"))}
	g.Expect(volumeSize(v, "1Gi")).To(Equal("20Gi"))
	g.Expect(volumeSize(v, "100Gi")).To(Equal("100Gi"))
}

func TestReleaseOfAnImageIsItsTag(t *testing.T) {
	g := NewWithT(t)
	for image, want := range map[string]string{
		"quay.io/prometheus/prometheus:v3.13.2":                  "v3.13.2",
		"registry.example.com:5000/prometheus:v3.13.2":           "v3.13.2",
		"registry.example.com:5000/prometheus":                   "",
		"registry.example.com/prometheus:stable":                 "",
		"registry.example.com/prometheus:v3.13.2@sha256:0123abc": "",
	} {
		g.Expect(releaseOf(image)).To(Equal(want), image)
	}
}
