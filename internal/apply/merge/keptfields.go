package merge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// keptPaths returns the paths in the annotation KeepFields of a manifest. The fields of the live object at these paths stay as they are.
func keptPaths(annotations map[string]string) ([]fieldpath.Path, error) {
	text, found := annotations[resourcesv1alpha1.KeepFields]
	if !found {
		return nil, nil
	}
	var paths []fieldpath.Path
	for _, each := range splitPaths(text) {
		path, err := parsePath(each)
		if err == nil {
			err = checkKept(path)
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s: path %q: %w", resourcesv1alpha1.KeepFields, each, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// checkKept returns an error if a path is in apiVersion, kind, metadata or status, which the annotations KeepFields and IgnoreFields cannot
// select.
func checkKept(path fieldpath.Path) error {
	if path[0].FieldName == nil || slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, *path[0].FieldName) {
		return errors.New("only fields outside of apiVersion, kind, metadata and status can be kept")
	}
	return nil
}

// splitPaths splits a text at commas and line ends outside of brackets.
func splitPaths(text string) []string {
	var paths []string
	inside, quoted, begin := false, false, 0
	for i, each := range text + "\n" {
		switch {
		case each == '\'' && inside:
			quoted = !quoted
		case (each == '[' || each == ']') && !quoted:
			inside = each == '['
		case each == '\n', each == ',' && !inside:
			if path := strings.TrimSpace(text[begin:i]); path != "" {
				paths = append(paths, path)
			}
			inside, quoted, begin = false, false, min(i+1, len(text))
		}
	}
	return paths
}

// parsePath reads a path in the form of PathText.
func parsePath(text string) (fieldpath.Path, error) {
	var path fieldpath.Path
	for rest := text; rest != ""; {
		var element fieldpath.PathElement
		var err error
		if strings.HasPrefix(rest, "[") {
			element, rest, err = parseBrackets(rest[1:])
		} else {
			name := strings.TrimPrefix(rest, ".")
			if (len(path) > 0) == (name == rest) {
				return nil, fmt.Errorf("expected %q or %q before %q", ".", "[", rest)
			}
			end := strings.IndexAny(name, ".[")
			if end < 0 {
				end = len(name)
			}
			if !isPlain(name[:end]) {
				return nil, fmt.Errorf("write the field %q in brackets and quotes, as in labels['a.b/c']", name[:end])
			}
			element, rest = fieldpath.FieldNameElement(name[:end]), name[end:]
		}
		if err != nil {
			return nil, err
		}
		path = append(path, element)
	}
	if len(path) == 0 {
		return nil, errors.New("the path is empty")
	}
	return path, nil
}

// parseBrackets reads an element in brackets, without the opening one, and returns the text after it.
func parseBrackets(text string) (element fieldpath.PathElement, rest string, err error) {
	if quoted, isName := strings.CutPrefix(text, "'"); isName {
		name, after, closed := strings.Cut(quoted, "']")
		if !closed || name == "" {
			return element, "", errors.New("a name in brackets must end with ']")
		}
		return fieldpath.FieldNameElement(strings.ReplaceAll(name, `\'`, "'")), after, nil
	}
	inner, rest, closed := strings.Cut(text, "]")
	if !closed {
		return element, "", errors.New("a bracket is not closed")
	}
	if index, err := strconv.Atoi(inner); err == nil && index >= 0 {
		return fieldpath.IndexElement(index), rest, nil
	}
	var keys []any
	for pair := range strings.SplitSeq(inner, ",") {
		name, text, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return element, "", fmt.Errorf(
				"brackets contain %q, but must contain a number, fields such as name=x, or a name in single quotes", inner,
			)
		}
		keys = append(keys, name, text)
	}
	return fieldpath.KeyElementByFields(keys...), rest, nil
}

// keepPath returns result with the value of live at a path, or without that value if live has none. If the path leads through a list item
// that only one of the two has, keepPath keeps nothing, because the manifest adds or removes that item.
func keepPath(live, result any, path fieldpath.Path) any {
	element, below := path[0], path[1:]
	if _, isMap := result.(map[string]any); isMap && element.Index != nil {
		element = fieldpath.FieldNameElement(strconv.Itoa(*element.Index))
	}
	if element.FieldName != nil {
		return keepField(live, result, *element.FieldName, below)
	}
	return keepItem(live, result, element, below)
}

func keepField(live, result any, name string, below fieldpath.Path) any {
	liveFields, _ := live.(map[string]any)
	fields, isMap := result.(map[string]any)
	switch {
	case !isMap && (result != nil || liveFields[name] == nil):
		return result
	case !isMap:
		fields = map[string]any{}
	}
	kept := liveFields[name]
	if len(below) > 0 {
		kept = keepPath(kept, fields[name], below)
	}
	if kept == nil {
		delete(fields, name)
	} else {
		fields[name] = kept
	}
	return fields
}

func keepItem(live, result any, element fieldpath.PathElement, below fieldpath.Path) any {
	liveItems, _ := live.([]any)
	items, isList := result.([]any)
	if !isList && result != nil {
		return result
	}
	from, to := indexOf(liveItems, element), indexOf(items, element)
	switch {
	case from >= 0 && to >= 0 && len(below) > 0:
		items[to] = keepPath(liveItems[from], items[to], below)
	case from >= 0 && to >= 0:
		items[to] = liveItems[from]
	case len(below) > 0 || from < 0 && to < 0:
		return result
	case from >= 0:
		items = slices.Insert(items, min(from, len(items)), liveItems[from])
	default:
		items = slices.Delete(items, to, to+1)
	}
	return items
}

// indexOf returns the position of the item that a path element selects, -1 if there is none.
func indexOf(items []any, element fieldpath.PathElement) int {
	if element.Index != nil {
		if *element.Index < len(items) {
			return *element.Index
		}
		return -1
	}
	return slices.IndexFunc(items, func(item any) bool {
		fields, isMap := item.(map[string]any)
		return isMap && !slices.ContainsFunc(*element.Key, func(key value.Field) bool {
			return fields[key.Name] == nil || fmt.Sprint(fields[key.Name]) != fmt.Sprint(key.Value.Unstructured())
		})
	})
}
