package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	list "github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestEveryImageOfTheOperatorIsReplaced(t *testing.T) {
	g := NewWithT(t)
	embedded, err := list.Embedded()
	g.Expect(err).NotTo(HaveOccurred())
	var known list.List
	for _, each := range images() {
		known = append(known, list.Image{Name: each.name, TargetVersion: each.target, Ref: "espalier.local/" + each.name + ":" + each.folder})
	}
	text, err := imageList(known)
	g.Expect(err).NotTo(HaveOccurred())
	read, err := list.Parse([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	for target, folder := range map[string]string{defaultKubernetes: "kubernetes-1.36", "1.35.9": "kubernetes-1.35"} {
		cluster := list.Cluster{Target: version.MustParseGeneric(target)}
		for _, each := range embedded {
			found, err := embedded.Overwritten(read).Find(each.Name, cluster)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HavePrefix("espalier.local/"+each.Name+":"), target)
		}
		g.Expect(read.Find("kube-apiserver", cluster)).To(HaveSuffix(":" + folder))
	}
}

func TestFoldersOnRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		options options
		want    []string
	}{
		"those of the default version": {options: options{kubernetes: defaultKubernetes}, want: []string{"kubernetes-1.36"}},
		"those of another version":     {options: options{kubernetes: "1.35.2"}, want: []string{"kubernetes-1.36", "kubernetes-1.35"}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.options.requested()).To(Equal(tc.want)) })
	}
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

// appliedBy returns the standard input that a function of cluster.sh gives to kubectl apply.
func appliedBy(t *testing.T, args ...string) string {
	t.Helper()
	g := NewWithT(t)
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	g.Expect(os.WriteFile(kubectl, []byte("#!/bin/sh\n[ \"$1\" != apply ] || cat\n"), 0o700)).To(Succeed())
	script := exec.CommandContext(t.Context(), "./cluster.sh", args...)
	script.Env = append(os.Environ(), "KUBECTL="+kubectl)
	out, err := script.Output()
	g.Expect(err).NotTo(HaveOccurred())
	return string(out)
}

func TestObjectsParse(t *testing.T) {
	g := NewWithT(t)
	overlay, err := os.ReadFile("overlay.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range append(strings.Split(appliedBy(t, "add-ons", "coredns:1"), "\n---\n"), string(overlay)) {
		var object map[string]any
		g.Expect(yaml.UnmarshalStrict([]byte(each), &object)).To(Succeed(), each)
		g.Expect(object).To(HaveKey("kind"), each)
	}
}

func TestGardenIsValid(t *testing.T) {
	g := NewWithT(t)
	documents := strings.Split(appliedBy(t, "garden", defaultKubernetes, "/backups"), "\n---\n")
	o := &operatorv1alpha1.Garden{}
	g.Expect(yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), o)).To(Succeed())
	g.Expect(o.Name).To(Equal(gardenName))
	g.Expect(validation.Stored(o, o)).To(BeEmpty())
	_, err := values.New(o, values.Operator{})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestOperatorIsDeployedWithTheVersion(t *testing.T) {
	folder := t.TempDir()
	appliedBy(t, "operator", folder, "v1.2.3")
	written, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(written)).To(ContainSubstring(`{name: espalier.local/garden-operator, newTag: "v1.2.3"}`))
}
