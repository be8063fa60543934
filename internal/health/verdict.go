package health

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Verdict is the result of the rules for one object. The zero value is for an object that only has to exist.
type Verdict struct {
	// Checked is true if there is a rule for the object's kind and the rule was applied. An object that was not checked only has to exist.
	Checked bool
	// Unhealthy is the reason why the object is not healthy; "" if it is healthy or not checked.
	Unhealthy string
	// Failed is the reason why the check failed (reason HealthCheckError): the structure of the object is invalid for its kind. Failed is
	// usually "". If Failed is not "", no other field is set.
	Failed string
	// Progressing describes an incomplete rollout; "" if the rollout is complete, or if the kind has no rollouts. It does not cover old
	// Pods of a Deployment: see Rollout.
	Progressing string
	// Unobserved is true if the status of the object is older than its specification, because the controller of its kind has not processed
	// the object yet. Only the rules for workloads of Kubernetes and JudgeByStatus set this field.
	Unobserved bool
}

// Judge returns the verdict about an object. The object may be an *unstructured.Unstructured, or have a Go type of k8s.io/api, or be a
// CustomResourceDefinition of version v1. For a healthy object with a Go type, Judge allocates no memory. For other Go types, there is no
// rule. Objects with the annotation resources.gardener.cloud/skip-health-check: "true" are not checked.
func Judge(object runtime.Object) Verdict {
	if untyped, ok := object.(*unstructured.Unstructured); ok {
		return judgeUntyped(untyped)
	}
	if skipped(object) {
		return Verdict{}
	}
	switch o := object.(type) {
	case *appsv1.Deployment:
		return judgeDeployment(o)
	case *appsv1.StatefulSet:
		return judgeStatefulSet(o)
	case *appsv1.DaemonSet:
		return judgeDaemonSet(o)
	case *appsv1.ReplicaSet:
		return judgeReplicaSet(o)
	case *corev1.ReplicationController:
		return judgeReplicationController(o)
	case *corev1.Pod:
		return judgePod(o)
	case *corev1.Service:
		return judgeService(o)
	case *batchv1.Job:
		return judgeJob(o)
	case *apiextensionsv1.CustomResourceDefinition:
		return judgeDefinition(o.Status.Conditions)
	}
	return Verdict{}
}

// skipped reports whether an annotation of a typed object excludes it from all checks.
func skipped(object runtime.Object) bool {
	meta, ok := object.(metav1.Object)
	return ok && meta.GetAnnotations()[resourcesv1alpha1.SkipHealthCheck] == "true"
}

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

// reading converts a rule for a Go type into a rule for untyped objects. All versions of the kind must have the fields of the type.
func reading[T any](judge func(*T) Verdict) func(*unstructured.Unstructured) Verdict {
	return func(object *unstructured.Unstructured) Verdict {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return Verdict{Failed: fmt.Sprintf("read fields: %v", err)}
		}
		return judge(typed)
	}
}

// definitionStatus contains the only field that the rule reads of an untyped CustomResourceDefinition, because its schemas are large.
type definitionStatus struct {
	Status apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`
}

func judgeDefinitionStatus(d *definitionStatus) Verdict {
	return judgeDefinition(d.Status.Conditions)
}
