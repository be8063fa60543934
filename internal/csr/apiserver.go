package csr

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/csr/rules"
)

const apiServerRemedy = "espalier.csrApprover.deniedIdentities.apiServer needs it; " +
	"grant it, for example with the roles in deploy/csr-approver"

// apiServer reads the names and addresses of the target's API server.
type apiServer struct {
	target client.Reader
	// host is the name or address by which this process reaches the API server.
	host string
}

// hostOf returns the name or address of the API server that a client with this configuration connects to.
func hostOf(cfg *rest.Config) (string, error) {
	reached, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return "", fmt.Errorf("address of the API server of the target: %w", err)
	}
	if reached.Hostname() == "" {
		return "", fmt.Errorf("address of the API server of the target: %q has no host", cfg.Host)
	}
	return reached.Hostname(), nil
}

// apiServerService is the name of the API server's Service, and of the EndpointSlice that API servers maintain for it.
func apiServerService() client.ObjectKey {
	return client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}
}

// To read the addresses that espalier.csrApprover.deniedIdentities.apiServer denies.
// +kubebuilder:rbac:groups="",resources=services,resourceNames=kubernetes,verbs=get,namespace=default,roleName=espalier-csr-approver-target-apiserver

// clusterIPs reads the cluster IPs of the Service of the API server in the target. Pods connect to these IPs. They never change during the
// life of the cluster, so the process reads them once, live.
func (s apiServer) clusterIPs(ctx context.Context) ([]netip.Prefix, error) {
	found := &corev1.Service{}
	if err := s.target.Get(ctx, apiServerService(), found); err != nil {
		return nil, fmt.Errorf("read Service default/kubernetes of the target: %w; %s", err, apiServerRemedy)
	}
	var prefixes []netip.Prefix
	for _, text := range found.Spec.ClusterIPs {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("read Service default/kubernetes of the target: cluster IP: %w", err)
		}
		prefixes = append(prefixes, prefixOf(ip))
	}
	return prefixes, nil
}

// To read where API servers listen: the one EndpointSlice that they maintain themselves.
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,resourceNames=kubernetes,verbs=get,namespace=default,roleName=espalier-csr-approver-target-apiserver

// endpoints returns the host by which this process reaches the API server, and the addresses at which API servers listen now. If the
// EndpointSlice does not exist, because the API servers do not maintain it, endpoints returns only the host.
func (s apiServer) endpoints(ctx context.Context) (rules.Endpoints, error) {
	var found rules.Endpoints
	add := func(address string) {
		if ip, err := netip.ParseAddr(address); err == nil {
			found.IPs = append(found.IPs, prefixOf(ip))
		} else if address != "" {
			found.Names = append(found.Names, rules.Patterns([]string{address})...)
		}
	}
	add(s.host)
	slice := &discoveryv1.EndpointSlice{}
	if err := s.target.Get(ctx, apiServerService(), slice); client.IgnoreNotFound(err) != nil {
		return rules.Endpoints{}, fmt.Errorf("read EndpointSlice default/kubernetes of the target: %w", err)
	}
	for _, endpoint := range slice.Endpoints {
		for _, address := range endpoint.Addresses {
			add(address)
		}
	}
	return found, nil
}

// prefixOf returns the prefix that contains only this address.
func prefixOf(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap()
	return netip.PrefixFrom(ip, ip.BitLen())
}
