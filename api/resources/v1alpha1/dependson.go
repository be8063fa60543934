package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ParseDependsOn lists the ManagedResources that a value of the annotation DependsOn names, in that order. namespace is the namespace of
// the ManagedResource with the annotation. The names are not validated.
func ParseDependsOn(value, namespace string) []types.NamespacedName {
	var names []types.NamespacedName
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name := types.NamespacedName{Namespace: namespace, Name: item}
		if other, rest, found := strings.Cut(item, "/"); found {
			name = types.NamespacedName{Namespace: other, Name: rest}
		}
		names = append(names, name)
	}
	return names
}
