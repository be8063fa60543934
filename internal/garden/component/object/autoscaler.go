package object

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

// AutoscalerKind is the kind of VerticalPodAutoscalers.
var AutoscalerKind = schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"}

// Autoscaler describes a VerticalPodAutoscaler.
type Autoscaler struct {
	Name                string
	Labels, Annotations map[string]string
	// APIVersion, Kind and Target identify the workload. Their defaults are apps/v1, Deployment and Name.
	APIVersion, Kind, Target string
	// Container is the only container whose requests change. Empty: all containers.
	Container string
	// MinAllowed are the lowest requests that the autoscaler sets, and MaxAllowed the highest ones.
	MinAllowed, MaxAllowed corev1.ResourceList
	// WithLimits makes the autoscaler change limits in proportion to requests. False: limits stay as they are.
	WithLimits bool
	// EvictionRequirements must be fulfilled before a Pod is evicted. Nil: there are none.
	EvictionRequirements []any
}

// Object returns the VerticalPodAutoscaler. It has no Go type in the modules that the product links.
func (a Autoscaler) Object(v values.Values, namespace string) client.Object {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}}
	o.SetNamespace(namespace)
	o.SetName(a.Name)
	o.SetLabels(a.Labels)
	o.SetAnnotations(a.Annotations)
	o.Object["spec"] = map[string]any{
		"targetRef": map[string]any{
			"apiVersion": cmp.Or(a.APIVersion, "apps/v1"), "kind": cmp.Or(a.Kind, "Deployment"), "name": cmp.Or(a.Target, a.Name),
		},
		"updatePolicy":   a.updatePolicy(v),
		"resourcePolicy": map[string]any{"containerPolicies": a.policies()},
	}
	return o
}

// EvictionRequirements returns the eviction requirements of a VerticalPodAutoscaler, nil if there are none.
func EvictionRequirements(autoscaler *unstructured.Unstructured) []any {
	// A value of another type cannot come from the API server.
	requirements, _, _ := unstructured.NestedSlice(autoscaler.Object, "spec", "updatePolicy", "evictionRequirements")
	return requirements
}

func (a Autoscaler) updatePolicy(v values.Values) map[string]any {
	policy := map[string]any{"updateMode": updateMode(v)}
	if a.EvictionRequirements != nil {
		policy["evictionRequirements"] = a.EvictionRequirements
	}
	return policy
}

// updateMode returns the mode that changes requests without a restart where that is possible. A vertical pod autoscaler that the operator
// does not deploy may be too old for this mode.
func updateMode(v values.Values) string {
	if v.VerticalPodAutoscaler {
		return "InPlaceOrRecreate"
	}
	return "Auto"
}

func (a Autoscaler) policies() []any {
	const all = "*"
	policy := map[string]any{"containerName": all}
	if a.Container != "" {
		policy["containerName"] = a.Container
	}
	if !a.WithLimits {
		policy["controlledValues"] = "RequestsOnly"
	}
	for bound, list := range map[string]corev1.ResourceList{"minAllowed": a.MinAllowed, "maxAllowed": a.MaxAllowed} {
		if len(list) == 0 {
			continue
		}
		quantities := map[string]any{}
		for name, quantity := range list {
			quantities[string(name)] = quantity.String()
		}
		policy[bound] = quantities
	}
	policies := []any{policy}
	if a.Container != "" {
		policies = append(policies, map[string]any{"containerName": all, "mode": "Off"})
	}
	return policies
}
