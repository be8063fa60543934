package installation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// cluster returns the client that writes the objects of an installation. The client labels the objects with the name of the installation,
// and deletes only objects with this label.
func (r *Reconciler) cluster(ci *corev1beta1.ControllerInstallation) rollout.Cluster {
	return rollout.Cluster{
		Client: r.Seed, FieldManager: r.FieldManager, Predecessor: predecessor,
		CreatedBy: rollout.Label{Key: corev1beta1.LabelManagedResourceInstallation, Value: ci.Name},
	}
}

// deploy writes the objects of an installation in the cluster of the Seed.
func (r *Reconciler) deploy(
	ctx context.Context, ci *corev1beta1.ControllerInstallation, found observed, kubeconfig *corev1.Secret, manifests chart.Manifests,
) error {
	data, err := manifests.Files()
	if err != nil {
		return fmt.Errorf("encode objects of chart: %w", err)
	}
	for key, text := range data { // the name of an immutable Secret depends on its contents, and not on its keys
		data[key] = append([]byte("# "+key+"\n"), text...)
	}
	objects, err := managedResource(ci, data)
	if err != nil {
		return err
	}
	set := objects[len(objects)-1]
	live, err := r.checkNames(ctx, ci, manifests)
	if err != nil {
		return err
	}
	if live != nil {
		planned(set, ci, live)
	} else {
		planned(set, ci, set)
	}
	if err := r.ensureNamespace(ctx, ci, found.seed); err != nil {
		return err
	}
	// A workload does not start without the Secrets that it mounts, and one that still runs must not lose them before it is changed.
	if err := r.grantAccess(ctx, ci, found, kubeconfig); err != nil {
		return err
	}
	if err := r.cluster(ci).Deploy(ctx, objects...); err != nil {
		return err
	}
	if only, _ := merge.AsksForPlan(set.GetAnnotations()); only {
		return nil // the workloads do not change
	}
	return r.revokeAccess(ctx, ci, found)
}

// checkNames checks the ManagedResource of the installation, and the objects of the chart outside of the namespace of the installation. It
// returns an error if one of these objects exists and does not belong to the installation. It does not check objects inside of the
// namespace of the installation. It returns the metadata of the ManagedResource; nil if there is no ManagedResource.
func (r *Reconciler) checkNames(ctx context.Context, ci *corev1beta1.ControllerInstallation, manifests chart.Manifests) (
	*metav1.PartialObjectMetadata, error,
) {
	set, err := r.metadata(ctx, rollout.ManagedResource, GardenNamespace, ci.Name)
	if err != nil {
		return nil, err
	}
	if set != nil && set.Labels[corev1beta1.LabelManagedResourceInstallation] != ci.Name {
		return nil, fmt.Errorf("ManagedResource %s/%s exists, and does not belong to this installation", GardenNamespace, ci.Name)
	}
	for _, manifest := range manifests {
		for _, each := range manifest.Objects {
			o := &unstructured.Unstructured{Object: each}
			if o.GetNamespace() == namespaceOf(ci.Name) {
				continue
			}
			if err := r.checkFree(ctx, ci, o); err != nil {
				return nil, fmt.Errorf("%s: %w", manifest.Template, err)
			}
		}
	}
	return set, nil
}

// checkFree returns an error if an object exists and does not belong to the ManagedResource of the installation. Without this check, an
// extension could replace roles of this program or of other extensions.
func (r *Reconciler) checkFree(ctx context.Context, ci *corev1beta1.ControllerInstallation, o *unstructured.Unstructured) error {
	free, err := rollout.IsFree(ctx, r.Seed, o, client.ObjectKey{Namespace: GardenNamespace, Name: ci.Name})
	if err == nil && !free {
		err = fmt.Errorf("%s %s exists, and does not belong to this installation", o.GetKind(), o.GetName())
	}
	return err
}

// metadata reads the metadata of an object; nil if it does not exist.
func (r *Reconciler) metadata(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (
	*metav1.PartialObjectMetadata, error,
) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	return rollout.Find(ctx, r.Seed, namespace, name, live)
}

// ensureNamespace creates the namespace, or corrects its labels and annotations.
func (r *Reconciler) ensureNamespace(ctx context.Context, ci *corev1beta1.ControllerInstallation, seed *unstructured.Unstructured) error {
	// The cluster of the Seed can be the cluster of the garden, too.
	garden := schema.GroupVersionKind{Group: "operator.gardener.cloud", Version: "v1alpha1", Kind: "Garden"}
	isGarden, err := rollout.HasAny(ctx, r.Seed, garden)
	if err != nil {
		return err
	}
	name, wanted, annotations := namespaceOf(ci.Name), namespaceLabels(ci, isGarden), namespaceAnnotations(seed)
	live, err := r.metadata(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), "", name)
	if err != nil {
		return err
	}
	if live == nil {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: wanted.set(), Annotations: annotations.set()}}
		if err = r.Seed.Create(ctx, namespace, client.FieldOwner(r.FieldManager)); err != nil {
			return fmt.Errorf("create Namespace %s: %w", name, err)
		}
		return nil
	}
	switch {
	case live.DeletionTimestamp != nil:
		return fmt.Errorf("namespace %s of a former installation is being deleted", name)
	case !isOurNamespace(live, ci.Spec.RegistrationRef.Name):
		return fmt.Errorf("namespace %s exists, and does not belong to the extension %s", name, ci.Spec.RegistrationRef.Name)
	}
	patch, err := namespacePatch(live, wanted, annotations)
	if err != nil || patch == nil {
		return err
	}
	err = r.Seed.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(r.FieldManager))
	if err != nil {
		return fmt.Errorf("patch Namespace %s: %w", name, err)
	}
	return nil
}

// grantAccess writes the Secrets by which the extension connects to the garden: the kubeconfig, and the Secret for the token. If no
// workload uses the access, it writes only the kubeconfig. If the extension gets no access, it writes nothing.
func (r *Reconciler) grantAccess(
	ctx context.Context, ci *corev1beta1.ControllerInstallation, found observed, kubeconfig *corev1.Secret,
) error {
	if !found.inject {
		return nil
	}
	if err := r.cluster(ci).DeployTyped(ctx, kubeconfig); err != nil {
		return err
	}
	if !found.wantsAccess {
		return nil
	}
	token, err := tokenSecret(ci)
	if err != nil {
		return err
	}
	return r.cluster(ci).DeployTyped(ctx, token)
}

// revokeAccess removes the access to the garden that an extension had before its ControllerDeployment or its chart changed. If the
// extension gets access, and a workload uses it, revokeAccess removes nothing. If the extension gets access, and no workload uses it,
// revokeAccess deletes only the Secret with the token. If the extension gets no access, revokeAccess then also deletes the kubeconfigs,
// and the ServiceAccount in the garden. It deletes the Secret with the token first, so that token-controllers do not create the
// ServiceAccount again.
func (r *Reconciler) revokeAccess(ctx context.Context, ci *corev1beta1.ControllerInstallation, found observed) error {
	if found.inject && found.wantsAccess {
		return nil
	}
	namespace := namespaceOf(ci.Name)
	if err := r.deleteSecret(ctx, namespace, accessSecret); err != nil || found.inject {
		return err
	}
	secrets, err := r.secrets(ctx, namespace)
	if err != nil {
		return err
	}
	for i := range secrets {
		if isKubeconfig(&secrets[i]) {
			if err := r.deleteSecret(ctx, namespace, secrets[i].Name); err != nil {
				return err
			}
		}
	}
	return r.deleteAccount(ctx, ci)
}

// secrets returns the metadata of the immutable Secrets of a namespace.
func (r *Reconciler) secrets(ctx context.Context, namespace string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	immutable := client.MatchingLabels{resourcesv1alpha1.GarbageCollectableReference: "true"}
	if err := r.Seed.List(ctx, list, client.InNamespace(namespace), immutable); err != nil {
		return nil, fmt.Errorf("list Secrets in %s: %w", namespace, err)
	}
	return list.Items, nil
}

func (r *Reconciler) deleteSecret(ctx context.Context, namespace, name string) error {
	live, err := r.metadata(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), namespace, name)
	if err != nil || live == nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := r.Seed.Delete(ctx, secret, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}

// account reads the ServiceAccount of the extension in the garden; nil if it does not exist.
func (r *Reconciler) account(ctx context.Context, ci *corev1beta1.ControllerInstallation) (*corev1.ServiceAccount, error) {
	namespace := corev1beta1.SeedNamespacePrefix + r.SeedName
	found, err := rollout.Find(ctx, r.GardenLive, namespace, namespaceOf(ci.Name), &corev1.ServiceAccount{})
	if err != nil {
		return nil, fmt.Errorf("in the garden: %w", err)
	}
	return found, nil
}

// deleteAccount deletes the ServiceAccount of the extension in the garden.
func (r *Reconciler) deleteAccount(ctx context.Context, ci *corev1beta1.ControllerInstallation) error {
	account, err := r.account(ctx, ci)
	if err != nil || account == nil {
		return err
	}
	if err := r.Garden.Delete(ctx, account); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ServiceAccount %s in the garden: %w", client.ObjectKeyFromObject(account), err)
	}
	return nil
}
