// Command brief removes the descriptions of fields from files with one CustomResourceDefinition each, and versions of a kind that are not
// stored. hack/garden-crds.sh calls it.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, file := range os.Args[1:] {
		if err := shorten(file); err != nil {
			fmt.Fprintf(os.Stderr, "error: %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func shorten(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var definition map[string]any
	err = yaml.Unmarshal(content, &definition)
	if err != nil {
		return err
	}
	dropDescriptions(definition)
	keepStored(definition)
	if content, err = yaml.Marshal(definition); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// dropDescriptions removes the descriptions from a value. A property may be called "description", and is then an object.
func dropDescriptions(value any) {
	switch v := value.(type) {
	case map[string]any:
		if _, isText := v["description"].(string); isText {
			delete(v, "description")
		}
		for _, each := range v {
			dropDescriptions(each)
		}
	case []any:
		for _, each := range v {
			dropDescriptions(each)
		}
	}
}

// keepStored removes the versions that are only served. Conversion between versions would need the webhook of another program.
func keepStored(definition map[string]any) {
	spec, _ := definition["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	stored := []any{}
	for _, each := range versions {
		version, _ := each.(map[string]any)
		if isStored, _ := version["storage"].(bool); isStored {
			stored = append(stored, each)
		}
	}
	spec["versions"] = stored
}
