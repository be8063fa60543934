package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/flow"
)

// ClassSeed is the class of ManagedResources for the runtime cluster.
const ClassSeed = managedresources.ClassSeed

// SeedSet returns a ManagedResource for the runtime cluster that has these objects, preceded by its Secret.
func SeedSet(namespace, name string, objects ...client.Object) ([]*unstructured.Unstructured, error) {
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
		text, err := yaml.Marshal(each.Object)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", describe(each), err)
		}
		secret.Data[strings.ToLower(each.GetKind())+"__"+each.GetNamespace()+"__"+each.GetName()+".yaml"] = text
	}
	references.MakeSecretUnique(secret)
	set := &resourcesv1alpha1.ManagedResource{
		TypeMeta: metav1.TypeMeta{APIVersion: resourcesv1alpha1.SchemeGroupVersion.String(), Kind: "ManagedResource"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{managedresources.LabelKeyRole: managedresources.RoleSeedSystemComponent},
		},
		Spec: resourcesv1alpha1.ManagedResourceSpec{
			Class: ptr.To(ClassSeed), KeepObjects: ptr.To(false), SecretRefs: []corev1.LocalObjectReference{{Name: secret.Name}},
		},
	}
	if err := references.InjectAnnotations(set); err != nil {
		return nil, fmt.Errorf("annotate ManagedResource %s: %w", name, err)
	}
	return Unstructured(secret, set)
}

// DestroySeedSet deletes the Secrets of a ManagedResource and the ManagedResource, if the operator created it, and waits until it is gone.
func (c Cluster) DestroySeedSet(ctx context.Context, waitingFor flow.WaitingFor, timeout time.Duration, namespace, name string) error {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.Client.List(ctx, secrets, client.InNamespace(namespace), client.HasLabels{resourcesv1alpha1.GarbageCollectableReference}); err != nil {
		return fmt.Errorf("list Secrets of ManagedResources: %w", err)
	}
	prefix := managedresources.SecretName(name, true) + "-"
	for i := range secrets.Items {
		if suffix, own := strings.CutPrefix(secrets.Items[i].Name, prefix); own && !strings.Contains(suffix, "-") {
			if _, err := c.Delete(ctx, identity("v1", "Secret", namespace, secrets.Items[i].Name), Ours); err != nil {
				return err
			}
		}
	}
	set := identity(resourcesv1alpha1.SchemeGroupVersion.String(), "ManagedResource", namespace, name)
	return c.Destroy(ctx, waitingFor, timeout, set)
}

func identity(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
