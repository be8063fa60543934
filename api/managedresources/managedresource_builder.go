package managedresources

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// ManagedResourceBuilder describes a ManagedResource. It returns the ManagedResource, or creates or updates it in the cluster.
type ManagedResourceBuilder struct {
	client client.Client
	mr     resourcesv1alpha1.ManagedResource
}

// NewManagedResource returns a builder that writes with c, whose scheme must know ManagedResources. If only Build is called, c may be
// nil.
func NewManagedResource(c client.Client) *ManagedResourceBuilder {
	// The API server rejects null instead of a list, so the list must not be nil.
	spec := resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{}}
	return &ManagedResourceBuilder{client: c, mr: resourcesv1alpha1.ManagedResource{Spec: spec}}
}

// WithNamespacedName sets the namespace and the name.
func (b *ManagedResourceBuilder) WithNamespacedName(namespace, name string) *ManagedResourceBuilder {
	b.mr.Namespace = namespace
	b.mr.Name = name
	return b
}

// WithLabels sets the labels. It replaces labels that were set before.
func (b *ManagedResourceBuilder) WithLabels(labels map[string]string) *ManagedResourceBuilder {
	b.mr.Labels = maps.Clone(labels)
	return b
}

// WithAnnotations sets the annotations. It replaces annotations that were set before.
func (b *ManagedResourceBuilder) WithAnnotations(annotations map[string]string) *ManagedResourceBuilder {
	b.mr.Annotations = maps.Clone(annotations)
	return b
}

// WithClass sets the class. An empty class stands for the default class, and is not written.
func (b *ManagedResourceBuilder) WithClass(class string) *ManagedResourceBuilder {
	b.mr.Spec.Class = nil
	if class != "" {
		b.mr.Spec.Class = &class
	}
	return b
}

// WithSecretRef appends a reference to the Secret of the given name.
func (b *ManagedResourceBuilder) WithSecretRef(name string) *ManagedResourceBuilder {
	b.mr.Spec.SecretRefs = append(b.mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: name})
	return b
}

// WithSecretRefs appends references to Secrets.
func (b *ManagedResourceBuilder) WithSecretRefs(refs []corev1.LocalObjectReference) *ManagedResourceBuilder {
	b.mr.Spec.SecretRefs = append(b.mr.Spec.SecretRefs, refs...)
	return b
}

// WithInjectedLabels sets the labels that every object of the set gets. It replaces labels that were set before.
func (b *ManagedResourceBuilder) WithInjectedLabels(labels map[string]string) *ManagedResourceBuilder {
	b.mr.Spec.InjectLabels = maps.Clone(labels)
	return b
}

// ForceOverwriteLabels sets whether the controller removes labels of live objects that their manifests do not have.
func (b *ManagedResourceBuilder) ForceOverwriteLabels(force bool) *ManagedResourceBuilder {
	b.mr.Spec.ForceOverwriteLabels = &force
	return b
}

// ForceOverwriteAnnotations sets whether the controller removes annotations of live objects that their manifests do not have.
func (b *ManagedResourceBuilder) ForceOverwriteAnnotations(force bool) *ManagedResourceBuilder {
	b.mr.Spec.ForceOverwriteAnnotations = &force
	return b
}

// KeepObjects sets whether the objects stay when the set is deleted.
func (b *ManagedResourceBuilder) KeepObjects(keep bool) *ManagedResourceBuilder {
	b.mr.Spec.KeepObjects = &keep
	return b
}

// DeletePersistentVolumeClaims sets whether the PersistentVolumeClaims of StatefulSets are deleted with them.
func (b *ManagedResourceBuilder) DeletePersistentVolumeClaims(remove bool) *ManagedResourceBuilder {
	b.mr.Spec.DeletePersistentVolumeClaims = &remove
	return b
}

// WithEquivalences sets the lists of kinds that stand for the same objects. It replaces lists that were set before.
func (b *ManagedResourceBuilder) WithEquivalences(equivalences [][]metav1.GroupKind) *ManagedResourceBuilder {
	b.mr.Spec.Equivalences = equivalences
	return b
}

// Build returns the ManagedResource that Reconcile creates, with its apiVersion and kind. It makes no request.
func (b *ManagedResourceBuilder) Build() (*resourcesv1alpha1.ManagedResource, error) {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: b.mr.Namespace, Name: b.mr.Name}}
	mr.SetGroupVersionKind(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"))
	return b.mergedInto(mr)
}

// Reconcile creates the ManagedResource, or updates it if it exists and differs. On an update, it adds labels and annotations to the
// existing ones, and replaces the whole spec. It always annotates the ManagedResource with the Secrets that the spec refers to, so that the
// garbage collector keeps them. Before an update, it labels the Secrets that the old spec refers to, so that the garbage collector removes
// the unused ones.
func (b *ManagedResourceBuilder) Reconcile(ctx context.Context) error {
	key := client.ObjectKeyFromObject(&b.mr)
	live := &resourcesv1alpha1.ManagedResource{}
	if err := b.client.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return b.create(ctx)
		}
		return fmt.Errorf("get managed resource %s: %w", key, err)
	}
	return b.update(ctx, live)
}

func (b *ManagedResourceBuilder) create(ctx context.Context) error {
	created, err := b.Build()
	if err != nil {
		return err
	}
	if err := b.client.Create(ctx, created); err != nil {
		return fmt.Errorf("create managed resource %s: %w", client.ObjectKeyFromObject(&b.mr), err)
	}
	return nil
}

func (b *ManagedResourceBuilder) update(ctx context.Context, live *resourcesv1alpha1.ManagedResource) error {
	for _, name := range referencedSecrets(live) {
		if err := labelCollectable(ctx, b.client, live.Namespace, name); err != nil {
			return err
		}
	}
	updated, err := b.mergedInto(live)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(live, updated) {
		return nil
	}
	if err := b.client.Update(ctx, updated); err != nil {
		return fmt.Errorf("update managed resource %s: %w", client.ObjectKeyFromObject(live), err)
	}
	return nil
}

// mergedInto returns a copy of mr with the labels, annotations and spec of the builder.
func (b *ManagedResourceBuilder) mergedInto(mr *resourcesv1alpha1.ManagedResource) (*resourcesv1alpha1.ManagedResource, error) {
	result := mr.DeepCopy()
	result.Labels = merged(result.Labels, b.mr.Labels)
	result.Annotations = merged(result.Annotations, b.mr.Annotations)
	b.mr.Spec.DeepCopyInto(&result.Spec)
	if err := references.InjectAnnotations(result); err != nil {
		return nil, fmt.Errorf("annotate managed resource with its references: %w", err)
	}
	return result, nil
}

// referencedSecrets returns the names of the Secrets that mr refers to. The API allows references without a name.
func referencedSecrets(mr *resourcesv1alpha1.ManagedResource) []string {
	var names []string
	for _, ref := range mr.Spec.SecretRefs {
		if ref.Name != "" {
			names = append(names, ref.Name)
		}
	}
	return names
}

// labelCollectable labels a Secret for the garbage collector, if it exists and is not labelled yet. It reads only metadata, because it does
// not need the content.
func labelCollectable(ctx context.Context, c client.Client, namespace, name string) error {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if err := c.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get secret %s: %w", key, err)
	}
	if secret.Labels[resourcesv1alpha1.GarbageCollectableReference] == "true" {
		return nil
	}
	before := secret.DeepCopy()
	metav1.SetMetaDataLabel(&secret.ObjectMeta, resourcesv1alpha1.GarbageCollectableReference, "true")
	if err := c.Patch(ctx, secret, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label secret %s as garbage collectable: %w", key, err)
	}
	return nil
}
