package invalidator

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/internal/reflector"
)

// byAccount is the index of Secrets by "<namespace>/<ServiceAccount>".
const byAccount = "serviceaccount"

// newInformer watches the metadata of the Secrets that name a ServiceAccount in their annotation, in one namespace, or in all if it is
// empty. The API server has no selector for annotations, so it sends the metadata of all Secrets; the informer drops the others before they
// are stored.
func newInformer(client metadata.Interface, namespace string) cache.SharedIndexInformer {
	secrets := reflector.Metadata(client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace))
	return cache.NewSharedIndexInformer(reflector.PagedSource(secrets, client, sift), &metav1.PartialObjectMetadata{}, 0,
		cache.Indexers{byAccount: accountIndex})
}

// names returns the ServiceAccount that a Secret names, "" for a Secret that this controller ignores.
func names(secret metav1.Object) string {
	return secret.GetAnnotations()[corev1.ServiceAccountNameKey]
}

func accountIndex(object any) ([]string, error) {
	secret, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || names(secret) == "" {
		return nil, nil
	}
	return []string{secret.Namespace + "/" + names(secret)}, nil
}

// sift reduces an event about a Secret that names a ServiceAccount to the fields that decisions need. Of other Secrets it passes the
// version, so that an interrupted watch continues at the right place, and it passes a change as a deletion, because the Secret may have
// named a ServiceAccount before.
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
