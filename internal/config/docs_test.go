package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// TestConfigurationsInTheDocumentationAreValid loads each configuration file in the pages, also those in ConfigMaps and in shell commands,
// and each part of such a file.
func TestConfigurationsInTheDocumentationAreValid(t *testing.T) {
	pages, err := filepath.Glob(filepath.FromSlash("../../docs/*.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	checked := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for i, file := range configurationsIn(string(content)) {
			checked++
			t.Run(filepath.Base(page)+" "+strconv.Itoa(i+1), func(t *testing.T) {
				g := NewWithT(t)
				loaded, warnings, err := loadAny(file)
				g.Expect(err).NotTo(HaveOccurred(), file)
				g.Expect(warnings).To(BeEmpty(), file)
				g.Expect(loaded.Validate()).To(BeEmpty(), file)
			})
		}
	}
	NewWithT(t).Expect(checked).To(BeNumerically(">", 20))
}

func loadAny(file string) (interface{ Validate() field.ErrorList }, []Warning, error) {
	switch {
	case strings.Contains(file, ControllerManagerAPIVersion):
		return ControllerManager([]byte(file))
	case strings.Contains(file, OperatorAPIVersion):
		return Operator([]byte(file))
	case strings.Contains(file, GardenletAPIVersion):
		return Gardenlet([]byte(file))
	}
	return ResourceManager([]byte(file))
}

var (
	wholeFile = regexp.MustCompile(`(?m)^( *)apiVersion: \w+\.config\.gardener\.cloud/v1alpha1$`)
	endOfFile = regexp.MustCompile("^(```|[A-Z]+\n|---\n)")
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)\n```$")
)

// configurationsIn returns the configuration files in a page. It completes code blocks that show only a part of a file.
func configurationsIn(page string) []string {
	var found []string
	for _, at := range wholeFile.FindAllStringSubmatchIndex(page, -1) {
		indent := page[at[2]:at[3]]
		var file strings.Builder
		for line := range strings.Lines(page[at[0]:]) {
			rest, inside := strings.CutPrefix(line, indent)
			if !inside || endOfFile.MatchString(rest) {
				break
			}
			file.WriteString(rest)
		}
		found = append(found, file.String())
	}
	for _, block := range yamlBlock.FindAllStringSubmatch(page, -1) {
		part := map[string]any{}
		if yaml.Unmarshal([]byte(block[1]), &part) != nil || !isPart(part) {
			continue
		}
		found = append(found, completed(block[1], part))
	}
	return found
}

// isPart reports whether a block has only sections of a configuration file.
func isPart(block map[string]any) bool {
	sections := []string{"controllers", "webhooks", "espalier", "server", "leaderElection", "sourceClientConnection", "targetClientConnection"}
	for name := range block {
		if !slices.Contains(sections, name) {
			return false
		}
	}
	return len(block) > 0
}

// completed adds the required fields of a file to a part of it.
func completed(text string, part map[string]any) string {
	head := "apiVersion: " + ResourceManagerAPIVersion + "\nkind: " + ResourceManagerKind + "\n"
	for _, section := range []string{"controllers", "espalier"} {
		if fields, ok := part[section].(map[string]any); ok && fields["project"] != nil {
			head = "apiVersion: " + ControllerManagerAPIVersion + "\nkind: " + ControllerManagerKind + "\n"
		}
	}
	if part["leaderElection"] == nil {
		head += "leaderElection: {resourceNamespace: espalier-system}\n"
	}
	return head + text
}
