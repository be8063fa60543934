package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/api/managedresources"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// hvpaManagedResource is the name of the ManagedResource of former releases of Gardener with the controller of Hvpas.
const hvpaManagedResource = "hvpa"

var errManagedResources = errors.New("requeue in 5s due to at least one ManagedResource still exists")

// delete destroys the objects that the operator created, and then removes the finalizer.
func (o *operation) delete(ctx context.Context) error {
	o.values = values.OfAny(o.status.garden, o.Operator)
	if _, err := o.run(ctx, "Garden deletion", o.deletionTasks()); err != nil {
		return err
	}
	if o.Expiry != nil {
		o.Expiry.Reset()
	}
	if err := o.forgetNetworks(ctx); err != nil {
		return err
	}
	return o.removeFinalizer(ctx, o.status.garden)
}

// forgetNetworks removes the networks of the Garden from its namespace, which stays: another Garden may have other networks.
func (o *operation) forgetNetworks(ctx context.Context) error {
	live, err := rollout.Find(ctx, o.Client, "", o.values.Namespace, &corev1.Namespace{})
	if err != nil || live == nil || live.Annotations[operatorv1alpha1.AnnotationRuntimeNetworks] == "" {
		return err
	}
	delete(live.Annotations, operatorv1alpha1.AnnotationRuntimeNetworks)
	if err := o.Client.Update(ctx, live, client.FieldOwner(rollout.FieldManager)); err != nil {
		return fmt.Errorf("remove annotation %s of Namespace %s: %w", operatorv1alpha1.AnnotationRuntimeNetworks, live.Name, err)
	}
	return nil
}

// destroySecrets deletes the Secrets of the manager of secrets, and immutable Secrets and ConfigMaps that no garbage collector deletes any
// more. Before the first deletion, it keeps copies of all keys that the etcd volumes and backups need, which stay.
func (o *operation) destroySecrets(ctx context.Context) error {
	origin := string(o.garden.UID)
	written, err := o.secrets.Keep(ctx, rotation.Kept(), origin)
	if err != nil {
		return err
	}
	last, err := o.keepLastCopies(ctx, origin)
	if err != nil {
		return err
	}
	if written += last; written > 0 {
		o.Recorder.Eventf(o.garden, nil, "Normal", reasonCredentialsKept, "Keep", "Kept %d keys and certificate authorities, which etcd volumes "+
			"and backups need (see kubectl -n %s get secrets -l %s=%s)", written, o.values.Namespace, secrets.LabelKeptFrom, origin)
	}
	if err := o.secrets.Cleanup(ctx, nil); err != nil {
		return fmt.Errorf("clean up Secrets: %w", err)
	}
	return o.cluster.DeleteGarbage(ctx, o.values.Namespace)
}

// keepLastCopies keeps the encryption configurations that have a key of which there is no other copy, because its Secret was lost: data in
// etcd may need it. It returns the number of copies that it wrote.
func (o *operation) keepLastCopies(ctx context.Context, origin string) (int, error) {
	all := &corev1.SecretList{}
	if err := o.Client.List(ctx, all, client.InNamespace(o.values.Namespace)); err != nil {
		return 0, fmt.Errorf("list encryption configurations: %w", err)
	}
	keyNames := map[string]string{} // by role
	for _, name := range rotation.Kept() {
		if role := apiserver.ConfigurationRole(name); role != "" {
			keyNames[role] = name
		}
	}
	var kept []secretconfig.UsableEncryptionKey
	for i := range all.Items {
		if _, isKept := all.Items[i].Labels[secrets.LabelKeptCredential]; isKept {
			if key, err := secretconfig.ParseEncryptionKey(all.Items[i].Data); err == nil { // most of them are no encryption keys
				kept = append(kept, key)
			}
		}
	}
	var copies []*corev1.Secret
	for i := range all.Items {
		each := &all.Items[i]
		keyName, is := keyNames[each.Labels[apiserver.RoleLabel]]
		if !is || each.Annotations[resourcesv1alpha1.KeepObject] != "true" { // without the annotation, no data needs it any more
			continue
		}
		keys, err := secretconfig.ParseEncryptionKeys(each.Data[secretconfig.DataKeyEncryptionConfiguration])
		lacks := func(key secretconfig.UsableEncryptionKey) bool { return !slices.Contains(kept, key) }
		if err == nil && !slices.ContainsFunc(keys, lacks) {
			continue
		}
		copies = append(copies, secrets.KeptCopy(each, keyName, origin, secrets.KeptEarlier))
	}
	return o.secrets.KeepCopies(ctx, copies)
}

// untilNoManagedResources waits until the runtime cluster has no ManagedResource left, including ManagedResources of other clients. Without
// the resource manager, none of them could be deleted any more.
func (o *operation) untilNoManagedResources(ctx context.Context) error {
	watched := rollout.Watched{Kind: rollout.ManagedResource}
	return o.cluster.Until(ctx, o.Timing.defaulted().ManagedResources, func(ctx context.Context) error {
		sets := &resourcesv1alpha1.ManagedResourceList{}
		err := o.Client.List(ctx, sets)
		if rollout.IsGone(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list ManagedResources: %w", err)
		}
		for i := range sets.Items {
			if ptr.Deref(sets.Items[i].Spec.Class, "") == managedresources.ClassSeed {
				return fmt.Errorf("%w: %s", errManagedResources, client.ObjectKeyFromObject(&sets.Items[i]))
			}
		}
		return nil
	}, watched)
}

// destroyResourceManager destroys the Deployments before the webhook configurations, which one of them would create again.
func (o *operation) destroyResourceManager(ctx context.Context) error {
	if err := o.installer().DestroyDefinitions(ctx, resourcemanager.Component); err != nil {
		return err
	}
	objects, err := o.resourceManager()
	if err != nil {
		return err
	}
	timeout := o.Timing.defaulted().ResourceManager
	running := rollout.Deployments(objects)
	served, err := o.anyOurs(ctx, append(running, objects...))
	if err != nil {
		return err
	}
	if err := o.cluster.Destroy(ctx, timeout, running...); err != nil {
		return err
	}
	if served {
		// webhook-server, which the operator had deployed, created these.
		for _, each := range []*unstructured.Unstructured{
			rollout.Identity(mutatingKind, "", resourcemanager.Name),
			rollout.Identity(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), "", resourcemanager.Name),
			rollout.Identity(corev1.SchemeGroupVersion.WithKind("Secret"), o.values.Namespace, resourcemanager.WebhookServer),
		} {
			if _, err := o.cluster.Delete(ctx, each, rollout.Unconditionally); err != nil {
				return err
			}
		}
		if err := o.deletePolicies(ctx); err != nil {
			return err
		}
	}
	return o.cluster.Destroy(ctx, timeout, objects...)
}

// deletePolicies deletes the NetworkPolicies of the netpol-controller of the resource manager, which no longer runs, in all namespaces:
// the policies of Services that remain, because other clients created them.
func (o *operation) deletePolicies(ctx context.Context) error {
	kind := networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")
	policies := &metav1.PartialObjectMetadataList{}
	policies.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	of := client.MatchingLabels{resourcesv1alpha1.NetworkingInstance: resourcemanager.Name}
	if err := o.Client.List(ctx, policies, of); err != nil {
		return fmt.Errorf("list NetworkPolicies of the resource manager: %w", err)
	}
	for i := range policies.Items {
		policy := rollout.Identity(kind, policies.Items[i].Namespace, policies.Items[i].Name)
		if err := o.Client.Delete(ctx, policy, client.Preconditions{UID: &policies.Items[i].UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete NetworkPolicy %s: %w", client.ObjectKeyFromObject(policy), err)
		}
	}
	return nil
}

// anyOurs reports whether the operator created one of the objects.
func (o *operation) anyOurs(ctx context.Context, objects []*unstructured.Unstructured) (bool, error) {
	for _, each := range objects {
		ours, err := o.cluster.HasOwn(ctx, each)
		if ours || err != nil {
			return ours, err
		}
	}
	return false, nil
}

// removeHVPA deletes the ManagedResource of the controller of Hvpas, and the definition of Hvpas when no Hvpa is left, even if another
// client created them. No program uses them any more. It does not wait for the ManagedResource, because the resource manager may not be
// there yet.
func (o *operation) removeHVPA(ctx context.Context) error {
	set := rollout.Identity(rollout.ManagedResource, o.values.Namespace, hvpaManagedResource)
	if _, err := o.cluster.Delete(ctx, set, rollout.Unconditionally); err != nil {
		return err
	}
	definition := rollout.Identity(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", crds.HVPA)
	requested, err := o.cluster.DeleteDefinition(ctx, definition, rollout.Unconditionally, true)
	if errors.Is(err, rollout.ErrInUse) {
		log.FromContext(ctx).Info("Kept definition", "name", crds.HVPA, "reason", err.Error())
		return nil
	}
	if err != nil || !requested {
		return err
	}
	return o.cluster.UntilGone(ctx, o.Timing.defaulted().Definitions, definition)
}
