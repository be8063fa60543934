package validation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Resources that cannot be listed for encryption.
var (
	alwaysEncryptedByKubernetes = []string{"secrets"}
	alwaysEncryptedByGardener   = []string{
		"controllerdeployments.core.gardener.cloud", "controllerregistrations.core.gardener.cloud", "internalsecrets.core.gardener.cloud",
		"shootstates.core.gardener.cloud",
	}
	neverEncrypted       = []string{"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"}
	neverEncryptedGroups = []string{"events.k8s.io", "extensions"}
)

var encryptionProviders = []operatorv1alpha1.EncryptionProviderType{
	operatorv1alpha1.EncryptionProviderAESCBC, operatorv1alpha1.EncryptionProviderAESGCM, operatorv1alpha1.EncryptionProviderSecretbox,
}

// kubernetesEncryption judges the encrypted resources of kube-apiserver.
func kubernetesEncryption(path *field.Path, config *operatorv1alpha1.EncryptionConfig) field.ErrorList {
	return encryption(path, config, alwaysEncryptedByKubernetes, func(resource string) string {
		name, group, hasGroup := strings.Cut(resource, ".")
		switch {
		case hasGroup && strings.HasSuffix(group, ".") || hasGroup && group == "":
			return "must not end with a dot"
		case slices.Contains(neverEncrypted, name):
			return "resource cannot be encrypted"
		case slices.Contains(neverEncryptedGroups, group):
			return fmt.Sprintf("resources of the group %q cannot be encrypted", group)
		}
		return ""
	})
}

// gardenerEncryption judges the encrypted resources of gardener-apiserver, with the provider of kube-apiserver.
func gardenerEncryption(path *field.Path, cluster operatorv1alpha1.VirtualCluster) field.ErrorList {
	config := cluster.Gardener.APIServer.EncryptionConfig
	found := encryption(path, config, alwaysEncryptedByGardener, func(resource string) string {
		if _, group, _ := strings.Cut(resource, "."); !slices.Contains(versions.GardenerGroups(), group) {
			return "must be a resource of one of the groups " + strings.Join(versions.GardenerGroups(), ", ")
		}
		return ""
	})
	kubernetes := providerOf(kubernetesEncryptionOf(cluster))
	if provider := explicitProvider(config); provider != "" && provider != kubernetes {
		found = append(found, field.Invalid(path.Child("provider", "type"), provider,
			fmt.Sprintf("must be the provider of kube-apiserver, %q", kubernetes)))
	}
	return found
}

func encryption(
	path *field.Path, config *operatorv1alpha1.EncryptionConfig, always []string, refuse func(resource string) string,
) field.ErrorList {
	if config == nil {
		return nil
	}
	var found field.ErrorList
	for i, resource := range config.Resources {
		at := path.Child("resources").Index(i)
		reason := refuse(resource)
		switch {
		case resource == "":
			reason = mustNotBeNone
		case resource != strings.ToLower(resource):
			reason = "must be lower case"
		case strings.Contains(resource, "*"):
			reason = "must not contain a wildcard"
		case slices.Contains(always, resource):
			reason = "resource is always encrypted"
		}
		if reason != "" {
			found = append(found, field.Invalid(at, resource, reason))
		}
	}
	found = append(found, duplicates(path.Child("resources"), config.Resources)...)
	if provider := explicitProvider(config); provider != "" {
		found = append(found, oneOf(path.Child("provider", "type"), provider, encryptionProviders...)...)
	}
	return found
}

func explicitProvider(config *operatorv1alpha1.EncryptionConfig) operatorv1alpha1.EncryptionProviderType {
	provider := ptr.Deref(config, operatorv1alpha1.EncryptionConfig{}).Provider
	return ptr.Deref(ptr.Deref(provider, operatorv1alpha1.EncryptionProvider{}).Type, "")
}

// providerOf returns the provider, which is aescbc if none is set.
func providerOf(config *operatorv1alpha1.EncryptionConfig) operatorv1alpha1.EncryptionProviderType {
	return cmp.Or(explicitProvider(config), operatorv1alpha1.EncryptionProviderAESCBC)
}

func kubernetesEncryptionOf(cluster operatorv1alpha1.VirtualCluster) *operatorv1alpha1.EncryptionConfig {
	return ptr.Deref(cluster.Kubernetes.KubeAPIServer, operatorv1alpha1.KubeAPIServer{}).EncryptionConfig
}

// encryptedResources are the resources of both API servers in the spec.
func encryptedResources(g *operatorv1alpha1.Garden) sets.Set[string] {
	cluster := g.Spec.VirtualCluster
	kubernetes := ptr.Deref(kubernetesEncryptionOf(cluster), operatorv1alpha1.EncryptionConfig{})
	server := ptr.Deref(cluster.Gardener.APIServer, operatorv1alpha1.GardenerAPIServer{})
	gardener := ptr.Deref(server.EncryptionConfig, operatorv1alpha1.EncryptionConfig{})
	return sets.New(slices.Concat(kubernetes.Resources, gardener.Resources)...)
}

// encryptionChanges forbids changes of the encryption while an earlier change, or a rotation of the key, is not complete: the data in etcd
// must never be in more than two different states. For the same reason, resources and provider must not change together. The provider must
// not change before the first reconciliation. As long as the operator has not begun to work on the Garden, the resources can change
// freely.
func encryptionChanges(path *field.Path, updated, old *operatorv1alpha1.Garden) field.ErrorList {
	path = path.Child("kubernetes", "kubeAPIServer", "encryptionConfig")
	was, now := encryptedResources(old), encryptedResources(updated)
	resourcesChange := !was.Equal(now)
	from, to := providerOf(kubernetesEncryptionOf(old.Spec.VirtualCluster)), providerOf(kubernetesEncryptionOf(updated.Spec.VirtualCluster))
	providerChanges := from != to
	if !resourcesChange && !providerChanges {
		return nil
	}

	var found field.ErrorList
	forbid := func(reason string) {
		if resourcesChange {
			found = append(found, field.Forbidden(path.Child("resources"), "resources cannot be changed "+reason))
		}
		if providerChanges {
			found = append(found, field.Forbidden(path.Child("provider", "type"), "provider cannot be changed "+reason))
		}
	}
	current := old.Status.EncryptionAtRest()
	if phase := rotation.PhasesOf(old)[rotation.ETCDEncryptionKey]; phase != "" && phase != operatorv1alpha1.RotationCompleted {
		forbid("while the ETCD encryption key rotation is not completed")
	}
	rolledOut := was.Equal(sets.New(current.Resources...)) && (!encryptionKnown(old) || from == current.Provider.Type)
	if old.Status.ObservedGeneration != 0 && !rolledOut {
		forbid("because a previous encryption configuration change is currently being rolled out")
	}
	if resourcesChange && providerChanges {
		found = append(found, field.Forbidden(path, "resources and provider cannot be changed at the same time"))
	}
	if providerChanges && !encryptionKnown(old) {
		found = append(found, field.Forbidden(path.Child("provider", "type"),
			"provider cannot be changed before the Garden has been reconciled for the first time"))
	}
	return found
}

// encryptionKnown reports whether a reconciliation has ended, so that the status lists the encrypted resources.
func encryptionKnown(g *operatorv1alpha1.Garden) bool {
	last := g.Status.LastOperation
	return g.Status.Credentials != nil && g.Status.Credentials.EncryptionAtRest != nil || len(g.Status.EncryptionAtRest().Resources) > 0 ||
		last != nil && last.State == operatorv1alpha1.LastOperationSucceeded
}
