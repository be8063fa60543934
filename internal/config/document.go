package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
	syaml "sigs.k8s.io/yaml"
)

// document is a file that was parsed as YAML or JSON, but not decoded into a configuration yet. Its fields are named by paths as in
// messages to users: controllers.networkPolicy.namespaceSelectors[0].matchLabels.
type document struct {
	// tree is the content of the file: maps, slices, strings, booleans, json.Number and nil.
	tree any
	// moved contains the fields that move has moved, because their path in the file is an alias. The key is the new path, and the value the
	// path in the file.
	moved map[string]string
}

// parse reads data as YAML, which includes JSON. Values come from the parser that Kubernetes uses everywhere (so that "yes" is a boolean).
func parse(data []byte) (*document, []Warning, error) {
	asJSON, err := syaml.YAMLToJSON(data)
	if err != nil {
		return nil, nil, fmt.Errorf("parse YAML: %w", err)
	}
	doc := &document{moved: map[string]string{}}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	if err := decoder.Decode(&doc.tree); err != nil {
		return nil, nil, fmt.Errorf("parse YAML: %w", err)
	}
	return doc, repetitions(data), nil
}

// repetitions returns warnings about duplicate keys, of which only the last one counts, and about further documents, which are ignored. It
// parses the file once more, with another parser than parse, and returns no warnings if that parser cannot read the file.
func repetitions(data []byte) []Warning {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil || len(first.Content) == 0 {
		return nil
	}
	warnings := duplicates(first.Content[0], "")
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		warnings = append(warnings, Warning{Message: "only the first document of the file is read", Mistake: true})
	}
	return warnings
}

// duplicates finds keys that a mapping sets more than once. It does not follow YAML aliases, so that its running time is limited by the
// size of the file.
func duplicates(node *yaml.Node, at string) []Warning {
	var found []Warning
	switch node.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			if seen[key] {
				found = append(found, Warning{Path: child(at, key), Message: "set twice, the last one counts", Mistake: true})
			}
			seen[key] = true
			found = append(found, duplicates(node.Content[i+1], child(at, key))...)
		}
	case yaml.SequenceNode:
		for i, each := range node.Content {
			found = append(found, duplicates(each, item(at, i))...)
		}
	default: // Scalars and aliases have no keys.
	}
	return found
}

// child returns the path of a key of the object at a path; the path of the file is empty.
func child(at, key string) string { return strings.TrimPrefix(at+"."+key, ".") }

func item(at string, index int) string { return at + "[" + strconv.Itoa(index) + "]" }

// section returns the map at the path; nil if there is none. It creates one if create is true and no other value is there.
func (d *document) section(at string, create bool) map[string]any {
	current, _ := d.tree.(map[string]any)
	for step := range strings.FieldsFuncSeq(at, func(r rune) bool { return r == '.' }) {
		if create && current != nil && current[step] == nil {
			current[step] = map[string]any{}
		}
		current, _ = current[step].(map[string]any)
	}
	return current
}

// fieldOf returns the section that contains a field, and the name of the field in it. create has the same meaning as for section.
func (d *document) fieldOf(at string, create bool) (section map[string]any, name string) {
	dot := strings.LastIndexByte(at, '.')
	return d.section(at[:max(dot, 0)], create), at[dot+1:]
}

// removedItem takes the place of an item that is removed from a list. It is encoded as null, but is not a null of the file.
var removedItem any = (*struct{})(nil)

// find returns the path of a JSON pointer, its value, and a function that removes the value.
func (d *document) find(pointer jsontext.Pointer) (at string, value any, remove func()) {
	value, remove = d.tree, func() { d.tree = nil }
	for token := range pointer.Tokens() {
		switch parent := value.(type) {
		case map[string]any:
			at, value, remove = child(at, token), parent[token], func() { delete(parent, token) }
		case []any:
			index, _ := strconv.Atoi(token)
			at, value, remove = item(at, index), parent[index], func() { parent[index] = removedItem }
		}
	}
	return at, value, remove
}

// mistake returns an error that names a field.
func (d *document) mistake(at, message string) error {
	return errors.New(cmp.Or(d.inFile(at), "file") + ": " + message)
}

// inFile returns the path of a field in the file, which differs if the file uses an alias.
func (d *document) inFile(at string) string {
	for to, from := range d.moved {
		if rest, ok := strings.CutPrefix(at, to); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return from + rest
		}
	}
	return at
}
