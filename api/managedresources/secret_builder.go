package managedresources

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// SecretBuilder describes a Secret that a ManagedResource refers to. It returns the Secret, or creates or updates it in the cluster.
type SecretBuilder struct {
	client client.Client
	secret corev1.Secret
}

// NewSecret returns a builder that writes with c. If only Build is called, c may be nil.
func NewSecret(c client.Client) *SecretBuilder {
	return &SecretBuilder{client: c, secret: corev1.Secret{Type: corev1.SecretTypeOpaque}}
}

// WithNamespacedName sets the namespace and the name.
func (b *SecretBuilder) WithNamespacedName(namespace, name string) *SecretBuilder {
	b.secret.Namespace = namespace
	b.secret.Name = name
	return b
}

// WithKeyValues sets the data. It replaces earlier data.
func (b *SecretBuilder) WithKeyValues(data map[string][]byte) *SecretBuilder {
	b.secret.Data = maps.Clone(data)
	return b
}

// WithLabels sets the labels. It replaces labels that were set before, except for the label for the garbage collector if Unique was called
// before.
func (b *SecretBuilder) WithLabels(labels map[string]string) *SecretBuilder {
	b.secret.Labels = maps.Clone(labels)
	if b.secret.Immutable != nil && *b.secret.Immutable {
		metav1.SetMetaDataLabel(&b.secret.ObjectMeta, resourcesv1alpha1.GarbageCollectableReference, "true")
	}
	return b
}

// AddLabels adds labels to the labels that were set before.
func (b *SecretBuilder) AddLabels(added map[string]string) *SecretBuilder {
	b.secret.Labels = merged(b.secret.Labels, added)
	return b
}

// WithAnnotations sets the annotations. It replaces annotations that were set before.
func (b *SecretBuilder) WithAnnotations(annotations map[string]string) *SecretBuilder {
	b.secret.Annotations = maps.Clone(annotations)
	return b
}

// Unique makes the Secret immutable and its name dependent on its data, as references.MakeUnique does, and returns the new name. Call it
// once, after name and data are set.
func (b *SecretBuilder) Unique() (string, *SecretBuilder) {
	references.MakeSecretUnique(&b.secret)
	return b.secret.Name, b
}

// Build returns the Secret, with its apiVersion and kind. It makes no request.
func (b *SecretBuilder) Build() *corev1.Secret {
	secret := b.secret.DeepCopy()
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// Reconcile creates the Secret, or updates it if it exists and differs: it replaces labels and annotations, and sets type, data and
// immutability. The API server refuses to change the data of an immutable Secret. This happens if only a key of the data of a unique Secret
// was renamed, because the name does not depend on keys.
func (b *SecretBuilder) Reconcile(ctx context.Context) error {
	want := b.secret.DeepCopy()
	live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, b.client, live, func() error {
		live.Labels = want.Labels
		live.Annotations = want.Annotations
		live.Type = want.Type
		live.Data = want.Data
		live.Immutable = want.Immutable
		return nil
	})
	if err != nil {
		return fmt.Errorf("create or update secret %s: %w", client.ObjectKeyFromObject(want), err)
	}
	return nil
}

// merged returns a new map with the entries of both; entries of over win. Unlike labels.Merge, it returns nil if there are no entries,
// because the object with this map is passed to the client of the caller.
func merged(under, over map[string]string) map[string]string {
	if len(under)+len(over) == 0 {
		return nil
	}
	return labels.Merge(under, over)
}
