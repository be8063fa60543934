package reference

import (
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Kinds of objects that Gardens refer to.
const (
	secret    = "Secret"
	configMap = "ConfigMap"
)

// Name is the name of a Secret or a ConfigMap that a Garden refers to, in the namespace of the Garden.
type Name struct{ Kind, Name string }

// Of collects the names that a Garden refers to, without empty ones.
func Of(g *operatorv1alpha1.Garden) sets.Set[Name] {
	cluster, names := g.Spec.VirtualCluster, sets.New[Name]()
	if etcd := cluster.ETCD; etcd != nil && etcd.Main != nil && etcd.Main.Backup != nil {
		names.Insert(Name{secret, etcd.Main.Backup.SecretRef.Name})
	}
	if server := cluster.Kubernetes.KubeAPIServer; server != nil {
		insertKubeAPIServer(names, server)
	}
	if server := cluster.Gardener.APIServer; server != nil {
		insertCommonSettings(names, server.AdmissionPlugins, server.AuditConfig, server.AuditWebhook)
	}
	return names.Delete(Name{Kind: secret}, Name{Kind: configMap})
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
	if audit != nil && audit.AuditPolicy != nil && audit.AuditPolicy.ConfigMapRef != nil {
		names.Insert(Name{configMap, audit.AuditPolicy.ConfigMapRef.Name})
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
