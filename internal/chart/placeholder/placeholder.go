// Package placeholder replaces the placeholders in the values of a chart by contents of Secrets and ConfigMaps.
//
// A placeholder is {{ .resources.<name>.data.<key> }}, or {{ index .resources "<name>" "data" "<key>" }} for names with other characters
// than letters, digits and "_". Inside the braces, "| b64enc" may follow, which encodes the content in base64. A string may contain other
// text around a placeholder. A template of Go could do more, for example repeat a text for ever, and its result could change the structure
// of the values. So this package uses only the parser of Go's templates, and allows placeholders only in strings.
package placeholder

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"
)

// Resources are the texts that placeholders stand for, by the name of the resource and the key.
type Resources map[string]map[string]string

// Names returns the sorted names of the resources that values, a JSON object, refer to. An error names the field.
func Names(values []byte) ([]string, error) {
	found := map[string]bool{}
	_, err := replace(values, func(name, _ string) (string, error) {
		found[name] = true
		return "", nil
	})
	return slices.Sorted(maps.Keys(found)), err
}

// Replace returns values, a JSON object, with the texts of the resources. An error names the field and never a text.
func Replace(values []byte, resources Resources) ([]byte, error) {
	return replace(values, func(name, key string) (string, error) {
		data, known := resources[name]
		if !known {
			return "", fmt.Errorf("resource %q does not exist", name)
		}
		text, known := data[key]
		if !known {
			return "", fmt.Errorf("resource %q has no key %q", name, key)
		}
		return text, nil
	})
}

// lookup returns the text for a key of a resource.
type lookup func(name, key string) (string, error)

func replace(values []byte, find lookup) ([]byte, error) {
	if len(values) == 0 {
		return nil, nil
	}
	var decoded map[string]any
	decoder := json.NewDecoder(bytes.NewReader(values))
	decoder.UseNumber()                  // large numbers stay as they are
	if decoder.Decode(&decoded) != nil { // the message may quote values
		return nil, errors.New("values are not a JSON object")
	}
	replaced, err := replaceIn("", decoded, find)
	if err != nil {
		return nil, err
	}
	return json.Marshal(replaced)
}

func replaceIn(path string, value any, find lookup) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		replaced := make(map[string]any, len(v))
		for _, field := range slices.Sorted(maps.Keys(v)) {
			inner, err := replaceIn(strings.TrimPrefix(path+"."+field, "."), v[field], find)
			if err != nil {
				return nil, err
			}
			replaced[field] = inner
		}
		return replaced, nil
	case []any:
		replaced := make([]any, len(v))
		for i, item := range v {
			inner, err := replaceIn(fmt.Sprintf("%s[%d]", path, i), item, find)
			if err != nil {
				return nil, err
			}
			replaced[i] = inner
		}
		return replaced, nil
	case string:
		text, err := text(v, find)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return text, nil
	}
	return value, nil
}

func text(value string, find lookup) (string, error) {
	if !strings.Contains(value, "{{") {
		return value, nil
	}
	functions := map[string]any{"index": true, "b64enc": true}
	trees, err := parse.Parse("value", value, "", "", functions)
	if err != nil || len(trees) != 1 || trees["value"] == nil { // the message may quote the value
		return "", errForm
	}
	var result strings.Builder
	for _, node := range trees["value"].Root.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			result.Write(n.Text)
		case *parse.ActionNode:
			found, err := placeholder(n.Pipe, find)
			if err != nil {
				return "", err
			}
			result.WriteString(found)
		default:
			return "", errForm
		}
	}
	return result.String(), nil
}

var errForm = errors.New("a placeholder must have the form {{ .resources.<name>.data.<key> }} or " +
	`{{ index .resources "<name>" "data" "<key>" }}, with or without | b64enc`)

func placeholder(pipe *parse.PipeNode, find lookup) (string, error) {
	if len(pipe.Decl) > 0 || len(pipe.Cmds) > 2 {
		return "", errForm
	}
	path := pathOf(pipe.Cmds[0].Args)
	if len(path) != 4 || path[0] != "resources" || path[2] != "data" {
		return "", errForm
	}
	found, err := find(path[1], path[3])
	if err != nil || len(pipe.Cmds) == 1 {
		return found, err
	}
	if encoding, ok := pipe.Cmds[1].Args[0].(*parse.IdentifierNode); !ok || encoding.Ident != "b64enc" || len(pipe.Cmds[1].Args) > 1 {
		return "", errForm
	}
	return base64.StdEncoding.EncodeToString([]byte(found)), nil
}

// pathOf returns the path of a command; nil if the command is not a path.
func pathOf(args []parse.Node) []string {
	if field, ok := args[0].(*parse.FieldNode); ok && len(args) == 1 {
		return field.Ident
	}
	function, isFunction := args[0].(*parse.IdentifierNode)
	if !isFunction || function.Ident != "index" || len(args) < 2 {
		return nil
	}
	field, ok := args[1].(*parse.FieldNode)
	if !ok {
		return nil
	}
	path := slices.Clone(field.Ident)
	for _, each := range args[2:] {
		constant, ok := each.(*parse.StringNode)
		if !ok {
			return nil
		}
		path = append(path, constant.Text)
	}
	return path
}
