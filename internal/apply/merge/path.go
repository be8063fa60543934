package merge

import (
	"slices"
	"strings"
)

// Path leads to a place in an object. Its elements are names of fields and, for items of lists, either "[<index>]" or
// "[<key>=<value>]", where key is a field whose value is different in every item of the list, such as the name.
type Path []string

// String writes the path as in `spec.template.spec.containers[name=app].image`. Names with other characters than letters,
// digits, dash and underscore stand in brackets: `metadata.labels['app.kubernetes.io/name']`.
func (p Path) String() string {
	var text strings.Builder
	for i, element := range p {
		switch {
		case strings.HasPrefix(element, "["):
			text.WriteString(element)
		case !isPlain(element):
			text.WriteString("['" + strings.ReplaceAll(element, "'", `\'`) + "']")
		case i > 0:
			text.WriteString("." + element)
		default:
			text.WriteString(element)
		}
	}
	return text.String()
}

// child returns a path of its own that leads one step further.
func (p Path) child(element string) Path {
	return append(slices.Clip(p), element)
}

func isPlain(name string) bool {
	for _, character := range name {
		switch {
		case 'a' <= character && character <= 'z', 'A' <= character && character <= 'Z', '0' <= character && character <= '9', character == '-', character == '_':
		default:
			return false
		}
	}
	return name != ""
}
