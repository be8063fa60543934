package images_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/espalier-dev/espalier/internal/garden/images"
)

func cluster(target string) images.Cluster {
	return images.Cluster{Runtime: version.MustParseSemantic("1.34.2"), Target: version.MustParseSemantic(target), Architecture: "arm64"}
}

func TestEmbeddedImages(t *testing.T) {
	g := NewWithT(t)
	list, err := images.Embedded()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Find("vpa-updater", images.Cluster{})).To(Equal("registry.k8s.io/autoscaling/vpa-updater:1.8.1"))
	for _, each := range list {
		_, err := list.Find(each.Name, cluster("1.36.3"))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(list.Find("kube-apiserver", cluster("1.36.3"))).To(Equal("registry.k8s.io/kube-apiserver:v1.36.3"))
}

func TestImageThatIsFound(t *testing.T) {
	for sentence, tc := range map[string]struct {
		list, overwrite string
		want            string
	}{
		"the tag is kept":           {list: `[{name: a, repository: r, tag: "1"}]`, overwrite: `[{name: a, repository: s}]`, want: "s:1"},
		"the repository is kept":    {list: `[{name: a, repository: r, tag: "1"}]`, overwrite: `[{name: a, tag: "2"}]`, want: "r:2"},
		"a reference replaces both": {list: `[{name: a, repository: r, tag: "1"}]`, overwrite: `[{name: a, ref: "x:9"}]`, want: "x:9"},
		"both replace a reference":  {list: `[{name: a, ref: "x:9"}]`, overwrite: `[{name: a, repository: r, tag: "1"}]`, want: "r:1"},
		"a digest":                  {list: `[{name: a, repository: r, tag: "sha256:ab"}]`, want: "r@sha256:ab"},
		"without a tag":             {list: `[{name: a, repository: r}]`, want: "r:v1.33.1"},
		"other names do not count":  {list: `[{name: b, repository: s, tag: "2"}, {name: a, repository: r, tag: "1"}]`, want: "r:1"},
		"a constraint is preferred": {
			list: `[{name: a, repository: r, tag: "1"}, {name: a, repository: r, tag: "2", targetVersion: ">= 1.33"}]`, want: "r:2",
		},
		"a constraint does not hold": {
			list: `[{name: a, repository: r, tag: "1"}, {name: a, repository: r, tag: "2", runtimeVersion: "< 1.34"}]`, want: "r:1",
		},
		"an architecture": {
			list: `[{name: a, repository: r, tag: "1", architectures: [amd64]}, {name: a, repository: r, tag: "2"}]`, want: "r:2",
		},
		"fields that only Gardener has": {
			list:      `[{name: a, repository: r, tag: "1", sourceRepository: example.com/a, labels: [{name: b, value: {c: [d]}}]}]`,
			overwrite: `[{name: a, tag: "2", resourceId: {name: a}}]`, want: "r:2",
		},
		"other constraints are added": {
			list: `[{name: a, repository: r, tag: "1"}]`, overwrite: `[{name: a, repository: s, tag: "2", targetVersion: "1.33.x"}]`, want: "s:2",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			list, err := images.Parse([]byte("images: " + tc.list))
			g.Expect(err).NotTo(HaveOccurred())
			overwrite, err := images.Parse([]byte("images: " + tc.overwrite))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list.Overwritten(overwrite).Find("a", cluster("1.33.1"))).To(Equal(tc.want))
		})
	}
}

func TestMistakesInLists(t *testing.T) {
	for text, want := range map[string]string{
		`images: [{repository: r}]`:                             "images[0]: name is required",
		`images: [{name: a}]`:                                   `images[0]: image "a" has neither ref nor repository nor tag`,
		`images: [{name: a, ref: x, tag: "1"}]`:                 `images[0]: image "a" has ref and one of repository and tag`,
		`images: [{name: a, tag: "1", runtimeVersion: newest}]`: `images[0]: image "a": parse constraint "newest"`,
		`images: [{name: a, tagg: "1"}]`:                        `images[0]: image "a" has neither ref nor repository nor tag`,
		`images: {name: a}`:                                     "decode images: ",
	} {
		_, err := images.Parse([]byte(text))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)), text)
	}
	list, err := images.Parse([]byte(`images: [{name: a, tag: "1"}]`))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	_, err = list.Find("a", images.Cluster{})
	NewWithT(t).Expect(err).To(MatchError(`image "a" has no repository`))
	_, err = list.Find("b", images.Cluster{})
	NewWithT(t).Expect(err).To(MatchError(`there is no image "b" for this cluster`))
}

func TestImagesOfComponents(t *testing.T) {
	g := NewWithT(t)
	lists, err := images.ParseComponents([]byte("components:\n- name: etcd-druid\n  imageVectorOverwrite: |\n    images: []\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lists).To(Equal(map[string]string{"etcd-druid": "images: []\n"}))
	_, err = images.ParseComponents([]byte("components: [{name: etcd-druid}]"))
	g.Expect(err).To(MatchError("components[0]: name and imageVectorOverwrite are required"))
}
