package rollout

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// ManagedResource is the group, version and kind of ManagedResources.
var ManagedResource = resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource")

// LabelConditionType is a label on ManagedResources: the type of the condition that a ManagedResource counts for.
const LabelConditionType = "care.gardener.cloud/condition-type"

// NewSeedManagedResource returns a ManagedResource for the runtime cluster that has these objects, preceded by its Secret.
func NewSeedManagedResource(
	namespace, name string, condition corev1beta1.ConditionType, objects ...client.Object,
) ([]*unstructured.Unstructured, error) {
	labels := map[string]string{managedresources.LabelKeyRole: managedresources.RoleSeedSystemComponent, LabelConditionType: string(condition)}
	set := managedresources.NewManagedResource(nil).WithLabels(labels).WithClass(managedresources.ClassSeed).KeepObjects(false)
	return newManagedResource(namespace, name, set, objects)
}

// NewVirtualManagedResource returns a ManagedResource for the virtual cluster that has these objects, preceded by its Secret. If
// keepObjects is true, the objects stay when the ManagedResource is deleted.
func NewVirtualManagedResource(
	namespace, name string, condition corev1beta1.ConditionType, keepObjects bool, objects ...client.Object,
) ([]*unstructured.Unstructured, error) {
	labels := map[string]string{managedresources.LabelKeyOrigin: managedresources.LabelValueGardener, LabelConditionType: string(condition)}
	set := managedresources.NewManagedResource(nil).WithLabels(labels).KeepObjects(keepObjects).
		WithInjectedLabels(map[string]string{managedresources.LabelKeyNoCleanup: "true"})
	return newManagedResource(namespace, name, set, objects)
}

func newManagedResource(
	namespace, name string, set *managedresources.ManagedResourceBuilder, objects []client.Object,
) ([]*unstructured.Unstructured, error) {
	contents, err := Unstructured(objects...)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for _, each := range contents {
		text, failure := YAML(each)
		if failure != nil {
			return nil, failure
		}
		data[keyOf(each)] = text
	}
	return WithContents(namespace, name, set, data)
}

// WithContents returns a ManagedResource with the given manifests, by file name, preceded by its Secret.
func WithContents(
	namespace, name string, set *managedresources.ManagedResourceBuilder, manifests map[string][]byte,
) ([]*unstructured.Unstructured, error) {
	secret := contentsOf(namespace, name, manifests)
	managed, err := set.WithNamespacedName(namespace, name).WithSecretRef(secret.Name).Build()
	if err != nil {
		return nil, fmt.Errorf("build ManagedResource %s: %w", name, err)
	}
	return Unstructured(secret, managed)
}

// contentsOf returns the Secret with the contents of a ManagedResource.
func contentsOf(namespace, name string, data map[string][]byte) *corev1.Secret {
	_, secret := managedresources.NewSecret(nil).
		WithNamespacedName(namespace, managedresources.SecretName(name, true)).WithKeyValues(data).Unique()
	return secret.Build()
}

// keyOf returns the key of an object in a Secret. Names of roles may have colons, and keys may not.
func keyOf(o client.Object) string {
	kind := strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind)
	return strings.ReplaceAll(kind+"__"+o.GetNamespace()+"__"+o.GetName()+".yaml", ":", "_")
}

// UntilManagedResourcesReady waits until the argument judge returns nil for each of the named ManagedResources of a namespace. If it
// fails, its error contains the last error of judge, or of the read of a ManagedResource.
func (c Cluster) UntilManagedResourcesReady(
	ctx context.Context, timeout time.Duration, judge func(*resourcesv1alpha1.ManagedResource) error,
	namespace string, names ...string,
) error {
	watched := Watched{Kind: ManagedResource, Options: []client.ListOption{client.InNamespace(namespace)}}
	return c.Until(ctx, timeout, func(ctx context.Context) error {
		for _, name := range names {
			live := &resourcesv1alpha1.ManagedResource{}
			if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, live); err != nil {
				return fmt.Errorf("read ManagedResource %s/%s: %w", namespace, name, err)
			}
			if err := judge(live); err != nil {
				return fmt.Errorf("not ready (see kubectl -n %s describe managedresource %s): %w", namespace, name, err)
			}
		}
		return nil
	}, watched)
}

// DestroyManagedResource does the same as DeleteManagedResource, and waits until the ManagedResource is gone.
func (c Cluster) DestroyManagedResource(ctx context.Context, timeout time.Duration, namespace, name string) error {
	requested, err := c.DeleteManagedResource(ctx, namespace, name)
	if err != nil || !requested {
		return err
	}
	return c.UntilGone(ctx, timeout, Identity(ManagedResource, namespace, name))
}

// DeleteManagedResource deletes the Secrets of a ManagedResource that the program created. It also requests the deletion of the
// ManagedResource if the program created it. It returns false if the ManagedResource does not exist, or if the program did not create it.
func (c Cluster) DeleteManagedResource(ctx context.Context, namespace, name string) (bool, error) {
	prefix := managedresources.SecretName(name, true) + "-"
	if err := c.deleteCollectable(ctx, "Secret", namespace, func(o client.Object) bool {
		suffix, own := strings.CutPrefix(o.GetName(), prefix)
		return own && !strings.Contains(suffix, "-") && c.IsOurs(o)
	}); err != nil {
		return false, err
	}
	return c.Delete(ctx, Identity(ManagedResource, namespace, name), c.IsOurs)
}

// AbandonManagedResource does the same as DeleteManagedResource. If the program created the ManagedResource, it also removes the finalizer
// of the resource manager from it, so that the objects of the ManagedResource stay. Call it only when no resource manager is responsible
// for the ManagedResource any more.
func (c Cluster) AbandonManagedResource(ctx context.Context, namespace, name string) error {
	requested, err := c.DeleteManagedResource(ctx, namespace, name)
	if err != nil || !requested {
		return err
	}
	live := &resourcesv1alpha1.ManagedResource{}
	err = c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, live)
	if err == nil && controllerutil.RemoveFinalizer(live, resourcesv1alpha1.FinalizerName) {
		err = c.Client.Update(ctx, live, client.FieldOwner(c.FieldManager))
	}
	if err != nil && !IsGone(err) {
		return fmt.Errorf("abandon ManagedResource %s/%s: %w", namespace, name, err)
	}
	return nil
}

// ReplaceTexts replaces texts in the Deployments and in the contents of the ManagedResources of a namespace, if the Deployments and
// ManagedResources have the label CreatedBy. The Secrets of a ManagedResource are immutable, so ReplaceTexts creates new Secrets and makes
// the ManagedResource refer to them. In the Deployments and ManagedResources it changes only the texts, and the references to Secrets.
func (c Cluster) ReplaceTexts(ctx context.Context, namespace string, replaced map[string]string) error {
	ours := client.MatchingLabels{c.CreatedBy.Key: c.CreatedBy.Value}
	deployments := &unstructured.UnstructuredList{}
	deployments.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
	managedResources := &resourcesv1alpha1.ManagedResourceList{}
	for _, each := range []client.ObjectList{deployments, managedResources} {
		if err := c.Client.List(ctx, each, client.InNamespace(namespace), ours); err != nil && !IsGone(err) {
			return fmt.Errorf("list objects created by %s: %w", c.CreatedBy.Value, err)
		}
	}
	for i := range deployments.Items {
		if err := c.Deploy(ctx, WithTexts(&deployments.Items[i], replaced)); err != nil {
			return err
		}
	}
	for i := range managedResources.Items {
		if err := c.replaceInManagedResource(ctx, &managedResources.Items[i], replaced); err != nil {
			return fmt.Errorf("replace texts in ManagedResource %s: %w", managedResources.Items[i].Name, err)
		}
	}
	return nil
}

// replaceInManagedResource makes a ManagedResource refer to new Secrets with the replaced texts, because its Secrets are immutable.
func (c Cluster) replaceInManagedResource(ctx context.Context, live *resourcesv1alpha1.ManagedResource, replaced map[string]string) error {
	changed := live.DeepCopy()
	for i, ref := range live.Spec.SecretRefs {
		secret := &corev1.Secret{}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: live.Namespace, Name: ref.Name}, secret); err != nil {
			return fmt.Errorf("read Secret %s: %w", ref.Name, err)
		}
		data, err := withTextsInManifests(secret.Data, replaced)
		if err != nil {
			return fmt.Errorf("read Secret %s: %w", ref.Name, err)
		}
		if maps.EqualFunc(data, secret.Data, bytes.Equal) {
			continue
		}
		next := contentsOf(live.Namespace, live.Name, data)
		if err := c.DeployTyped(ctx, next); err != nil {
			return err
		}
		changed.Spec.SecretRefs[i].Name = next.Name
	}
	if slices.Equal(changed.Spec.SecretRefs, live.Spec.SecretRefs) {
		return nil
	}
	if err := references.InjectAnnotations(changed); err != nil {
		return fmt.Errorf("annotate: %w", err)
	}
	changed.SetGroupVersionKind(ManagedResource)
	return c.DeployTyped(ctx, changed)
}

// DeleteGarbage deletes two groups of immutable Secrets and ConfigMaps of a namespace: the objects that the program created, and the
// objects whose origin annotation names a ManagedResource of that namespace that no longer exists. It replaces the garbage collector of
// the resource manager when the resource manager is deleted.
func (c Cluster) DeleteGarbage(ctx context.Context, namespace string) error {
	managedResources := &metav1.PartialObjectMetadataList{}
	managedResources.SetGroupVersionKind(ManagedResource.GroupVersion().WithKind("ManagedResourceList"))
	if err := c.Client.List(ctx, managedResources, client.InNamespace(namespace)); err != nil && !IsGone(err) {
		return fmt.Errorf("list ManagedResources: %w", err)
	}
	exists := map[string]bool{}
	for i := range managedResources.Items {
		exists[managedResources.Items[i].Name] = true
	}
	garbage := func(o client.Object) bool {
		creator, brought := strings.CutPrefix(o.GetAnnotations()[resourcesv1alpha1.OriginAnnotation], namespace+"/")
		return c.IsOurs(o) || brought && !exists[creator]
	}
	for _, kind := range []string{"Secret", "ConfigMap"} {
		if err := c.deleteCollectable(ctx, kind, namespace, garbage); err != nil {
			return err
		}
	}
	return nil
}

// deleteCollectable deletes the objects of a kind that have the garbage-collectable label and satisfy a condition.
func (c Cluster) deleteCollectable(ctx context.Context, kind, namespace string, condition func(client.Object) bool) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	collectable := client.HasLabels{resourcesv1alpha1.GarbageCollectableReference}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), collectable); err != nil {
		return fmt.Errorf("list immutable objects of kind %s: %w", kind, err)
	}
	for i := range list.Items {
		if !condition(&list.Items[i]) {
			continue
		}
		o := Identity(corev1.SchemeGroupVersion.WithKind(kind), namespace, list.Items[i].Name)
		if _, err := c.Delete(ctx, o, condition); err != nil {
			return err
		}
	}
	return nil
}

// Deployments returns the Deployments among the objects.
func Deployments(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, each := range objects {
		if each.GetKind() == "Deployment" {
			found = append(found, each)
		}
	}
	return found
}

// Identity returns an object that consists of its kind, namespace and name.
func Identity(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
