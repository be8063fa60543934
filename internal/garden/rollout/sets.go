package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/flow"
)

// ManagedResource is the kind of ManagedResources.
var ManagedResource = resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource")

// ClassSeed is the class of ManagedResources for the runtime cluster.
const ClassSeed = managedresources.ClassSeed

// SeedSet returns a ManagedResource for the runtime cluster that has these objects, preceded by its Secret.
func SeedSet(namespace, name string, objects ...client.Object) ([]*unstructured.Unstructured, error) {
	labels := map[string]string{managedresources.LabelKeyRole: managedresources.RoleSeedSystemComponent}
	spec := resourcesv1alpha1.ManagedResourceSpec{Class: ptr.To(ClassSeed), KeepObjects: ptr.To(false)}
	return set(namespace, name, labels, spec, objects)
}

// VirtualSet returns a ManagedResource for the virtual cluster that has these objects, preceded by its Secret. With keepObjects, its
// deletion keeps the objects.
func VirtualSet(namespace, name string, keepObjects bool, objects ...client.Object) ([]*unstructured.Unstructured, error) {
	labels := map[string]string{managedresources.LabelKeyOrigin: managedresources.LabelValueGardener}
	spec := resourcesv1alpha1.ManagedResourceSpec{
		KeepObjects: ptr.To(keepObjects), InjectLabels: map[string]string{managedresources.LabelKeyNoCleanup: "true"},
	}
	return set(namespace, name, labels, spec, objects)
}

func set(
	namespace, name string, labels map[string]string, spec resourcesv1alpha1.ManagedResourceSpec, objects []client.Object,
) ([]*unstructured.Unstructured, error) {
	contents, err := Unstructured(objects...)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: managedresources.SecretName(name, true)},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{},
	}
	for _, each := range contents {
		text, err := YAML(each)
		if err != nil {
			return nil, err
		}
		secret.Data[key(each)] = text
	}
	references.MakeSecretUnique(secret)
	spec.SecretRefs = []corev1.LocalObjectReference{{Name: secret.Name}}
	managed := &resourcesv1alpha1.ManagedResource{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcesv1alpha1.SchemeGroupVersion.String(), Kind: "ManagedResource"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: spec,
	}
	if err := references.InjectAnnotations(managed); err != nil {
		return nil, fmt.Errorf("annotate ManagedResource %s: %w", name, err)
	}
	return Unstructured(secret, managed)
}

// key returns the key of an object in a Secret. Names of roles may have colons, and keys may not.
func key(o client.Object) string {
	kind := strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind)
	return strings.ReplaceAll(kind+"__"+o.GetNamespace()+"__"+o.GetName()+".yaml", ":", "_")
}

// UntilSetsReady waits until ManagedResources of a namespace satisfy a judgement, which returns what is missing.
func (c Cluster) UntilSetsReady(
	ctx context.Context, waitingFor flow.WaitingFor, timeout time.Duration, judge func(*resourcesv1alpha1.ManagedResource) error,
	namespace string, names ...string,
) error {
	watched := Watched{Kind: ManagedResource, Options: []client.ListOption{client.InNamespace(namespace)}}
	return c.Until(ctx, waitingFor, timeout, watched, func(ctx context.Context) error {
		for _, name := range names {
			set := &resourcesv1alpha1.ManagedResource{}
			if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
				return fmt.Errorf("read ManagedResource %s/%s: %w", namespace, name, err)
			}
			if err := judge(set); err != nil {
				return fmt.Errorf("not ready (see kubectl -n %s describe managedresource %s): %w", namespace, name, err)
			}
		}
		return nil
	})
}

// DestroySeedSet does the same as DeleteSeedSet, and waits until the ManagedResource is gone.
func (c Cluster) DestroySeedSet(ctx context.Context, waitingFor flow.WaitingFor, timeout time.Duration, namespace, name string) error {
	requested, err := c.DeleteSeedSet(ctx, namespace, name)
	if err != nil || !requested {
		return err
	}
	return c.UntilGone(ctx, waitingFor, timeout, Identity(ManagedResource, namespace, name))
}

// DeleteSeedSet deletes the Secrets of a ManagedResource, and requests the deletion of the ManagedResource, each if the operator created
// it. It returns false if there is no such ManagedResource.
func (c Cluster) DeleteSeedSet(ctx context.Context, namespace, name string) (bool, error) {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	collectable := client.HasLabels{resourcesv1alpha1.GarbageCollectableReference}
	if err := c.Client.List(ctx, secrets, client.InNamespace(namespace), collectable); err != nil {
		return false, fmt.Errorf("list Secrets of ManagedResources: %w", err)
	}
	prefix := managedresources.SecretName(name, true) + "-"
	for i := range secrets.Items {
		if suffix, own := strings.CutPrefix(secrets.Items[i].Name, prefix); own && !strings.Contains(suffix, "-") {
			if _, err := c.Delete(ctx, Identity(corev1.SchemeGroupVersion.WithKind("Secret"), namespace, secrets.Items[i].Name), Ours); err != nil {
				return false, err
			}
		}
	}
	return c.Delete(ctx, Identity(ManagedResource, namespace, name), Ours)
}

// Identity returns an object that has only what identifies it.
func Identity(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
