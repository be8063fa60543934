package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFindSuites(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	for name, content := range map[string]string{
		"test/e2e/a/suite_test.go":         "//go:build e2e\n\npackage a_test",
		"test/e2e/a/more_test.go":          "//go:build e2e\n\npackage a_test",
		"test/e2e/faults/suite_test.go":    "//go:build e2e\n\npackage faults_test",
		"test/e2e/cluster/overlay_test.go": "package cluster",
		"test/e2e/workload/main.go":        "package main",
	} {
		file := filepath.Join(root, name)
		g.Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	}
	deployed := []string{"a", "b"}
	g.Expect(findSuites(root, deployed)).To(Equal(suites{deployed: deployed, binaries: []string{"a"}, others: []string{"faults"}}))
}

func TestDigestTellsStatesOfTheWorkTreeApart(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	for _, name := range built {
		g.Expect(os.MkdirAll(filepath.Join(root, name), 0o755)).To(Succeed())
	}
	source := filepath.Join(root, "cmd", "main.go")
	g.Expect(os.WriteFile(source, []byte("one"), 0o600)).To(Succeed())
	first, err := digest(root)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(digest(root)).To(Equal(first))

	g.Expect(os.WriteFile(filepath.Join(root, "cmd", "main_test.go"), []byte("x"), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(root, "README.md"), []byte("x"), 0o600)).To(Succeed())
	g.Expect(digest(root)).To(Equal(first))

	g.Expect(os.WriteFile(source, []byte("two"), 0o600)).To(Succeed())
	g.Expect(digest(root)).NotTo(Equal(first))
}
