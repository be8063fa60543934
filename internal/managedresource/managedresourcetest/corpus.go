package managedresourcetest

import (
	"embed"
	"strings"

	. "github.com/onsi/gomega"
)

//go:embed corpus/*.yaml
var corpus embed.FS

// Corpus returns manifests of the built-in kinds that sets use, and of custom resources, for tests that change them. It defines the custom
// resource in the target, and gives the controller the rights on all kinds. The controller must not run yet.
func (e *Env) Corpus() []string {
	e.T.Helper()
	e.Grant("*", "*")
	e.Create(e.documents("definition.yaml")[0])
	return append(e.documents("builtin.yaml"), e.documents("custom.yaml")...)
}

func (e *Env) documents(file string) []string {
	e.T.Helper()
	content, err := corpus.ReadFile("corpus/" + file)
	e.Expect(err).NotTo(HaveOccurred())
	return strings.Split(e.Fill(string(content)), "\n---\n")
}
