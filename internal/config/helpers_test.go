package config

import (
	"testing"

	. "github.com/onsi/gomega"
)

const header = "apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n"

// minimal is the smallest valid file; tests append their lines to it.
const minimal = header + "leaderElection: {resourceNamespace: garden}\n"

// load decodes and defaults a valid file.
func load(t *testing.T, file string) *ResourceManagerConfiguration {
	t.Helper()
	c, _, err := ResourceManager([]byte(file))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return c
}

// validate returns the mistakes in a readable file, one line each.
func validate(t *testing.T, file string) []string {
	t.Helper()
	return mistakes(load(t, file))
}

func mistakes(c *ResourceManagerConfiguration) []string {
	var lines []string
	for _, err := range c.Validate() {
		lines = append(lines, err.Error())
	}
	return lines
}

// decodeError returns the error for a file that cannot be decoded.
func decodeError(t *testing.T, file string) string {
	t.Helper()
	c, warnings, err := ResourceManager([]byte(file))
	g := NewWithT(t)
	g.Expect(err).To(HaveOccurred())
	g.Expect(c).To(BeNil())
	g.Expect(warnings).To(BeNil())
	return err.Error()
}

// warnings returns the warnings about a readable file, one line each.
func warnings(t *testing.T, file string) []string {
	t.Helper()
	_, found, err := ResourceManager([]byte(file))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var lines []string
	for _, w := range found {
		lines = append(lines, w.String())
	}
	return lines
}
