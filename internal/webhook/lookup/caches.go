package lookup

import (
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
)

// Enabled says which handlers look something up; nothing is watched for others.
type Enabled struct{ HighAvailability, SystemComponents, TokenMount bool }

// Cache keeps of the target what handlers ask for: of namespaces the annotations about high availability, of
// HorizontalPodAutoscalers which object they scale and how far, of Nodes labels and taints, of ServiceAccounts whether tokens are
// mounted. Callers must not change what it returns.
func Cache(enabled Enabled) cache.Options {
	byObject := map[client.Object]cache.ByObject{}
	if enabled.HighAvailability {
		byObject[namespaceMetadata()] = cache.ByObject{Transform: keepOfNamespace, UnsafeDisableDeepCopy: ptr.To(true)}
		byObject[&autoscalingv2.HorizontalPodAutoscaler{}] = cache.ByObject{Transform: keepOfAutoscaler, UnsafeDisableDeepCopy: ptr.To(true)}
	}
	if enabled.SystemComponents {
		byObject[&corev1.Node{}] = cache.ByObject{Transform: keepOfNode, UnsafeDisableDeepCopy: ptr.To(true)}
	}
	if enabled.TokenMount {
		byObject[&corev1.ServiceAccount{}] = cache.ByObject{Transform: keepOfServiceAccount, UnsafeDisableDeepCopy: ptr.To(true)}
	}
	return cache.Options{ByObject: byObject}
}

// Requirements are the rights in the target that the look-ups cannot do without. Hvpas are not among them: clusters without
// them need no right to read them.
func Requirements(enabled Enabled) []process.Requirement {
	var required []process.Requirement
	if enabled.HighAvailability {
		required = append(required,
			process.Requirement{Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Verbs: []string{"get", "list", "watch"}},
			process.Requirement{Kind: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), Verbs: []string{"list", "watch"}},
		)
	}
	if enabled.SystemComponents {
		required = append(required, process.Requirement{Kind: corev1.SchemeGroupVersion.WithKind("Node"), Verbs: []string{"list", "watch"}})
	}
	if enabled.TokenMount {
		required = append(required, process.Requirement{
			Kind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Verbs: []string{"get", "list", "watch"},
		})
	}
	return required
}

// namespaceMetadata names the kind of which only metadata is read.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// identity is what caches need of every object.
func identity(object metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), ResourceVersion: object.GetResourceVersion()}
}

func keepOfNamespace(object any) (any, error) {
	namespace, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: identity(namespace)}
	for key, value := range namespace.Annotations {
		if strings.HasPrefix(key, highavailability.AnnotationPrefix) {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	return kept, nil
}

func keepOfAutoscaler(object any) (any, error) {
	autoscaler, ok := object.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return object, nil
	}
	kept := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: identity(autoscaler)}
	kept.Spec.ScaleTargetRef, kept.Spec.MaxReplicas = autoscaler.Spec.ScaleTargetRef, autoscaler.Spec.MaxReplicas
	return kept, nil
}

func keepOfNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	kept := &corev1.Node{ObjectMeta: identity(node)}
	kept.Labels = node.Labels
	for _, taint := range node.Spec.Taints {
		kept.Spec.Taints = append(kept.Spec.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
	}
	kept.Spec.Taints = slices.Clip(kept.Spec.Taints)
	return kept, nil
}

func keepOfServiceAccount(object any) (any, error) {
	account, ok := object.(*corev1.ServiceAccount)
	if !ok {
		return object, nil
	}
	return &corev1.ServiceAccount{ObjectMeta: identity(account), AutomountServiceAccountToken: account.AutomountServiceAccountToken}, nil
}
