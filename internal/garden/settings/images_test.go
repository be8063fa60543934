package settings

import (
	"io/fs"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/images"
)

func TestImagesComeFromTheFilesThatTheEnvironmentNames(t *testing.T) {
	files := map[string]string{
		"images.yaml": "images: [{name: etcd-druid, ref: example.com/etcd-druid:v1}]", "broken.yaml": "images: a",
		"components.yaml": "components: [{name: etcd-druid, imageVectorOverwrite: 'images: []'}]",
	}
	read := func(variables map[string]string) (images.List, map[string]string, error) {
		return imageLists(func(name string) string { return variables[name] }, func(name string) ([]byte, error) {
			content, found := files[name]
			if !found {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(content), nil
		})
	}
	g := NewWithT(t)
	list, components, err := read(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(components).To(BeEmpty())
	g.Expect(list.Find("vpa-updater", images.Cluster{})).To(Equal("registry.k8s.io/autoscaling/vpa-updater:1.8.1"))

	list, components, err = read(
		map[string]string{"IMAGEVECTOR_OVERWRITE": "images.yaml", "IMAGEVECTOR_OVERWRITE_COMPONENTS": "components.yaml"},
	)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(components).To(Equal(map[string]string{"etcd-druid": "images: []"}))
	g.Expect(list.Find("etcd-druid", images.Cluster{})).To(Equal("example.com/etcd-druid:v1"))
	g.Expect(list.Find("vpa-updater", images.Cluster{})).To(Equal("registry.k8s.io/autoscaling/vpa-updater:1.8.1"))

	_, _, err = read(map[string]string{"IMAGEVECTOR_OVERWRITE": "none.yaml"})
	g.Expect(err).To(MatchError(`environment variable IMAGEVECTOR_OVERWRITE names the file "none.yaml": open none.yaml: file does not ` +
		`exist; ` +
		"correct the file, or remove the variable"))
	_, _, err = read(map[string]string{"IMAGEVECTOR_OVERWRITE_COMPONENTS": "broken.yaml"})
	g.Expect(err).NotTo(HaveOccurred(), "it has no components")
	_, _, err = read(map[string]string{"IMAGEVECTOR_OVERWRITE": "broken.yaml"})
	g.Expect(err).To(MatchError(And(
		HavePrefix(`environment variable IMAGEVECTOR_OVERWRITE names the file "broken.yaml": decode images: `),
		HaveSuffix("; correct the file, or remove the variable"),
	)))
}
