// Package golden has the format of the golden files of components, which package goldentest writes and compares.
package golden

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// Separator begins each object.
	Separator = "---\n"
	// Absent begins a line that names an object which the base has, and the variant of the file does not.
	Absent = "# absent: "
)

// Identity returns the kind, the namespace and the name of an object.
func Identity(o *unstructured.Unstructured) string {
	return strings.TrimSpace(o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
}

// Decode returns the objects in the content of a file, and the identities of the objects that only the base has.
func Decode(content []byte) (objects []*unstructured.Unstructured, absent []string, err error) {
	for document := range strings.SplitSeq("\n"+string(content), "\n"+Separator) {
		for line := range strings.Lines(document) {
			if name, isAbsent := strings.CutPrefix(strings.TrimSpace(line), Absent); isAbsent {
				absent = append(absent, name)
			}
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			return nil, nil, fmt.Errorf("decode object: %w", err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
	return objects, absent, nil
}
