package lookup

import (
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
)

// Enabled names the handlers that use look-ups. Only the kinds that enabled handlers need are watched.
type Enabled struct{ HighAvailability, SystemComponents, TokenMount bool }

// watched is a kind in the cache.
type watched struct {
	object client.Object
	kind   schema.GroupVersionKind
	// verbs are the rights that the look-ups require.
	verbs []string
	// keep reduces an object to the fields that the cache keeps.
	keep toolscache.TransformFunc
	// index is the function for the cache index byTarget; nil if the kind has no index.
	index client.IndexerFunc
}

// The kinds that may be watched.
const (
	namespaces      = "Namespace"
	autoscalers     = "HorizontalPodAutoscaler"
	nodes           = "Node"
	serviceAccounts = "ServiceAccount"
)

func (e Enabled) watched() []watched {
	core, read, follow := corev1.SchemeGroupVersion, []string{"get", "list", "watch"}, []string{"list", "watch"}
	var kinds []watched
	if e.HighAvailability {
		kinds = append(kinds,
			watched{object: namespaceMetadata(), kind: core.WithKind(namespaces), verbs: read, keep: process.Keeping(keepOfNamespace)},
			watched{
				object: &autoscalingv2.HorizontalPodAutoscaler{}, kind: autoscalingv2.SchemeGroupVersion.WithKind(autoscalers), verbs: follow,
				keep: process.Keeping(keepOfAutoscaler), index: targetIndex,
			})
	}
	if e.SystemComponents {
		kinds = append(kinds, watched{object: &corev1.Node{}, kind: core.WithKind(nodes), verbs: follow, keep: process.Keeping(keepOfNode)})
	}
	if e.TokenMount {
		kinds = append(kinds, watched{
			object: &corev1.ServiceAccount{}, kind: core.WithKind(serviceAccounts), verbs: read, keep: process.Keeping(keepOfServiceAccount),
		})
	}
	return kinds
}

// Cache returns the options of the cache of the target. The cache keeps only the fields that handlers read: the annotations of Namespaces
// about high availability, the targets and maximums of HorizontalPodAutoscalers, the labels and taints of Nodes, and whether
// ServiceAccounts mount tokens. Readers must not change objects that the cache returns.
func Cache(enabled Enabled) cache.Options {
	byObject := map[client.Object]cache.ByObject{}
	for _, each := range enabled.watched() {
		byObject[each.object] = cache.ByObject{Transform: each.keep, UnsafeDisableDeepCopy: ptr.To(true)}
	}
	return cache.Options{ByObject: byObject}
}

// Requirements returns the rights in the target that the look-ups require. Rights for Hvpas are not among them: a cluster without Hvpas
// needs none.
func Requirements(enabled Enabled) []process.Requirement {
	watched := enabled.watched()
	if len(watched) == 0 {
		return nil
	}
	required := make([]process.Requirement, 0, len(watched))
	for _, each := range watched {
		required = append(required, process.Requirement{Kind: each.kind, Verbs: each.verbs})
	}
	return required
}

// namespaceMetadata returns an empty object for the metadata of a Namespace.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

func keepOfNamespace(namespace *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	kept := &metav1.PartialObjectMetadata{ObjectMeta: process.Identity(namespace)}
	for key, value := range namespace.Annotations {
		if strings.HasPrefix(key, highavailability.AnnotationPrefix) {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	return kept
}

func keepOfAutoscaler(autoscaler *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	kept := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: process.Identity(autoscaler)}
	kept.Spec.ScaleTargetRef, kept.Spec.MaxReplicas = autoscaler.Spec.ScaleTargetRef, autoscaler.Spec.MaxReplicas
	return kept
}

func keepOfNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: process.Identity(node)}
	kept.Labels = node.Labels
	for _, taint := range node.Spec.Taints {
		kept.Spec.Taints = append(kept.Spec.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
	}
	kept.Spec.Taints = slices.Clip(kept.Spec.Taints)
	return kept
}

func keepOfServiceAccount(account *corev1.ServiceAccount) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: process.Identity(account), AutomountServiceAccountToken: account.AutomountServiceAccountToken}
}
