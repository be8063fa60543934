package standin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// when is the time in all conditions.
const when = "2026-01-01T00:00:00Z"

// operation is the annotation by which an object asks its controller for an operation.
const operation = "gardener.cloud/operation"

// Deployments replaces the Deployment controller, whose Pods do not run, and the garbage collector, which ends foreground deletions.
func Deployments() Part {
	return Part{
		kind: appsv1.SchemeGroupVersion.WithKind("Deployment"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if observed(o) {
				return nil
			}
			replicas, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
			if !found {
				replicas = 1
			}
			if err := scale(ctx, c, o, int(replicas)); err != nil {
				return err
			}
			return settleStatus(ctx, c, o, map[string]any{"conditions": []any{
				map[string]any{"type": "Available", "status": "True"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			}})
		},
		end: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if len(o.GetFinalizers()) == 0 {
				return nil
			}
			if err := scale(ctx, c, o, 0); err != nil {
				return err
			}
			return merge(ctx, c, o, map[string]any{"metadata": map[string]any{"finalizers": nil}})
		},
	}
}

// addresses numbers the addresses of Pods.
var addresses atomic.Uint32

// scale creates or deletes Pods until a Deployment has this number of them. Of the Pod template they have only the labels of the selector.
// Each Pod has an address of its own, at which nothing listens.
func scale(ctx context.Context, c client.Client, deployment *unstructured.Unstructured, replicas int) error {
	labels, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(deployment.GetNamespace()), client.MatchingLabels(labels)); err != nil {
		return fmt.Errorf("list Pods of Deployment %s: %w", deployment.GetName(), err)
	}
	for i := replicas; i < len(pods.Items); i++ {
		if err := c.Delete(ctx, &pods.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Pod of Deployment %s: %w", deployment.GetName(), err)
		}
	}
	for range replicas - len(pods.Items) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: deployment.GetNamespace(), GenerateName: deployment.GetName() + "-", Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
		}
		if err := c.Create(ctx, pod); err != nil {
			return fmt.Errorf("create Pod of Deployment %s: %w", deployment.GetName(), err)
		}
		number := addresses.Add(1)
		pod.Status.PodIP = fmt.Sprintf("198.18.%d.%d", number/250%250, number%250+1) // the network for benchmarks
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
		if err := c.Status().Update(ctx, pod); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("give Pod of Deployment %s an address: %w", deployment.GetName(), err)
		}
	}
	return nil
}

// Registrations replaces the webhook server of the resource manager, but only registers webhooks. They match no request.
func Registrations() Part {
	return Part{
		kind: appsv1.SchemeGroupVersion.WithKind("Deployment"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if o.GetName() != "gardener-resource-manager-webhooks" {
				return nil
			}
			return client.IgnoreAlreadyExists(c.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "gardener-resource-manager"},
				Webhooks: []admissionregistrationv1.MutatingWebhook{{
					Name: "none.example.com", SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
					ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://none.example.com"), CABundle: []byte("none")},
				}},
			}))
		},
	}
}

// Pods replaces the kubelets: Pods run and are ready at once. No scheduler is needed.
func Pods() Part {
	return Part{
		kind: corev1.SchemeGroupVersion.WithKind("Pod"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase != string(corev1.PodPending) {
				return nil
			}
			return merge(ctx, c, o, map[string]any{"status": map[string]any{
				"phase": string(corev1.PodRunning),
				// A Pod that has been ready for a long time counts as available at once.
				"conditions": []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": when}},
			}})
		},
	}
}

// ManagedResources replaces a controller of ManagedResources: all are healthy at once. It applies none of their objects.
func ManagedResources() Part {
	return managedResources(func(o *unstructured.Unstructured) bool { return !observed(o) })
}

// VirtualManagedResources is like ManagedResources, but only for the virtual cluster: ManagedResources in namespace garden without a class.
// It sets the status again if another controller has written that such a ManagedResource is not applied.
func VirtualManagedResources() Part {
	return managedResources(func(o *unstructured.Unstructured) bool {
		return o.GetNamespace() == "garden" && classOf(o) == "" && (!observed(o) || !isApplied(o))
	})
}

func classOf(o *unstructured.Unstructured) string {
	class, _, _ := unstructured.NestedString(o.Object, "spec", "class")
	return class
}

// isApplied reports whether the status of a ManagedResource says that its objects are applied.
func isApplied(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(each any) bool {
		fields, _ := each.(map[string]any)
		return fields["type"] == "ResourcesApplied" && fields["status"] == "True"
	})
}

func managedResources(isDue func(o *unstructured.Unstructured) bool) Part {
	return Part{
		kind: schema.GroupVersionKind{Group: "resources.gardener.cloud", Version: "v1alpha1", Kind: "ManagedResource"},
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if !isDue(o) {
				return nil
			}
			objects, err := contents(ctx, c, o)
			if err != nil {
				return err
			}
			var resources []any
			for _, each := range objects {
				resources = append(resources, map[string]any{
					"apiVersion": each.GetAPIVersion(), "kind": each.GetKind(), "namespace": each.GetNamespace(), "name": each.GetName(),
				})
				if classOf(o) == "" || each.GetKind() != "Service" {
					continue
				}
				if err := c.Create(ctx, each); err != nil && !apierrors.IsAlreadyExists(err) {
					return fmt.Errorf("create Service %s of ManagedResource %s: %w", each.GetName(), o.GetName(), err)
				}
			}
			return settleStatus(ctx, c, o, map[string]any{"resources": resources, "conditions": []any{
				condition("ResourcesApplied", "True"), condition("ResourcesHealthy", "True"), condition("ResourcesProgressing", "False"),
			}})
		},
	}
}

// contents returns the objects of a ManagedResource. It omits keys whose value is not YAML.
func contents(ctx context.Context, c client.Client, set *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	refs, _, _ := unstructured.NestedSlice(set.Object, "spec", "secretRefs")
	var objects []*unstructured.Unstructured
	for _, each := range refs {
		ref, _ := each.(map[string]any)
		name, _ := ref["name"].(string)
		secret := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: set.GetNamespace(), Name: name}, secret); err != nil {
			return nil, fmt.Errorf("read Secret of ManagedResource %s: %w", set.GetName(), err)
		}
		for _, text := range secret.Data {
			o := &unstructured.Unstructured{}
			if yaml.Unmarshal(text, &o.Object) == nil {
				objects = append(objects, o)
			}
		}
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetKind()+a.GetName(), b.GetKind()+b.GetName())
	})
	return objects, nil
}

// Etcds replaces etcd-druid, which acts on an Etcd only if the annotation requests it, and etcd: all Etcds are ready at once.
func Etcds() Part {
	return Part{
		kind: schema.GroupVersionKind{Group: "druid.gardener.cloud", Version: "v1alpha1", Kind: "Etcd"},
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if _, asked := o.GetAnnotations()[operation]; !asked {
				return nil
			}
			conditions := []any{condition("AllMembersUpdated", "True")}
			if _, backedUp, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "backup", "store"); backedUp {
				conditions = append(conditions, condition("BackupReady", "True"))
			}
			status := map[string]any{"ready": true, "conditions": conditions}
			if err := settleStatus(ctx, c, o, status); err != nil {
				return err
			}
			return merge(ctx, c, o, map[string]any{"metadata": map[string]any{"annotations": map[string]any{operation: nil}}})
		},
	}
}

// Monitoring replaces prometheus-operator for Prometheuses or Alertmanagers. It makes a StatefulSet, whose Pods have the labels of the
// instance, and the Service by which the Pods of an Alertmanager reach each other. It reports the instance as available at once.
func Monitoring(kind string) Part {
	program := strings.ToLower(kind)
	return Part{
		kind: schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: kind},
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); len(conditions) > 0 {
				return nil
			}
			labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "podMetadata", "labels")
			selector := map[string]string{program: o.GetName(), "app.kubernetes.io/name": program}
			governing := program + "-operated"
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: governing}, Spec: corev1.ServiceSpec{
				ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app.kubernetes.io/name": program},
				Ports: []corev1.ServicePort{{Name: "web", Port: 9090, TargetPort: intstr.FromString("web")}},
			}}
			if kind == "Alertmanager" {
				service.Spec.Ports = []corev1.ServicePort{
					{Name: "tcp-mesh", Port: 9094, TargetPort: intstr.FromString("mesh-tcp"), Protocol: corev1.ProtocolTCP},
					{Name: "udp-mesh", Port: 9094, TargetPort: intstr.FromString("mesh-udp"), Protocol: corev1.ProtocolUDP},
				}
			}
			pods := &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: program + "-" + o.GetName()},
				Spec: appsv1.StatefulSetSpec{
					Replicas: ptr.To[int32](2), ServiceName: governing, Selector: &metav1.LabelSelector{MatchLabels: selector},
					PodManagementPolicy: appsv1.ParallelPodManagement, Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: program, Image: "none", Ports: []corev1.ContainerPort{
							{Name: "mesh-tcp", ContainerPort: 9094}, {Name: "mesh-udp", ContainerPort: 9094, Protocol: corev1.ProtocolUDP},
						}}}},
					},
				},
			}
			maps.Copy(pods.Spec.Template.Labels, selector)
			for _, each := range []client.Object{service, pods} {
				if err := client.IgnoreAlreadyExists(c.Create(ctx, each)); err != nil {
					return fmt.Errorf("create objects of %s %s: %w", kind, o.GetName(), err)
				}
			}
			is := func(name string) any {
				return map[string]any{
					"type": name, "status": "True", "reason": "StandIn", "lastTransitionTime": when, "observedGeneration": o.GetGeneration(),
				}
			}
			replicas := int64(2)
			return merge(ctx, c, o, map[string]any{"status": map[string]any{
				"paused": false, "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas, "unavailableReplicas": int64(0),
				"conditions": []any{is("Available"), is("Reconciled")},
			}})
		},
	}
}

// ExtensionObjects replaces the controller of an extension for objects of one kind of extensions.gardener.cloud. It reconciles objects that
// request it, and adds further fields to their status. A finalizer keeps them until the player ends their deletion.
func ExtensionObjects(kind string, further map[string]any) Part {
	return Part{
		kind: schema.GroupVersionKind{Group: "extensions.gardener.cloud", Version: "v1alpha1", Kind: kind},
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if _, asked := o.GetAnnotations()[operation]; !asked {
				return nil
			}
			status := map[string]any{
				"observedGeneration": o.GetGeneration(),
				"lastOperation": map[string]any{
					"type": "Reconcile", "state": "Succeeded", "progress": int64(100), "description": "done", "lastUpdateTime": "2026-01-01T00:00:00Z",
				},
			}
			maps.Copy(status, further)
			if err := merge(ctx, c, o, map[string]any{"status": status}); err != nil {
				return err
			}
			return merge(ctx, c, o, map[string]any{"metadata": map[string]any{
				"annotations": map[string]any{operation: nil}, "finalizers": []any{"example.com/extension"},
			}})
		},
		end: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			return merge(ctx, c, o, map[string]any{"metadata": map[string]any{"finalizers": nil}})
		},
	}
}

// LoadBalancers replaces the controller that gives Services of type LoadBalancer an address. Nothing listens at the addresses.
func LoadBalancers() Part {
	return Part{
		kind: corev1.SchemeGroupVersion.WithKind("Service"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "type")
			addresses, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
			if kind != string(corev1.ServiceTypeLoadBalancer) || len(addresses) > 0 {
				return nil
			}
			return merge(ctx, c, o, map[string]any{"status": map[string]any{
				"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.2"}}},
			}})
		},
	}
}

// Gateways replaces the ManagedResource of the Istio gateway: it creates the Service of the gateway, of type LoadBalancer, in the gateway's
// namespace.
func Gateways() Part {
	return Part{
		kind: corev1.SchemeGroupVersion.WithKind("Namespace"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			if o.GetLabels()["gardener.cloud/role"] != "istio-ingress" {
				return nil
			}
			return client.IgnoreAlreadyExists(c.Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: o.GetName(), Name: "istio-ingressgateway"},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443}}},
			}))
		},
	}
}

// Tokens replaces the token requestor of the virtual cluster. Its tokens are not valid at any API server.
func Tokens() Part {
	const prefix = "serviceaccount.resources.gardener.cloud/"
	return Part{
		kind: corev1.SchemeGroupVersion.WithKind("Secret"),
		settle: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			const purpose, class = "resources.gardener.cloud/purpose", "resources.gardener.cloud/class"
			labels, renewal := o.GetLabels(), o.GetAnnotations()[prefix+"token-renew-timestamp"]
			if labels[purpose] != "token-requestor" || labels[class] != "shoot" || renewal != "" {
				return nil
			}
			secret := &corev1.Secret{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, secret); err != nil {
				return fmt.Errorf("read Secret: %w", err)
			}
			key, content := "token", []byte("token")
			if held := secret.Data["kubeconfig"]; held != nil {
				kubeconfig, err := clientcmd.Load(held)
				if err != nil {
					return fmt.Errorf("read kubeconfig in Secret %s: %w", o.GetName(), err)
				}
				for _, user := range kubeconfig.AuthInfos {
					user.Token = "token"
				}
				if content, err = clientcmd.Write(*kubeconfig); err != nil {
					return fmt.Errorf("encode kubeconfig: %w", err)
				}
				key = "kubeconfig"
			}
			return merge(ctx, c, o, map[string]any{
				"data":     map[string]any{key: content},
				"metadata": map[string]any{"annotations": map[string]any{prefix + "token-renew-timestamp": "2126-01-01T00:00:00Z"}},
			})
		},
	}
}

// Namespaces replaces the controller that ends the deletion of namespaces, and the garbage collector, which ends foreground deletions. It
// does not delete the objects in a namespace.
func Namespaces() Part {
	return Part{
		kind: corev1.SchemeGroupVersion.WithKind("Namespace"),
		end: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
			namespace := &corev1.Namespace{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, namespace); err != nil {
				return fmt.Errorf("read Namespace: %w", err)
			}
			namespace.Finalizers = slices.DeleteFunc(namespace.Finalizers, func(f string) bool { return f == metav1.FinalizerDeleteDependents })
			namespace.Spec.Finalizers = nil
			return c.SubResource("finalize").Update(ctx, namespace)
		},
	}
}
