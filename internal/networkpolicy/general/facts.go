package general

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// observe reads the facts from the cache. Unknown is the reason why the policies of all namespaces stay as they are, or "".
func (r *Reconciler) observe(ctx context.Context) (facts Facts, unknown string, err error) {
	facts.Cluster, facts.Blocked = r.Cluster, r.Blocked
	if r.Own.General.NetworksOfGarden {
		gardens := &operatorv1alpha1.GardenList{}
		if err = r.Cached.List(ctx, gardens); err != nil {
			return Facts{}, "", fmt.Errorf("list Gardens: %w", err)
		}
		if n := len(gardens.Items); n != 1 {
			return Facts{}, fmt.Sprintf("there are %d Gardens", n), nil
		}
		networking := gardens.Items[0].Spec.RuntimeCluster.Networking
		if facts.Cluster, err = Networks(slices.Concat(networking.Nodes, networking.Pods, networking.Services)); err != nil {
			return Facts{}, "", fmt.Errorf("read networks of Garden %s: %w", gardens.Items[0].Name, err)
		}
		if facts.Blocked, err = Networks(networking.BlockCIDRs); err != nil {
			return Facts{}, "", fmt.Errorf("read blocked networks of Garden %s: %w", gardens.Items[0].Name, err)
		}
	}
	endpoints, services := &discoveryv1.EndpointSliceList{}, &corev1.ServiceList{}
	if err = r.Cached.List(ctx, endpoints, apiServerSlices...); err != nil {
		return Facts{}, "", fmt.Errorf("list endpoints of the API server: %w", err)
	}
	if err = r.Cached.List(ctx, services, client.InNamespace(corev1.NamespaceDefault)); err != nil {
		return Facts{}, "", fmt.Errorf("list Services of the API server: %w", err)
	}
	if facts.APIServer = endpointsOf(endpoints.Items); len(facts.APIServer) == 0 {
		return Facts{}, "the API server has no endpoints", nil
	}
	facts.APIServer = append(facts.APIServer, addressesOf(services.Items)...)
	if r.ServerName != nil {
		named := r.ServerName.endpoints()
		if len(named) == 0 {
			return Facts{}, "the addresses of host " + r.ServerName.Host + " of the API server are not known", nil
		}
		facts.APIServer = append(facts.APIServer, named...)
	}
	return facts, "", nil
}

// apiServerService is the name of the Service of the API server, in namespace default.
const apiServerService = "kubernetes"

var apiServerSlices = []client.ListOption{
	client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{discoveryv1.LabelServiceName: apiServerService},
}

// endpointsOf returns the endpoints in slices, ready or not: an endpoint may get ready before the policies have changed.
func endpointsOf(all []discoveryv1.EndpointSlice) []Endpoint {
	var found []Endpoint
	for i := range all {
		var ports []int32
		for _, port := range all[i].Ports {
			if port.Port != nil {
				ports = append(ports, *port.Port)
			}
		}
		slices.Sort(ports)
		for _, endpoint := range all[i].Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil && len(ports) > 0 { // slices can also have host names
					found = append(found, Endpoint{Address: address.Unmap(), Ports: ports})
				}
			}
		}
	}
	return found
}

// addressesOf returns the addresses of the Service of the API server. Policies must also allow these addresses: some network plugins
// compare an address with the policies before they replace the address of the Service by the address of an endpoint.
func addressesOf(services []corev1.Service) []Endpoint {
	var found []Endpoint
	for i := range services {
		if services[i].Name != apiServerService {
			continue
		}
		var ports []int32
		for _, port := range services[i].Spec.Ports {
			ports = append(ports, port.Port)
		}
		slices.Sort(ports)
		for _, text := range services[i].Spec.ClusterIPs {
			if address, err := netip.ParseAddr(text); err == nil {
				found = append(found, Endpoint{Address: address.Unmap(), Ports: ports})
			}
		}
	}
	return found
}

// Networks reads networks in CIDR notation, and returns them sorted.
func Networks(texts []string) ([]netip.Prefix, error) {
	all := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("parse network %q: %w", text, err)
		}
		all = append(all, network.Masked())
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(all), nil
}
