package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// TestEveryFieldIsInTheDocumentation looks for the name of each field in its section of docs/configuration.md. Sections of other
// files refer to the section of the resource-manager family, so types that the files share are described only there.
func TestEveryFieldIsInTheDocumentation(t *testing.T) {
	content, err := os.ReadFile(filepath.FromSlash("../../docs/configuration.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	page, described := string(content), map[reflect.Type]bool{}
	for _, each := range []struct {
		file    any
		section func([]string) string
	}{
		{ResourceManagerConfiguration{}, familySection},
		{ControllerManagerConfiguration{}, func([]string) string { return "## project-controller\n" }},
		{OperatorConfiguration{}, func([]string) string { return "## garden-operator\n" }},
	} {
		types := map[reflect.Type]bool{}
		for _, field := range fieldsOf(reflect.TypeOf(each.file), nil, described, types) {
			heading := each.section(field)
			NewWithT(t).Expect(codeWords(sectionOf(page, heading))).To(HaveKey(field[len(field)-1]), "%s, in section %q", field, heading)
		}
		maps.Copy(described, types)
	}
}

// familySection returns the first words of the section about a field of the resource-manager family.
func familySection(field []string) string {
	switch field[0] {
	case "leaderElection", "server", "controllers", "webhooks":
		return "## `" + field[0] + "`"
	case "sourceClientConnection", "targetClientConnection":
		return "## `sourceClientConnection`"
	case "espalier":
		if len(field) > 2 {
			return "| field of `" + field[1] + "`"
		}
		return "## `espalier`"
	}
	return "## Top level"
}

// sectionOf returns the part of a page from a heading to the next one, or from the first line of a table to its end.
func sectionOf(page, heading string) string {
	_, rest, _ := strings.Cut(page, "\n"+heading)
	end := "\n## "
	if strings.HasPrefix(heading, "|") {
		end = "\n\n"
	}
	section, _, _ := strings.Cut(rest, end)
	return heading + section
}

// codeWords returns the words that are marked as code.
func codeWords(text string) map[string]bool {
	words := map[string]bool{}
	for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(text, -1) {
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(span, -1) {
			words[word] = true
		}
	}
	return words
}

// fieldsOf returns the paths of the fields of a configuration, and adds its types to types. It leaves out fields of described types, and of
// types of Kubernetes.
func fieldsOf(in reflect.Type, at []string, described, types map[reflect.Type]bool) [][]string {
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct || described[in] || !strings.HasSuffix(in.PkgPath(), "/internal/config") {
		return nil
	}
	types[in] = true
	var found [][]string
	for field := range in.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			path := append(slices.Clip(at), name)
			found = append(found, path)
			found = append(found, fieldsOf(field.Type, path, described, types)...)
		}
	}
	return found
}

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
	}
	return ResourceManager([]byte(file))
}

var (
	wholeFile = regexp.MustCompile(`(?m)^( *)apiVersion: \w+\.config\.gardener\.cloud/v1alpha1$`)
	endOfFile = regexp.MustCompile("^(```|[A-Z]+\n|---\n)")
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)\n```$")
)

// configurationsIn returns the configuration files in a page. Blocks that are a part of a file are completed.
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
