package status

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Describe formats an object for conditions: "<apiVersion>/<kind>/<namespace>/<name>", with "default" for an empty namespace.
func Describe(kind schema.GroupVersionKind, namespace, name string) string {
	if namespace == "" {
		namespace = "default"
	}
	return fmt.Sprintf("%s/%s/%s/%s", kind.GroupVersion().String(), kind.Kind, namespace, name)
}

// MaxListed is how many texts a message lists.
const MaxListed = 20

// Bounded returns the first MaxListed texts, and, as a last text, how many more there are.
func Bounded(texts []string) []string {
	if len(texts) <= MaxListed {
		return texts
	}
	return append(slices.Clone(texts[:MaxListed]), fmt.Sprintf("and %d more", len(texts)-MaxListed))
}

// CountedErrors joins the texts of errors into one text with their number, in the format of Gardener's controllers.
func CountedErrors(texts []string) string {
	if len(texts) == 1 {
		return ": 1 error occurred: " + texts[0]
	}
	return fmt.Sprintf(": %d errors occurred: [%s]", len(texts), strings.Join(Bounded(texts), ", "))
}

// Answer returns the response of the API server that an error contains; an empty response if the error contains none. The details of the
// result are never nil.
func Answer(err error) metav1.Status {
	var found metav1.Status
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		found = answer.Status()
	}
	if found.Details == nil {
		found.Details = &metav1.StatusDetails{}
	}
	return found
}
