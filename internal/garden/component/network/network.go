// Package network defines the labels and annotations by which NetworkPolicies allow connections of Pods.
package network

import (
	"fmt"
	"strings"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
)

// Labels of Pods that may connect to a target. netpol-controller makes the NetworkPolicies that select these labels, in the namespaces of
// the Garden and of Istio. In the namespaces of Istio, it makes no policies for public and private networks.
const (
	toDNS              = "networking.gardener.cloud/to-dns"
	toRuntimeAPIServer = "networking.gardener.cloud/to-runtime-apiserver"
	// ToPublicNetworks and ToPrivateNetworks allow connections to networks.
	ToPublicNetworks  = "networking.gardener.cloud/to-public-networks"
	ToPrivateNetworks = "networking.gardener.cloud/to-private-networks"
)

// Aliases in annotations of Services. An alias stands for a group of clients, which are Pods with a label that names the alias.
const (
	// GardenScrapeTargets is the alias of the Prometheus of the garden, in annotations of the Services that it scrapes.
	GardenScrapeTargets = "all-garden-scrape-targets"
	// SeedScrapeTargets is the alias of the Prometheus of the garden and of seeds, in annotations of the Services that they scrape.
	SeedScrapeTargets = "all-seed-scrape-targets"
	// WebhookTargets is the alias of API servers, in annotations of the Services whose webhooks they call.
	WebhookTargets = "all-webhook-targets"
)

// Clients returns the labels of Pods that connect to the DNS and the API server of the runtime cluster.
func Clients() map[string]string { return Allowed(toDNS, toRuntimeAPIServer) }

// DNSClients returns the label of Pods that connect to the DNS of the runtime cluster.
func DNSClients() map[string]string { return Allowed(toDNS) }

// Allowed returns labels with the value that allows a connection.
func Allowed(keys ...string) map[string]string {
	labels := map[string]string{}
	for _, each := range keys {
		labels[each] = resourcesv1alpha1.NetworkingClientAllowed
	}
	return labels
}

// ClientsOf returns the labels of Pods that connect to Services, each given as <service>-tcp-<port>, or <namespace>-<service>-tcp-<port> if
// the Service is in another namespace.
func ClientsOf(services ...string) map[string]string {
	labels := map[string]string{}
	for _, each := range services {
		labels[resourcesv1alpha1.NetworkingClientLabel(each)] = resourcesv1alpha1.NetworkingClientAllowed
	}
	return labels
}

// From returns the annotation of a Service. The annotation allows all Pods with the label of the alias to connect to the given ports of
// the Pods of the Service.
func From(alias string, ports ...int32) map[string]string {
	return map[string]string{
		resourcesv1alpha1.NetworkingFromPrefix + alias + resourcesv1alpha1.NetworkingAllowedPortsSuffix: portList(ports),
	}
}

// FromWorld returns the annotation of a Service that allows everything to connect to ports of its Pods.
func FromWorld(ports ...int32) map[string]string {
	return map[string]string{resourcesv1alpha1.NetworkingFromWorldToPorts: portList(ports)}
}

// FromNamespaces returns the annotation of a Service that allows Pods of other namespaces to be clients. Selectors is a JSON list of label
// selectors for these namespaces.
func FromNamespaces(selectors string) map[string]string {
	return map[string]string{resourcesv1alpha1.NetworkingNamespaceSelectors: selectors}
}

func portList(ports []int32) string {
	items := make([]string, 0, len(ports))
	for _, each := range ports {
		items = append(items, fmt.Sprintf(`{"protocol":"TCP","port":%d}`, each))
	}
	return "[" + strings.Join(items, ",") + "]"
}

// VirtualAPIServer is the name of the Service of kube-apiserver of the virtual cluster.
const VirtualAPIServer = "virtual-garden-kube-apiserver"

// VirtualClients returns the labels of Pods that connect to the DNS of the runtime cluster and to the API server of the virtual cluster.
func VirtualClients() map[string]string {
	return object.Union(DNSClients(), ClientsOf(VirtualAPIServer+"-tcp-443"))
}
