package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	list "github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/webhook/validation"
)

func TestEveryImageOfTheOperatorIsReplaced(t *testing.T) {
	g := NewWithT(t)
	embedded, err := list.Embedded()
	g.Expect(err).NotTo(HaveOccurred())
	references := map[string]string{}
	for _, each := range images() {
		references[each.name] = "espalier.local/" + each.name + ":1"
	}
	// The operator does not deploy the virtual cluster yet.
	virtual := []string{"kube-apiserver", "kube-controller-manager"}
	for _, each := range embedded {
		if !slices.Contains(virtual, each.Name) {
			g.Expect(references).To(HaveKey(each.Name))
		}
	}
	g.Expect(list.Parse([]byte(imageList(map[string]string{"a": "b:1", "c": "d:2"})))).To(Equal(list.List{
		{Name: "a", Ref: "b:1"}, {Name: "c", Ref: "d:2"},
	}))
}

func TestTagsFollowTheContent(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "standin")
	pack := func(content string, i image) packed {
		g.Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		p, err := i.pack(map[string]string{"standin": file}, "/state")
		g.Expect(err).NotTo(HaveOccurred())
		return p
	}
	first := pack("1", only("a", "standin", "80"))
	g.Expect(pack("1", only("a", "standin", "80"))).To(Equal(first))
	g.Expect(pack("2", only("a", "standin", "80")).Image).NotTo(Equal(first.Image))
	g.Expect(pack("1", only("a", "standin", "81")).Image).NotTo(Equal(first.Image))
	g.Expect(first.Archive).To(Equal("/state/a-" + strings.TrimPrefix(first.Image, "espalier.local/a:") + ".tar"))
	_, err := only("a", "absent").pack(nil, "")
	g.Expect(err).To(MatchError("pack image a: there is no program absent"))
}

func TestObjectsParse(t *testing.T) {
	g := NewWithT(t)
	for _, each := range append(strings.Split(addOns, "\n---\n"), overlay) {
		var object map[string]any
		g.Expect(yaml.UnmarshalStrict([]byte(each), &object)).To(Succeed(), each)
		g.Expect(object).To(HaveKey("kind"), each)
	}
}

func TestGardenIsValid(t *testing.T) {
	g := NewWithT(t)
	documents := strings.Split(garden, "\n---\n")
	o := &operatorv1alpha1.Garden{}
	g.Expect(yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), o)).To(Succeed())
	g.Expect(o.Name).To(Equal(gardenName))
	g.Expect(validation.Stored(o)).To(BeEmpty())
	_, err := values.New(o, values.Operator{})
	g.Expect(err).NotTo(HaveOccurred())
}
