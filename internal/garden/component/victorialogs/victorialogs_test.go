package victorialogs_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/victorialogs"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func variant(t *testing.T, changes ...func(*values.Values)) values.Values {
	t.Helper()
	v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}", changes...)
	v.VictoriaLogs = true
	return v
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := func(of func(values.Values) ([]client.Object, error), changes ...func(*values.Values)) []client.Object {
		all, err := of(variant(t, changes...))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return all
	}
	goldentest.Compare(t, "", map[string][]client.Object{
		"operator": objects(victorialogs.OperatorObjects),
		"exposed":  objects(victorialogs.Objects),
		"not-exposed": objects(victorialogs.Objects, func(v *values.Values) {
			v.SkipComponents, v.MinimumVolumeSize = []string{"observability-exposure"}, ptr.To(resource.MustParse("40Gi"))
		}),
	})
}

func TestImagesNeedATag(t *testing.T) {
	for _, image := range []string{"example.com/logs@sha256:" + "0a", "example.com:5000/logs", "example.com/logs:v1@sha256:0a"} {
		v := variant(t, func(v *values.Values) { v.Images = images.List{{Name: "victoria-logs", Ref: image}} })
		_, err := victorialogs.Objects(v)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("must have a tag and no digest")), image)
	}
}
