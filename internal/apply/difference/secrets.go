package difference

import (
	"regexp"
	"slices"
	"strings"
)

// holdsCopies reports whether an annotation contains a copy of a whole object. In such a copy, secret values cannot be distinguished from
// other values. Copies of Secrets in all other texts are detected by the text: see copyOfSecret.
func holdsCopies(annotation string) bool {
	return annotation == "kubectl.kubernetes.io/last-applied-configuration"
}

// copyOfSecret matches a JSON text that contains a Secret, with any number of quoting levels.
var copyOfSecret = regexp.MustCompile(`\\*"kind\\*"\s*:\s*\\*"Secret(List)?\\*"`)

// shownOfSecret are the fields of a Secret whose values are not secret. All others are masked, even a misspelled "stringdata".
func shownOfSecret() []string { return []string{"apiVersion", "kind", "metadata", "type", "immutable"} }

// ownAnnotations are the prefixes of annotations whose values are shown even for Secrets, because Espalier and Gardener define them. Other
// annotations of a Secret are masked, because programs may store copies of whole objects in them.
func ownAnnotations() []string { return []string{"resources.gardener.cloud/", "espalier.dev/"} }

// position is the place of a value in an object. It determines whether a plan may show the value.
type position struct {
	// inSecret is true if the value is in a Secret. path is the path to the value in the innermost Secret.
	inSecret bool
	path     []string
	// hidden is true if the value, or a value that contains it, must not be shown.
	hidden bool
}

// of returns the position of the contents of a value, which may be a Secret itself.
func (p position) of(value any) position {
	if object, isMap := value.(map[string]any); isMap && object["kind"] == "Secret" {
		return position{inSecret: true, hidden: p.hidden}
	}
	return p
}

// below returns the position of a field or item.
func (p position) below(element string) position {
	if !p.inSecret {
		return p
	}
	next := position{inSecret: true, path: append(slices.Clip(p.path), element), hidden: p.hidden}
	switch {
	case len(next.path) == 1:
		next.hidden = next.hidden || !slices.Contains(shownOfSecret(), element)
	case len(next.path) == 3 && next.path[0] == "metadata" && next.path[1] == "annotations":
		own := slices.ContainsFunc(ownAnnotations(), func(prefix string) bool { return strings.HasPrefix(element, prefix) })
		next.hidden = next.hidden || !own
	}
	return next
}

// scrubbed returns a value without the parts that must not be shown.
func scrubbed(value any, at position) any {
	if at.hidden {
		return notShown
	}
	switch typed := value.(type) {
	case map[string]any:
		plain := make(map[string]any, len(typed))
		for name, each := range typed {
			if holdsCopies(name) {
				plain[name] = notShown
				continue
			}
			plain[name] = scrubbed(each, at.of(value).below(name))
		}
		return plain
	case []any:
		plain := make([]any, 0, len(typed))
		for _, each := range typed {
			plain = append(plain, scrubbed(each, at.below("")))
		}
		return plain
	case string:
		if copyOfSecret.MatchString(typed) {
			return notShown
		}
	}
	return value
}
