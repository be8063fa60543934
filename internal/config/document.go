package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	syaml "sigs.k8s.io/yaml"
)

// path is the path of a field in a file: keys, and "[0]" for the items of lists.
type path []string

// child returns a copy of p with one more step.
func (p path) child(step string) path { return append(slices.Clip(p), step) }

func (p path) item(index int) path { return p.child("[" + strconv.Itoa(index) + "]") }

func (p path) parent() path { return p[:len(p)-1] }

func (p path) last() string { return p[len(p)-1] }

// String formats p as in messages to users: controllers.networkPolicy.namespaceSelectors[0].matchLabels.
func (p path) String() string {
	return strings.ReplaceAll(strings.Join(p, "."), ".[", "[")
}

// document is a file that was parsed as YAML or JSON, but not decoded into a configuration yet.
type document struct {
	// tree is the content of the file: maps, slices, strings, booleans, json.Number and nil.
	tree any
	// node is the same content with line numbers. It is nil if the parser that knows lines cannot read the file; messages then name fields
	// only.
	node *yaml.Node
	// moved maps the path that a field was moved to, because it is an alias, to its path in the file.
	moved map[string]path
}

// parse reads data as YAML, which includes JSON. Values come from the parser that Kubernetes uses everywhere (so that "yes" is a boolean),
// line numbers from a second parser.
func parse(data []byte) (*document, []Warning, error) {
	asJSON, err := syaml.YAMLToJSON(data)
	if err != nil {
		return nil, nil, fmt.Errorf("parse YAML: %w", err)
	}
	doc := &document{moved: map[string]path{}}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	if err := decoder.Decode(&doc.tree); err != nil {
		return nil, nil, fmt.Errorf("parse YAML: %w", err)
	}
	node, warnings := readNodes(data)
	doc.node = node
	return doc, warnings, nil
}

// readNodes returns the first document of data with its line numbers, and warnings about duplicate keys and further documents, which are
// both ignored.
func readNodes(data []byte) (*yaml.Node, []Warning) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil || len(first.Content) == 0 {
		return nil, nil
	}
	warnings := duplicates(first.Content[0], nil)
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		warnings = append(warnings, Warning{Line: second.Line, Message: "only the first document of the file is read", Mistake: true})
	}
	return first.Content[0], warnings
}

// duplicates finds keys that a mapping sets more than once. It does not follow YAML aliases, so that its running time is limited by the
// size of the file.
func duplicates(node *yaml.Node, at path) []Warning {
	var found []Warning
	switch node.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if seen[key.Value] {
				found = append(found, Warning{
					Path: at.child(key.Value).String(), Line: key.Line, Message: "set twice, the last one counts", Mistake: true,
				})
			}
			seen[key.Value] = true
			found = append(found, duplicates(node.Content[i+1], at.child(key.Value))...)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			found = append(found, duplicates(item, at.item(i))...)
		}
	default: // Scalars and aliases have no keys.
	}
	return found
}

// section returns the map at the path; nil if there is none. It creates one if create is true and no other value is there.
func (d *document) section(at path, create bool) map[string]any {
	current, _ := d.tree.(map[string]any)
	for _, step := range at {
		if create && current != nil && current[step] == nil {
			current[step] = map[string]any{}
		}
		current, _ = current[step].(map[string]any)
	}
	return current
}

// warn returns a warning about a field of the file.
func (d *document) warn(at path, message string) Warning {
	return Warning{Path: at.String(), Line: lineOf(d.node, at), Message: message}
}

// mistake returns an error that names a field and its line.
func (d *document) mistake(at path, message string) error {
	where := d.inFile(at)
	return errors.New(Warning{Path: cmp.Or(where.String(), "file"), Line: lineOf(d.node, where), Message: message}.String())
}

// inFile returns the path of a field in the file, which differs if the file uses an alias.
func (d *document) inFile(at path) path {
	for i := len(at); i > 0; i-- {
		if original, ok := d.moved[at[:i].String()]; ok {
			return append(slices.Clip(original), at[i:]...)
		}
	}
	return at
}

func lineOf(node *yaml.Node, at path) int {
	line := 0
	for _, step := range at {
		if node == nil {
			return line
		}
		key, value := stepInto(node, step)
		if value == nil {
			return line
		}
		line, node = key.Line, value
	}
	return line
}

// stepInto returns the nodes of one key and its value, or of a list's item (twice). Of duplicate keys it returns the last one, which is
// also the one whose value is used.
func stepInto(node *yaml.Node, step string) (key, value *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := len(node.Content) - 2; i >= 0; i -= 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if index, err := strconv.Atoi(step[1 : len(step)-1]); err == nil && index < len(node.Content) {
			return node.Content[index], node.Content[index]
		}
	default: // Scalars have no children, and aliases are not followed.
	}
	return nil, nil
}
