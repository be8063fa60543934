package lookup

import (
	"math"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
)

// scaler is an autoscaler of either kind. The watch of Hvpas stores scalers.
type scaler struct {
	metav1.ObjectMeta
	// scales is false for an Hvpa that deploys no HorizontalPodAutoscaler.
	scales bool
	target highavailability.Target
	limit  int32
}

func scalerOf(autoscaler *autoscalingv2.HorizontalPodAutoscaler) scaler {
	ref := autoscaler.Spec.ScaleTargetRef
	return scaler{
		ObjectMeta: metav1.ObjectMeta{Name: autoscaler.Name}, scales: true, limit: autoscaler.Spec.MaxReplicas,
		target: highavailability.Target{Namespace: autoscaler.Namespace, APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name},
	}
}

// scalerOfHvpa reads an Hvpa; another project defines the schema of Hvpas. If the field spec.hpa.deploy is not true, or has an unexpected
// type, the Hvpa scales nothing.
func scalerOfHvpa(object *unstructured.Unstructured) *scaler {
	found := &scaler{ObjectMeta: process.Identity(object)}
	ref, _, _ := unstructured.NestedMap(object.Object, "spec", "targetRef")
	found.target.Namespace = object.GetNamespace()
	found.target.APIVersion, _, _ = unstructured.NestedString(ref, "apiVersion")
	found.target.Kind, _, _ = unstructured.NestedString(ref, "kind")
	found.target.Name, _, _ = unstructured.NestedString(ref, "name")
	found.scales, _, _ = unstructured.NestedBool(object.Object, "spec", "hpa", "deploy")
	limit, _, _ := unstructured.NestedInt64(object.Object, "spec", "hpa", "template", "spec", "maxReplicas")
	found.limit = int32(min(max(limit, 0), math.MaxInt32))
	return found
}

// firstOf returns the one of two autoscalers that scales the target; if both do, the first by name.
func (s scaler) firstOf(other scaler, target highavailability.Target) scaler {
	if !other.scales || other.target != target || s.scales && s.Name <= other.Name {
		return s
	}
	return other
}
