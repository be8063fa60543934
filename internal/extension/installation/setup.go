package installation

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "controllerinstallation"

// The pause before the next attempt for an installation that fails grows from shortestPause to longestPause.
const (
	shortestPause = 500 * time.Millisecond
	longestPause  = 5 * time.Minute
)

// ManagedResources returns the options of the cache of the Seed's cluster for ManagedResources. With these options, the cache contains
// only ManagedResources that install extensions.
func ManagedResources() cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{GardenNamespace: {}}, Label: ofInstallations()}
}

// ofInstallations selects the objects that have the label with the name of an installation.
func ofInstallations() kubelabels.Selector {
	requirement, err := kubelabels.NewRequirement(corev1beta1.LabelManagedResourceInstallation, selection.Exists, nil)
	utilruntime.Must(err) // which cannot fail, because the key is a valid one
	return kubelabels.NewSelector().Add(*requirement)
}

// Namespaces returns the options of the same cache for namespaces. It contains only the namespaces of extensions.
func Namespaces() cache.ByObject {
	return cache.ByObject{Label: kubelabels.SelectorFromSet(kubelabels.Set{labelRole: roleExtension})}
}

// Secrets returns the options of the same cache for Secrets. With these options, the cache contains only Secrets that the controller
// wrote: with the objects of charts, with kubeconfigs for the garden, and with tokens. The controller watches only the metadata of these
// Secrets.
func Secrets() cache.ByObject { return cache.ByObject{Label: ofInstallations()} }

// Installations returns the options of the cache of the garden for ControllerInstallations. With these options, the cache contains only
// the ControllerInstallations of the Seed.
func Installations(seed string) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("spec.seedRef.name", seed)}
}

// SetupWithManager adds the controller to the manager of the Seed's cluster. The other cache is of the garden.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, garden cache.Cache, workers int) error {
	namespaces, secrets := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(garden, &corev1beta1.ControllerInstallation{}, process.OnEvent(installationEvent))).
		WatchesRawSource(source.Kind(mgr.GetCache(), &resourcesv1alpha1.ManagedResource{}, process.OnEvent(managedResourceEvent))).
		WatchesRawSource(source.Kind(mgr.GetCache(), namespaces, process.OnEvent(namespaceEvent))).
		WatchesRawSource(source.Kind(mgr.GetCache(), secrets, process.OnEvent(secretEvent))).
		WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(r))
}

// installationEvent enqueues an installation that is new or begins to be deleted, or whose generation, references, annotation Plan or
// annotation for Pod security changed. The references contain versions: gardener-controller-manager writes the versions of the referenced
// objects into them. A resync enqueues the installation, too.
func installationEvent(_ context.Context, before, after *corev1beta1.ControllerInstallation, q process.Queue) {
	if after == nil || before != nil && !isDue(before, after) {
		return
	}
	q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)})
}

func isDue(before, after *corev1beta1.ControllerInstallation) bool {
	const plan, podSecurity = resourcesv1alpha1.Plan, corev1beta1.AnnotationPodSecurityEnforce
	return before.ResourceVersion == after.ResourceVersion || before.Generation != after.Generation ||
		before.Spec.RegistrationRef != after.Spec.RegistrationRef || before.Spec.SeedRef != after.Spec.SeedRef ||
		!ptr.Equal(before.Spec.DeploymentRef, after.Spec.DeploymentRef) ||
		before.DeletionTimestamp == nil && after.DeletionTimestamp != nil ||
		before.Annotations[plan] != after.Annotations[plan] || before.Annotations[podSecurity] != after.Annotations[podSecurity]
}

// managedResourceEvent enqueues the installation of a ManagedResource whose spec changed, that was deleted, or that changed while it is
// being deleted.
func managedResourceEvent(_ context.Context, before, after *resourcesv1alpha1.ManagedResource, q process.Queue) {
	set := after
	switch {
	case after == nil:
		set = before
	case before == nil:
		return // the installation is enqueued at the start anyway
	case after.DeletionTimestamp == nil && before.Generation == after.Generation:
		return
	}
	enqueue(q, set.Labels[corev1beta1.LabelManagedResourceInstallation])
}

// namespaceEvent enqueues the installation of a namespace that was deleted, or whose metadata changed.
func namespaceEvent(_ context.Context, before, _ *metav1.PartialObjectMetadata, q process.Queue) {
	if before == nil {
		return
	}
	if name, isOurs := strings.CutPrefix(before.Name, corev1beta1.InstallationNamespacePrefix); isOurs {
		enqueue(q, name)
	}
}

// secretEvent enqueues the installation of a Secret that is deleted, whose labels changed, or that asks for a token of another
// ServiceAccount.
func secretEvent(_ context.Context, before, after *metav1.PartialObjectMetadata, q process.Queue) {
	const account, accountLabels = resourcesv1alpha1.ServiceAccountName, resourcesv1alpha1.ServiceAccountLabels
	if before == nil || after != nil && maps.Equal(before.Labels, after.Labels) &&
		before.Annotations[account] == after.Annotations[account] && before.Annotations[accountLabels] == after.Annotations[accountLabels] {
		return
	}
	enqueue(q, before.Labels[corev1beta1.LabelManagedResourceInstallation])
}

func enqueue(q process.Queue, name string) {
	if name != "" {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}
