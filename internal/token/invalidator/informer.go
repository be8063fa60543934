package invalidator

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/reflector"
)

// byAccount is the index of Secrets by the ServiceAccount that they name.
const byAccount = "serviceaccount"

// newSecret returns an empty object for the metadata of a Secret.
func newSecret() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// newInformer returns the informer of a cache of Secrets. It stores the metadata of Secrets that name a ServiceAccount in their
// annotation. The API server has no selector for annotations, so it sends the metadata of all Secrets; the informer drops the
// others before they are stored.
func newInformer(
	secrets cache.ListerWatcher, example runtime.Object, _ time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	sifted := reflector.PagedSource(cache.ToListerWatcherWithContext(secrets), secrets, sift)
	return cache.NewSharedIndexInformer(sifted, example, 0, indexers)
}

// names returns the name of the ServiceAccount in the annotation of a Secret; "" for a Secret that this controller ignores.
func names(secret metav1.Object) string {
	return secret.GetAnnotations()[corev1.ServiceAccountNameKey]
}

func accountIndex(secret client.Object) []string { return []string{names(secret)} }

// sift reduces an event about a Secret that names a ServiceAccount to the fields that decisions need. For another Secret that is listed or
// created, it passes only the resource version, so that an interrupted watch continues at the right place. It turns the change of another
// Secret into a deletion, because the Secret may have named a ServiceAccount before.
func sift(event watch.Event) watch.Event {
	secret, ok := event.Object.(*metav1.PartialObjectMetadata)
	switch {
	case !ok:
		return event
	case names(secret) == "" && event.Type == watch.Added:
		return reflector.Bookmark(secret)
	case names(secret) == "" && event.Type == watch.Modified:
		return watch.Event{Type: watch.Deleted, Object: secret}
	case names(secret) == "":
		return event
	}
	event.Object = &metav1.PartialObjectMetadata{TypeMeta: secret.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
		Labels: secret.Labels, Annotations: map[string]string{corev1.ServiceAccountNameKey: names(secret)},
	}}
	return event
}
