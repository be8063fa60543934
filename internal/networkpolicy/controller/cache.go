package controller

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
	"github.com/espalier-dev/espalier/internal/process"
)

// fingerprintKey is an annotation that exists in the cache only. It has the fingerprint of a policy whose spec and description are not
// cached.
const fingerprintKey = "espalier.dev/fingerprint"

// CacheOptions keep the identity of each object and the fields that the controller needs. For a Service, these are the selector, the
// ports, the deletion timestamp and the annotations of this API. For a namespace, these are the labels and the deletion timestamp. For an
// Ingress, these are the rules and the default backend. For a policy, these are a fingerprint and the labels that name a Service. The
// cache contains only policies of this instance that have both labels of a Service. Ingresses are watched only if ingresses is true.
func CacheOptions(ingresses bool, instance string) (cache.Options, error) {
	ours, err := desired.OfInstance(resourcesv1alpha1.NetworkingServiceName+","+resourcesv1alpha1.NetworkingServiceNamespace, instance)
	if err != nil {
		return cache.Options{}, err
	}
	byObject := map[client.Object]cache.ByObject{
		&corev1.Service{}:             {Transform: process.Keeping(keepOfService)},
		&corev1.Namespace{}:           {Transform: process.Keeping(keepOfNamespace)},
		&networkingv1.NetworkPolicy{}: {Transform: process.Keeping(keepOfPolicy), Label: ours},
	}
	if ingresses {
		byObject[&networkingv1.Ingress{}] = cache.ByObject{Transform: process.Keeping(keepOfIngress)}
	}
	return cache.Options{ByObject: byObject}, nil
}

func keepOfService(service *corev1.Service) *corev1.Service {
	kept := &corev1.Service{TypeMeta: service.TypeMeta, ObjectMeta: process.Identity(service)}
	kept.DeletionTimestamp = service.DeletionTimestamp
	kept.Spec.Selector = service.Spec.Selector
	for _, p := range service.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, TargetPort: p.TargetPort})
	}
	prefix := strings.TrimSuffix(resourcesv1alpha1.NetworkingFromPrefix, "from-")
	for key, value := range service.Annotations {
		if strings.HasPrefix(key, prefix) {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	return kept
}

func keepOfNamespace(namespace *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	kept := &metav1.PartialObjectMetadata{TypeMeta: namespace.TypeMeta, ObjectMeta: process.Identity(namespace)}
	kept.DeletionTimestamp, kept.Labels = namespace.DeletionTimestamp, namespace.Labels
	return kept
}

// keepOfPolicy replaces everything but the identity and the labels that name the Service with a fingerprint. It may be called with its own
// result, which has no creation timestamp.
func keepOfPolicy(policy *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicy {
	if policy.CreationTimestamp.IsZero() {
		return policy
	}
	kept := &networkingv1.NetworkPolicy{TypeMeta: policy.TypeMeta, ObjectMeta: process.Identity(policy)}
	for _, key := range []string{resourcesv1alpha1.NetworkingServiceName, resourcesv1alpha1.NetworkingServiceNamespace} {
		if value, ok := policy.Labels[key]; ok {
			metav1.SetMetaDataLabel(&kept.ObjectMeta, key, value)
		}
	}
	kept.Annotations = map[string]string{fingerprintKey: desired.Fingerprint(policy)}
	return kept
}

func keepOfIngress(ingress *networkingv1.Ingress) *networkingv1.Ingress {
	kept := &networkingv1.Ingress{TypeMeta: ingress.TypeMeta, ObjectMeta: process.Identity(ingress)}
	kept.Spec.Rules, kept.Spec.DefaultBackend = ingress.Spec.Rules, ingress.Spec.DefaultBackend
	return kept
}
