package reference

import (
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
)

// Kinds of objects that Gardens refer to.
const (
	secret    = "Secret"
	configMap = "ConfigMap"
)

// Name is the name of a Secret or a ConfigMap that a Garden or an Extension refers to, in the namespace of the Garden.
type Name struct{ Kind, Name string }

// Of collects the names that a Garden refers to, without empty ones.
func Of(g *operatorv1alpha1.Garden) sets.Set[Name] {
	cluster, names := g.Spec.VirtualCluster, sets.New[Name]()
	if etcd := cluster.ETCD; etcd != nil && etcd.Main != nil && etcd.Main.Backup != nil {
		names.Insert(Name{secret, etcd.Main.Backup.SecretRef.Name})
	}
	if g.Spec.DNS != nil {
		for _, provider := range g.Spec.DNS.Providers {
			names.Insert(Name{secret, provider.SecretRef.Name})
		}
	}
	for _, each := range g.Spec.Resources {
		if kind := each.ResourceRef.Kind; kind == secret || kind == configMap {
			names.Insert(Name{kind, each.ResourceRef.Name})
		}
	}
	if server := cluster.Kubernetes.KubeAPIServer; server != nil {
		insertKubeAPIServer(names, server)
	}
	if server := cluster.Gardener.APIServer; server != nil {
		insertCommonSettings(names, server.AdmissionPlugins, server.AuditConfig, server.AuditWebhook)
	}
	return names.Delete(Name{Kind: secret}, Name{Kind: configMap})
}

// OfExtension collects the names that an Extension refers to, without empty ones.
func OfExtension(e *operatorv1alpha1.Extension) sets.Set[Name] {
	names := sets.New[Name]()
	for _, each := range rules.References(e) {
		if each.Name != "" {
			names.Insert(Name{each.Kind, each.Name})
		}
	}
	return names
}

// insertCommonSettings inserts the names in settings that both API servers have.
func insertCommonSettings(
	names sets.Set[Name], plugins []operatorv1alpha1.AdmissionPlugin, audit *operatorv1alpha1.AuditConfig,
	webhook *operatorv1alpha1.AuditWebhook,
) {
	for _, plugin := range plugins {
		if plugin.KubeconfigSecretName != nil {
			names.Insert(Name{secret, *plugin.KubeconfigSecretName})
		}
	}
	if webhook != nil {
		names.Insert(Name{secret, webhook.KubeconfigSecretName})
	}
	if policy := audit.PolicyRef(); policy != nil {
		names.Insert(Name{configMap, policy.Name})
	}
}

func insertKubeAPIServer(names sets.Set[Name], server *operatorv1alpha1.KubeAPIServer) {
	insertCommonSettings(names, server.AdmissionPlugins, server.AuditConfig, server.AuditWebhook)
	if server.Authentication != nil && server.Authentication.Webhook != nil {
		names.Insert(Name{secret, server.Authentication.Webhook.KubeconfigSecretName})
	}
	if server.SNI != nil && server.SNI.SecretName != nil {
		names.Insert(Name{secret, *server.SNI.SecretName})
	}
	if config := server.StructuredAuthentication; config != nil {
		names.Insert(Name{configMap, config.ConfigMapName})
	}
	if config := server.StructuredAuthorization; config != nil {
		names.Insert(Name{configMap, config.ConfigMapName})
		for _, each := range config.Kubeconfigs {
			names.Insert(Name{secret, each.SecretName})
		}
	}
}
