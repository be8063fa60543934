package validation

import (
	"strings"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// ListOf returns the elements of an annotation of a Garden whose value is a list that commas separate. Spaces around them do not matter.
func ListOf(g *operatorv1alpha1.Garden, annotation string) []string {
	var elements []string
	for element := range strings.SplitSeq(g.Annotations[annotation], ",") {
		elements = append(elements, strings.TrimSpace(element))
	}
	return elements
}

// ConfirmedLostResources returns the resources, each with its group, whose objects may be lost.
func ConfirmedLostResources(g *operatorv1alpha1.Garden) []string {
	return ListOf(g, operatorv1alpha1.AnnotationConfirmLostResources)
}
