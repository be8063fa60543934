package health

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func judgeUntyped(object *unstructured.Unstructured) Verdict {
	rule, found := rules[object.GroupVersionKind().GroupKind()]
	if !found || skippedUntyped(object) {
		return Verdict{}
	}
	return rule(object)
}

func skippedUntyped(object *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", "annotations", resourcesv1alpha1.SkipHealthCheck)
	return value == "true"
}

// reading converts a rule for a Go type into one for untyped objects; all versions of a kind have the fields of the type.
func reading[T any](judge func(*T) Verdict) func(*unstructured.Unstructured) Verdict {
	return func(object *unstructured.Unstructured) Verdict {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return Verdict{Failed: fmt.Sprintf("read fields: %v", err)}
		}
		return judge(typed)
	}
}

// definitionStatus contains the only field that is read of an untyped CustomResourceDefinition, because its schemas are large.
type definitionStatus struct {
	Status apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`
}

func judgeDefinitionStatus(d *definitionStatus) Verdict {
	return judgeDefinition(d.Status.Conditions, conditionOfDefinition)
}
