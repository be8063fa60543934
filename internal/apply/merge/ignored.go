package merge

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Ignored are the fields of the objects of a set that stay as other programs set them (annotation IgnoreFields of the set). The zero value
// ignores no field.
type Ignored struct {
	text  string
	rules []ignoreRule
}

// ignoreRule is one item of the annotation IgnoreFields. paths contains the pointers of the item as paths.
type ignoreRule struct {
	Pointers []string `json:"pointers"`
	// Target selects the objects of the rule. Kind is "Kind" or "Kind.group"; Name and Namespace are patterns of path.Match. An empty field
	// selects all.
	Target struct {
		Kind      string `json:"kind"`
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"target"`

	paths []fieldpath.Path
}

// ParseIgnored reads the annotation IgnoreFields. Its errors name the annotation.
func ParseIgnored(annotations map[string]string) (Ignored, error) {
	text, found := annotations[resourcesv1alpha1.IgnoreFields]
	if !found {
		return Ignored{}, nil
	}
	ignored := Ignored{text: text}
	if err := ignored.read(); err != nil {
		return Ignored{}, fmt.Errorf("annotation %s: %w", resourcesv1alpha1.IgnoreFields, err)
	}
	return ignored, nil
}

// maxIgnoreRules and maxPointers limit the rules of a set, and the pointers of each rule: every rule costs time for each object.
const maxIgnoreRules, maxPointers = 64, 64

// read reads the rules from the text. It returns the first error.
func (i *Ignored) read() error {
	if err := yaml.UnmarshalStrict([]byte(i.text), &i.rules); err != nil {
		return errors.New(excerpt.Quoted(err.Error())) // the error may quote the whole text
	}
	if len(i.rules) > maxIgnoreRules {
		return fmt.Errorf("%d rules are too many: at most %d", len(i.rules), maxIgnoreRules)
	}
	for at := range i.rules {
		if err := i.rules[at].complete(); err != nil {
			return err
		}
	}
	return nil
}

// String returns the text of the annotation.
func (i Ignored) String() string { return i.text }

// complete reads the pointers, and checks the patterns.
func (r *ignoreRule) complete() error {
	if len(r.Pointers) == 0 {
		return errors.New("a rule has no pointers")
	}
	if len(r.Pointers) > maxPointers {
		return fmt.Errorf("a rule has %d pointers: at most %d", len(r.Pointers), maxPointers)
	}
	for _, pattern := range []string{r.Target.Name, r.Target.Namespace} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", excerpt.Quoted(pattern), err)
		}
	}
	for _, pointer := range r.Pointers {
		parsed, err := parsePointer(pointer)
		if err == nil {
			err = checkKept(parsed)
		}
		if err != nil {
			return fmt.Errorf("pointer %q: %w", excerpt.Quoted(pointer), err)
		}
		r.paths = append(r.paths, parsed)
	}
	return nil
}

// parsePointer reads a JSON pointer (RFC 6901).
func parsePointer(text string) (fieldpath.Path, error) {
	tokens := strings.Split(text, "/")
	if len(tokens) < 2 || tokens[0] != "" {
		return nil, errors.New("a JSON pointer begins with a slash")
	}
	parsed := make(fieldpath.Path, 0, len(tokens)-1)
	for _, token := range tokens[1:] {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(token), "~") {
			return nil, errors.New("~ must be written as ~0")
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		element := fieldpath.FieldNameElement(token)
		if index, err := strconv.Atoi(token); err == nil && index >= 0 && strconv.Itoa(index) == token {
			element = fieldpath.IndexElement(index) // or the key of a map: see keepPath
		}
		parsed = append(parsed, element)
	}
	return parsed, nil
}

// of returns the paths to the fields of an object that stay as other programs set them.
func (i Ignored) of(object *unstructured.Unstructured) []fieldpath.Path {
	var paths []fieldpath.Path
	for _, each := range i.rules {
		if each.matches(object) {
			paths = append(paths, each.paths...)
		}
	}
	return paths
}

func (r *ignoreRule) matches(object *unstructured.Unstructured) bool {
	kind := object.GroupVersionKind().GroupKind()
	isOfKind := r.Target.Kind == "" || r.Target.Kind == kind.Kind || schema.ParseGroupKind(r.Target.Kind) == kind
	return isOfKind && !slices.ContainsFunc([][2]string{{r.Target.Name, object.GetName()}, {r.Target.Namespace, object.GetNamespace()}},
		func(pair [2]string) bool {
			matched, _ := path.Match(pair[0], pair[1])
			return pair[0] != "" && !matched
		})
}
