// Package goldentest compares the objects of components with golden files, and sends all golden files to a real API server.
package goldentest

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/golden"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/test/local"
)

var update = flag.Bool("update", false, "write the golden files")

const folder = "testdata"

// Compare compares the objects of each variant of a component with testdata/<variant>.yaml. With -update it replaces the folder testdata.
//
// The parameter base is the name of one variant. The file of this variant contains all its objects, in their order. The file of another
// variant contains only the objects that the variant base does not contain, or contains in another form. Comments in this file name the
// objects that only the variant base contains. If base is empty, every file contains all objects of its variant.
func Compare(t *testing.T, base string, variants map[string][]client.Object) {
	t.Helper()
	g := NewWithT(t)
	rendered := map[string][]document{}
	for name, objects := range variants {
		rendered[name] = render(g, objects)
	}
	if base != "" {
		g.Expect(rendered).To(HaveKey(base))
	}
	if *update {
		g.Expect(os.RemoveAll(folder)).To(Succeed())
		g.Expect(os.MkdirAll(folder, 0o750)).To(Succeed())
	}
	for name, documents := range rendered {
		t.Run(name, func(t *testing.T) {
			own := NewWithT(t)
			got := text(documents)
			if base != "" && name != base {
				got = difference(rendered[base], documents)
			}
			path := filepath.Join(folder, name+".yaml")
			if *update {
				own.Expect(os.WriteFile(path, []byte(got), 0o600)).To(Succeed())
			}
			want, err := os.ReadFile(path)
			own.Expect(err).NotTo(HaveOccurred())
			own.Expect(got).To(Equal(string(want)), "if that is intended: %s", updateCommand(own))
		})
	}
	entries, err := os.ReadDir(folder)
	g.Expect(err).NotTo(HaveOccurred())
	files := make([]string, 0, len(entries))
	for _, each := range entries {
		files = append(files, strings.TrimSuffix(each.Name(), ".yaml"))
	}
	g.Expect(files).To(ConsistOf(slices.Collect(maps.Keys(variants))), "files in testdata without a variant")
}

// updateCommand is the command that writes the golden files of the package whose test runs, from the root of the repository.
func updateCommand(g Gomega) string {
	root, err := local.RepositoryRoot()
	g.Expect(err).NotTo(HaveOccurred())
	here, err := os.Getwd()
	g.Expect(err).NotTo(HaveOccurred())
	folder, err := filepath.Rel(root, here)
	g.Expect(err).NotTo(HaveOccurred())
	return "go test ./" + filepath.ToSlash(folder) + " -update"
}

// document is an object as text, with its identity.
type document struct{ identity, content string }

func render(g Gomega, objects []client.Object) []document {
	converted, err := rollout.Unstructured(objects...)
	g.Expect(err).NotTo(HaveOccurred())
	documents := make([]document, 0, len(converted))
	known := map[string]bool{}
	for _, each := range converted {
		content, err := rollout.YAML(each)
		g.Expect(err).NotTo(HaveOccurred())
		identity := golden.Identity(each)
		g.Expect(each.GetAPIVersion()).NotTo(BeEmpty(), identity)
		g.Expect(known).NotTo(HaveKey(identity))
		known[identity] = true
		documents = append(documents, document{identity: identity, content: string(content)})
	}
	return documents
}

func text(documents []document) string {
	var all strings.Builder
	for _, each := range documents {
		all.WriteString(golden.Separator + each.content)
	}
	return all.String()
}

func difference(base, variant []document) string {
	var all strings.Builder
	contents := map[string]string{}
	for _, each := range base {
		contents[each.identity] = each.content
		if !slices.ContainsFunc(variant, func(other document) bool { return other.identity == each.identity }) {
			all.WriteString(golden.Absent + each.identity + "\n")
		}
	}
	for _, each := range variant {
		if contents[each.identity] != each.content {
			all.WriteString(golden.Separator + each.content)
		}
	}
	return all.String()
}
