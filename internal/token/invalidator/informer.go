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

// newInformer returns the informer of a cache of Secrets. The informer stores the metadata of Secrets that name a ServiceAccount in their
// annotation. API servers have no selector for annotations, so they send the metadata of all Secrets; the informer drops all other Secrets
// and does not store them.
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

// sift reduces an event. If the Secret names a ServiceAccount, sift keeps only the fields that decisions need. If a Secret without such a
// name is listed or created, sift passes only its resource version, so that an interrupted watch continues at the right place. If such a
// Secret is changed, sift turns the change into a deletion, because the Secret may have named a ServiceAccount before. It does not change
// other events.
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
