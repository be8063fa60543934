package merge

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// PathText formats a path as in `spec.template.spec.containers[name=app].image`. Names with other characters than letters, digits, dash and
// underscore stand in brackets: `metadata.labels['app.kubernetes.io/name']`. The text form of package fieldpath does not show where such a
// name ends.
func PathText(path fieldpath.Path) string {
	var text strings.Builder
	for i, element := range path {
		switch {
		case element.FieldName == nil:
			_, _ = text.WriteString(itemText(element))
		case !isPlain(*element.FieldName):
			_, _ = text.WriteString("['" + strings.ReplaceAll(*element.FieldName, "'", `\'`) + "']")
		case i > 0:
			_, _ = text.WriteString("." + *element.FieldName)
		default:
			_, _ = text.WriteString(*element.FieldName)
		}
	}
	return text.String()
}

func itemText(element fieldpath.PathElement) string {
	switch {
	case element.Index != nil:
		return fmt.Sprintf("[%d]", *element.Index)
	case element.Value != nil:
		return fmt.Sprintf("[=%v]", (*element.Value).Unstructured())
	case element.Key == nil:
		return "[]"
	}
	keys := make([]string, 0, len(*element.Key))
	for _, field := range *element.Key {
		keys = append(keys, fmt.Sprintf("%s=%v", field.Name, field.Value.Unstructured()))
	}
	return "[" + strings.Join(keys, ",") + "]"
}

// below returns a new path with one more element.
func below(path fieldpath.Path, element fieldpath.PathElement) fieldpath.Path {
	return append(slices.Clip(path), element)
}

// itemElement selects an item of a list by one of its fields.
func itemElement(item any, key string) fieldpath.PathElement {
	fields, _ := item.(map[string]any)
	return fieldpath.KeyElementByFields(key, fields[key])
}

func isPlain(name string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return name != "" && strings.Trim(name, plain) == ""
}
