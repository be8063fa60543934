package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/api/managedresources"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// hvpaManagedResource is the name of the ManagedResource of former releases of Gardener with the controller of Hvpas.
const hvpaManagedResource = "hvpa"

// When the Garden is deleted, an annotation of the garden namespace is removed.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=garden,verbs=patch
// Immutable ConfigMaps are destroyed with the objects that referred to them.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=list,namespace=garden,roleName=espalier-garden-operator-garden

var errManagedResources = errors.New("requeue in 5s due to at least one ManagedResource still exists")

// ForgetNetworks removes the annotation with the networks of the Garden from the namespace. The namespace stays after the deletion of the
// Garden, and another Garden may have other networks.
func (p *Platform) ForgetNetworks(ctx context.Context) error {
	live, err := rollout.Find(ctx, p.Cluster.Client, "", p.Values.Namespace, &corev1.Namespace{})
	if err != nil || live == nil || live.Annotations[operatorv1alpha1.AnnotationRuntimeNetworks] == "" {
		return err
	}
	namespace := rollout.Identity(corev1.SchemeGroupVersion.WithKind("Namespace"), "", p.Values.Namespace)
	return p.Cluster.Annotate(ctx, namespace, map[string]any{operatorv1alpha1.AnnotationRuntimeNetworks: nil})
}

// destroySecrets deletes the Secrets of the manager of secrets, and immutable Secrets and ConfigMaps that no garbage collector deletes any
// more. Before the first deletion, it makes copies of all keys that the etcd volumes and backups need. These copies stay.
func (p *Platform) destroySecrets(ctx context.Context) error {
	origin := string(p.Garden.UID)
	written, err := p.Secrets.Keep(ctx, components.RotatedSecrets().Kept(), origin)
	if err != nil {
		return err
	}
	last, err := p.keepLastCopies(ctx, origin)
	if err != nil {
		return err
	}
	if written += last; written > 0 {
		p.Recorder.Eventf(p.Garden, nil, "Normal", reasonCredentialsKept, "Keep", "Kept %d keys and certificate authorities, which etcd volumes "+
			"and backups need (see kubectl -n %s get secrets -l %s=%s)", written, p.Values.Namespace, secrets.LabelKeptFrom, origin)
	}
	if err := p.Secrets.Cleanup(ctx, nil); err != nil {
		return fmt.Errorf("clean up Secrets: %w", err)
	}
	return p.Cluster.DeleteGarbage(ctx, p.Values.Namespace)
}

// keepLastCopies copies encryption configurations that contain the last copy of a key, because the Secret of the key was lost: data in
// etcd may need this key. It also copies configurations that cannot be read. It leaves out configurations that no data needs any more. It
// returns the number of copies that it wrote.
func (p *Platform) keepLastCopies(ctx context.Context, origin string) (int, error) {
	all := &corev1.SecretList{}
	if err := p.Cluster.Client.List(ctx, all, client.InNamespace(p.Values.Namespace)); err != nil {
		return 0, fmt.Errorf("list encryption configurations: %w", err)
	}
	keyNames := map[string]string{} // by role
	for _, name := range components.RotatedSecrets().Kept() {
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
	return p.Secrets.KeepCopies(ctx, copies)
}

// untilNoManagedResources waits until the runtime cluster has no ManagedResource of class seed left, including ManagedResources of other
// clients. The resource manager is the program for this class. After its deletion, none of these ManagedResources could be deleted any
// more.
func (p *Platform) untilNoManagedResources(ctx context.Context) error {
	watched := rollout.Watched{Kind: rollout.ManagedResource}
	return p.Cluster.Until(ctx, p.Installer.Limits.ManagedResources, func(ctx context.Context) error {
		sets := &resourcesv1alpha1.ManagedResourceList{}
		err := p.Cluster.Client.List(ctx, sets)
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

// removeHVPA deletes the ManagedResource of the controller of Hvpas, and the definition of Hvpas if no Hvpa is left, because no program
// uses them any more. It deletes both even if another client created them. It does not wait for the deletion of the ManagedResource,
// because the resource manager may not be there yet.
func (p *Platform) removeHVPA(ctx context.Context) error {
	set := rollout.Identity(rollout.ManagedResource, p.Values.Namespace, hvpaManagedResource)
	if _, err := p.Cluster.Delete(ctx, set, rollout.Unconditionally); err != nil {
		return err
	}
	definition := rollout.Identity(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", crds.HVPA)
	requested, err := p.Cluster.DeleteDefinition(ctx, definition, rollout.Unconditionally, true)
	if errors.Is(err, rollout.ErrInUse) {
		log.FromContext(ctx).Info("Kept definition", "name", crds.HVPA, "reason", err.Error())
		return nil
	}
	if err != nil || !requested {
		return err
	}
	return p.Cluster.UntilGone(ctx, p.Installer.Limits.Definitions, definition)
}
