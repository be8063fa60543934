package local

import (
	"net"

	corev1 "k8s.io/api/core/v1"
)

// ServingIdentities returns the names and addresses for which a Node's kubelet requests a serving certificate.
func ServingIdentities(node *corev1.Node) (names []string, addresses []net.IP) {
	for _, address := range node.Status.Addresses {
		switch address.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			names = append(names, address.Address)
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			addresses = append(addresses, net.ParseIP(address.Address))
		}
	}
	return names, addresses
}
