package plan

import (
	"regexp"
	"slices"
	"strings"
)

// holdsCopies tells whether an annotation holds a copy of a whole object, in which nobody can tell a password from a
// colour. Whatever else holds one is found by its kind.
func holdsCopies(annotation string) bool {
	return annotation == "kubectl.kubernetes.io/last-applied-configuration"
}

// copyOfSecret matches a text in JSON that holds a Secret, however often it was quoted.
var copyOfSecret = regexp.MustCompile(`\\*"kind\\*"\s*:\s*\\*"Secret(List)?\\*"`)

// shownOfSecret are the fields of a Secret whose values are not secret. Everything else is masked, so that a
// misspelt "stringdata" is too.
func shownOfSecret() []string { return []string{"apiVersion", "kind", "metadata", "type", "immutable"} }

// ownAnnotations are the prefixes of annotations whose values are shown even of Secrets: they are ours. Programs keep
// copies of whole objects in others.
func ownAnnotations() []string { return []string{"resources.gardener.cloud/", "espalier.dev/"} }

// position is where in an object a value stands, as far as that matters for whether it may be seen.
type position struct {
	// inSecret tells that it is in a Secret; path leads there from the innermost one.
	inSecret bool
	path     []string
	// hidden tells that it, or what it is in, must not be seen.
	hidden bool
}

// of returns the position of what is inside of a value, which may be a Secret itself.
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

// scrubbed returns a value without what must not be seen anywhere inside of it.
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
