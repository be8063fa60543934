package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Describe formats an object for conditions.
func Describe(kind schema.GroupVersionKind, namespace, name string) string {
	if namespace == "" {
		namespace = "default"
	}
	return fmt.Sprintf("%s/%s/%s/%s", kind.GroupVersion().String(), kind.Kind, namespace, name)
}

// MaxListed is how many texts a message lists.
const MaxListed = 20

// Bounded returns the first texts, and how many there are more.
func Bounded(texts []string) []string {
	if len(texts) <= MaxListed {
		return texts
	}
	return append(slices.Clone(texts[:MaxListed]), fmt.Sprintf("and %d more", len(texts)-MaxListed))
}

// CountedErrors lists errors in the format of Gardener's controllers.
func CountedErrors(texts []string) string {
	if len(texts) == 1 {
		return ": 1 error occurred: " + texts[0]
	}
	return fmt.Sprintf(": %d errors occurred: [%s]", len(texts), strings.Join(Bounded(texts), ", "))
}
