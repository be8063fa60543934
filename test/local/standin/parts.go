package standin

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operation is the annotation by which an Etcd asks etcd-druid for an operation.
const operation = "gardener.cloud/operation"

// Deployments plays the controller of Deployments, with the garbage collector, which ends foreground deletions.
func Deployments() Part {
	return Part{
		kind: appsv1.SchemeGroupVersion.WithKind("Deployment"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if observed(o) {
				return nil
			}
			return settleStatus(ctx, c, o, map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "True"}}})
		},
		end: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if len(o.GetFinalizers()) == 0 {
				return nil
			}
			return setMetadata(ctx, c, o, map[string]any{"finalizers": nil})
		},
	}
}

// Pods plays the kubelets of Pods, which run and are ready at once. No scheduler is needed.
func Pods() Part {
	return Part{
		kind: corev1.SchemeGroupVersion.WithKind("Pod"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase != string(corev1.PodPending) {
				return nil
			}
			return setStatus(ctx, c, o, map[string]any{
				"phase": string(corev1.PodRunning), "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
			})
		},
	}
}

// ManagedResources plays a controller of ManagedResources whose objects are healthy at once. It applies none of them.
func ManagedResources() Part {
	return Part{
		kind: schema.GroupVersionKind{Group: "resources.gardener.cloud", Version: "v1alpha1", Kind: "ManagedResource"},
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if observed(o) {
				return nil
			}
			return settleStatus(ctx, c, o, map[string]any{"conditions": []any{
				condition("ResourcesApplied", "True"), condition("ResourcesHealthy", "True"), condition("ResourcesProgressing", "False"),
			}})
		},
	}
}

// Etcds plays etcd-druid, which acts on an Etcd only if its annotation asks for that, and etcds that are ready at once.
func Etcds() Part {
	return Part{
		kind: schema.GroupVersionKind{Group: "druid.gardener.cloud", Version: "v1alpha1", Kind: "Etcd"},
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if _, asked := o.GetAnnotations()[operation]; !asked {
				return nil
			}
			status := map[string]any{"ready": true, "conditions": []any{condition("AllMembersUpdated", "True")}}
			if err := settleStatus(ctx, c, o, status); err != nil {
				return err
			}
			return setMetadata(ctx, c, o, map[string]any{"annotations": map[string]any{operation: nil}})
		},
	}
}

// LoadBalancers plays the controller that gives Services of type LoadBalancer an address. Nothing listens there.
func LoadBalancers() Part {
	return Part{
		kind: corev1.SchemeGroupVersion.WithKind("Service"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "type")
			addresses, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
			if kind != string(corev1.ServiceTypeLoadBalancer) || len(addresses) > 0 {
				return nil
			}
			return setStatus(ctx, c, o, map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.2"}}}})
		},
	}
}

// Namespaces plays the controller that ends the deletion of namespaces. Objects in them stay.
func Namespaces() Part {
	return Part{
		kind:   corev1.SchemeGroupVersion.WithKind("Namespace"),
		settle: func(context.Context, client.Client, *unstructured.Unstructured) error { return nil },
		end: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			namespace := &corev1.Namespace{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, namespace); err != nil {
				return fmt.Errorf("read Namespace: %w", err)
			}
			namespace.Spec.Finalizers = nil
			return c.SubResource("finalize").Update(ctx, namespace)
		},
	}
}
