package virtual

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// encryptionKeys returns the keys of an API server, in the order of apiserver.EncryptionKeys.
func (w work) encryptionKeys(
	ctx context.Context, keyName string, key *corev1.Secret, live *appsv1.Deployment,
) ([]secretconfig.UsableEncryptionKey, error) {
	oldKey, _ := w.secrets.Get(keyName, secrets.Old) // nil if there is none
	configured, err := w.configuredKeys(ctx, keyName, live)
	if err != nil {
		return nil, err
	}
	return apiserver.EncryptionKeys(w.values, key, oldKey, live, configured)
}

// configuredKeys returns the keys of the encryption configuration that the Deployment of an API server has. Without a Deployment, it
// returns the keys of all configurations that the garbage collector keeps.
func (n namespace) configuredKeys(
	ctx context.Context, keyName string, live *appsv1.Deployment,
) ([]secretconfig.UsableEncryptionKey, error) {
	var configurations []corev1.Secret
	if name := apiserver.EncryptionSecret(live); name != "" {
		secret, err := n.secret(ctx, name)
		if err != nil {
			return nil, err
		}
		if secret != nil {
			configurations = []corev1.Secret{*secret}
		}
	} else {
		list := &corev1.SecretList{}
		if err := n.Client.List(ctx, list, client.InNamespace(n.name), configurationsOf(keyName)); err != nil {
			return nil, fmt.Errorf("list encryption configurations: %w", err)
		}
		configurations = slices.DeleteFunc(list.Items, func(each corev1.Secret) bool { return !isKept(&each) })
	}
	var keys []secretconfig.UsableEncryptionKey
	for i := range configurations {
		of, err := secretconfig.ParseEncryptionKeys(configurations[i].Data[secretconfig.DataKeyEncryptionConfiguration])
		if err != nil {
			return nil, fmt.Errorf("read Secret %s/%s: %w", configurations[i].Namespace, configurations[i].Name, err)
		}
		keys = append(keys, of...)
	}
	return keys, nil
}

// plainResources returns the resources of an API server that the Pods of its live Deployment do not encrypt yet.
func (n namespace) plainResources(ctx context.Context, live *appsv1.Deployment, resources []string) ([]string, error) {
	name := apiserver.EncryptionSecret(live)
	if name == "" {
		return nil, nil
	}
	configuration, err := n.secret(ctx, name)
	if err != nil {
		return nil, err
	}
	return apiserver.PlainResources(resources, configuration)
}

// releaseConfigurations lets the garbage collector delete those encryption configurations of an API server that the Deployment of the API
// server does not use any more. It is called when all Pods use the current configuration.
func (n namespace) releaseConfigurations(ctx context.Context, of server) error {
	live, err := n.deployment(ctx, of.name)
	deployed := apiserver.EncryptionSecret(live)
	if err != nil || deployed == "" {
		return err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := n.Client.List(ctx, list, client.InNamespace(n.name), configurationsOf(of.keyName)); err != nil {
		return fmt.Errorf("list encryption configurations: %w", err)
	}
	for i := range list.Items {
		each := &list.Items[i]
		if each.Name == deployed || !isKept(each) {
			continue
		}
		secret := rollout.Identity(secretKind, each.Namespace, each.Name)
		if err := n.Annotate(ctx, secret, map[string]any{resourcesv1alpha1.KeepObject: nil}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func configurationsOf(keyName string) client.MatchingLabels {
	return client.MatchingLabels{apiserver.RoleLabel: apiserver.ConfigurationRole(keyName)}
}

func isKept(configuration client.Object) bool {
	return configuration.GetAnnotations()[resourcesv1alpha1.KeepObject] == "true"
}
