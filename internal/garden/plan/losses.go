package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/extensionobjects"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
)

// lossesOf names everything that a change of a Garden makes unreadable or unreachable.
func lossesOf(before, after *operatorv1alpha1.Garden) []string {
	var losses []string
	for _, domain := range missing(domainNames(before.Spec.VirtualCluster.DNS.Domains), domainNames(after.Spec.VirtualCluster.DNS.Domains)) {
		losses = append(losses, fmt.Sprintf("api.%[1]s and gardener.%[1]s: clients with these addresses in their kubeconfigs lose the connection",
			domain))
	}
	for _, domain := range missing(
		domainNames(before.Spec.RuntimeCluster.Ingress.AllDomains()), domainNames(after.Spec.RuntimeCluster.Ingress.AllDomains()),
	) {
		losses = append(losses, "*."+domain+": the endpoints of the garden below this domain are not served any more")
	}
	was, is := serverOf(before), serverOf(after)
	if plain := missing(encryptedBy(before), encryptedBy(after)); len(plain) > 0 {
		losses = append(losses, "encryption: objects of "+strings.Join(plain, ", ")+" are written as plain text in etcd, and so in its backups")
	}
	if added := missing(encryptedBy(after), encryptedBy(before)); len(added) > 0 {
		losses = append(losses, "encryption: objects of "+strings.Join(added, ", ")+
			" are written again; from then on they cannot be read without the encryption key, also in backups")
	}
	for _, each := range slices.Concat(
		missing(was.ResourcesToStoreInETCDEvents, is.ResourcesToStoreInETCDEvents),
		missing(is.ResourcesToStoreInETCDEvents, was.ResourcesToStoreInETCDEvents),
	) {
		losses = append(losses, "objects of "+each.Resource+"."+each.Group+
			" in their former etcd cannot be read any more: resourcesToStoreInETCDEvents moves them")
	}
	apis := map[string]bool{}
	maps.Copy(apis, was.RuntimeConfig)
	maps.Copy(apis, is.RuntimeConfig)
	for api := range apis {
		if kubeapiserver.Serves(was.RuntimeConfig, api) && !kubeapiserver.Serves(is.RuntimeConfig, api) {
			losses = append(losses, "API "+api+" is not served any more")
		}
	}
	if was.OIDCConfig != nil && is.OIDCConfig == nil { //nolint:staticcheck // Gardens may still have the deprecated field
		losses = append(losses, "users who authenticate with OpenID Connect (oidcConfig) cannot authenticate any more")
	}
	if was.StructuredAuthentication != nil && is.StructuredAuthentication == nil {
		losses = append(losses, "users who authenticate by structuredAuthentication cannot authenticate any more")
	}
	slices.Sort(losses)
	return losses
}

// lostHosts names the hosts whose DNSRecords are deleted.
func lostHosts(all []history) []string {
	var losses []string
	for _, h := range all {
		if h.first() == nil || h.last() != nil || h.first().GroupVersionKind().GroupKind() != extensionobjects.DNSRecordKind.GroupKind() {
			continue
		}
		host, _, _ := unstructured.NestedString(h.first().Object, "spec", "name")
		losses = append(losses, fmt.Sprintf("%s does not resolve any more, because DNSRecord %s/%s is deleted: if clients still need this name, "+
			"create a record of your own", host, h.first().GetNamespace(), h.first().GetName()))
	}
	slices.Sort(losses)
	return losses
}

// missing returns the values that are not in another list.
func missing[T comparable](from, in []T) []T {
	return slices.DeleteFunc(slices.Clone(from), func(each T) bool { return slices.Contains(in, each) })
}

func domainNames(domains []operatorv1alpha1.Domain) []string {
	names := make([]string, 0, len(domains))
	for _, each := range domains {
		names = append(names, each.Name)
	}
	return names
}

func serverOf(garden *operatorv1alpha1.Garden) operatorv1alpha1.KubeAPIServer {
	return ptr.Deref(garden.Spec.VirtualCluster.Kubernetes.KubeAPIServer, operatorv1alpha1.KubeAPIServer{})
}

// encryptedBy returns the resources of both API servers that a Garden encrypts, beside the resources that every Garden encrypts.
func encryptedBy(garden *operatorv1alpha1.Garden) []string {
	server := ptr.Deref(garden.Spec.VirtualCluster.Gardener.APIServer, operatorv1alpha1.GardenerAPIServer{})
	return slices.Concat(
		ptr.Deref(serverOf(garden).EncryptionConfig, operatorv1alpha1.EncryptionConfig{}).Resources,
		ptr.Deref(server.EncryptionConfig, operatorv1alpha1.EncryptionConfig{}).Resources,
	)
}
