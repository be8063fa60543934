package reference

import (
	"slices"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Names are the names of objects that Gardens refer to, all in the namespace of the Garden. Lists are sorted, without duplicates and
// empty names.
type Names struct {
	Secrets    []string
	ConfigMaps []string
}

// Of collects the names that a Garden refers to.
func Of(g *operatorv1alpha1.Garden) Names {
	cluster := g.Spec.VirtualCluster
	var names Names
	if etcd := cluster.ETCD; etcd != nil && etcd.Main != nil && etcd.Main.Backup != nil {
		names.Secrets = append(names.Secrets, etcd.Main.Backup.SecretRef.Name)
	}
	if server := cluster.Kubernetes.KubeAPIServer; server != nil {
		names = names.plus(ofKubeAPIServer(server))
	}
	if server := cluster.Gardener.APIServer; server != nil {
		names = names.plus(ofBoth(server.AdmissionPlugins, server.AuditConfig, server.AuditWebhook))
	}
	return names.normal()
}

// ofBoth collects the names in settings that both API servers have.
func ofBoth(
	plugins []operatorv1alpha1.AdmissionPlugin, audit *operatorv1alpha1.AuditConfig, webhook *operatorv1alpha1.AuditWebhook,
) Names {
	var names Names
	for _, plugin := range plugins {
		if plugin.KubeconfigSecretName != nil {
			names.Secrets = append(names.Secrets, *plugin.KubeconfigSecretName)
		}
	}
	if webhook != nil {
		names.Secrets = append(names.Secrets, webhook.KubeconfigSecretName)
	}
	if audit != nil && audit.AuditPolicy != nil && audit.AuditPolicy.ConfigMapRef != nil {
		names.ConfigMaps = append(names.ConfigMaps, audit.AuditPolicy.ConfigMapRef.Name)
	}
	return names
}

func ofKubeAPIServer(server *operatorv1alpha1.KubeAPIServer) Names {
	names := ofBoth(server.AdmissionPlugins, server.AuditConfig, server.AuditWebhook)
	if server.Authentication != nil && server.Authentication.Webhook != nil {
		names.Secrets = append(names.Secrets, server.Authentication.Webhook.KubeconfigSecretName)
	}
	if server.SNI != nil && server.SNI.SecretName != nil {
		names.Secrets = append(names.Secrets, *server.SNI.SecretName)
	}
	if config := server.StructuredAuthentication; config != nil {
		names.ConfigMaps = append(names.ConfigMaps, config.ConfigMapName)
	}
	if config := server.StructuredAuthorization; config != nil {
		names.ConfigMaps = append(names.ConfigMaps, config.ConfigMapName)
		for _, each := range config.Kubeconfigs {
			names.Secrets = append(names.Secrets, each.SecretName)
		}
	}
	return names
}

func (n Names) plus(other Names) Names {
	return Names{Secrets: append(n.Secrets, other.Secrets...), ConfigMaps: append(n.ConfigMaps, other.ConfigMaps...)}
}

func (n Names) normal() Names {
	return Names{Secrets: normal(n.Secrets), ConfigMaps: normal(n.ConfigMaps)}
}

func normal(list []string) []string {
	list = slices.DeleteFunc(list, func(name string) bool { return name == "" })
	slices.Sort(list)
	return slices.Compact(list)
}

// equal reports whether both have the same names, in normal form.
func (n Names) equal(other Names) bool {
	return slices.Equal(n.Secrets, other.Secrets) && slices.Equal(n.ConfigMaps, other.ConfigMaps)
}

// include reports whether an object of a kind, Secret or ConfigMap, is among the names.
func (n Names) include(kind, name string) bool {
	if kind == configMap {
		return slices.Contains(n.ConfigMaps, name)
	}
	return slices.Contains(n.Secrets, name)
}

// Kinds of objects that Gardens refer to.
const (
	secret    = "Secret"
	configMap = "ConfigMap"
)

// kinds are the kinds in the order in which they are handled.
func kinds() []string { return []string{secret, configMap} }
