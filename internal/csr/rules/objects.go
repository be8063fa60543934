package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	netutils "k8s.io/utils/net"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Objects are the facts about a node from the clusters.
type Objects struct {
	// NodeExists is false if there is no Node of that name. Addresses are those in its status.
	NodeExists bool
	Addresses  []corev1.NodeAddress
	// ControlPlane reports whether the Node has the label of control plane nodes.
	ControlPlane bool
	// Machines is the number of Machines labelled with the node's name.
	Machines int
	// APIServer contains the names and addresses at which API servers listen; empty means that requests for them are not denied.
	APIServer Endpoints
}

// ControlPlaneLabel is set on Nodes on which API servers run. A kubelet cannot set it: the admission plugin NodeRestriction
// refuses it.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// Endpoints are names and addresses at which API servers listen. The names and addresses of Service default/kubernetes belong to no Node;
// an endpoint may belong to a Node: the Node on which an API server runs.
type Endpoints struct {
	Names []Pattern
	IPs   []netip.Prefix
}

// NodeName is the name of the node that a request is for. It is valid once JudgeRequest has approved.
func (request Request) NodeName() string { return strings.TrimPrefix(request.CommonName, UserPrefix) }

// JudgeObjects compares a request that JudgeRequest has approved with the facts about the node. The parameter age is the age of the
// request. The first check that fails determines the reason.
func (r Rules) JudgeObjects(request Request, objects Objects, age time.Duration) Verdict {
	if !objects.NodeExists {
		return r.missing(NodeMissing, age, fmt.Sprintf("could not find node object with name %q", request.NodeName()))
	}
	if !r.Own.WithoutMachines && objects.Machines != 1 {
		denial := fmt.Sprintf("Expected exactly one machine in namespace %q for node %q but found %d", r.Config.MachineNamespace,
			request.NodeName(), objects.Machines)
		if objects.Machines == 0 {
			return r.missing(MachineCount, age, denial)
		}
		return denied(MachineCount, denial)
	}
	if denial := endpointDenial(request, objects); denial != "" {
		return denied(DeniedIdentity, denial)
	}
	names, ips := requestable(objects.Addresses)
	if !agree(r.Own.SubsetOfAddresses, request.DNSNames, names) {
		return denied(DNSNames, "DNS names in CSR do not match addresses of type 'Hostname' or 'InternalDNS' or 'ExternalDNS' in node object")
	}
	return r.judgeIPs(request, ips)
}

// endpointDenial returns why a node must not get a certificate for a requested name or address of API servers. It returns "" if the node
// has the label of control plane nodes, or if the request contains no such name or address.
func endpointDenial(request Request, objects Objects) string {
	const denial = "%s %s belongs to the API server, and the node has no label " + ControlPlaneLabel
	if objects.ControlPlane {
		return ""
	}
	for _, name := range request.DNSNames {
		ip, isIP := addressOf(name)
		covers := slices.ContainsFunc(objects.APIServer.Names, func(p Pattern) bool { return p.overlaps(labels(name)) })
		if covers || isIP && within(objects.APIServer.IPs, ip) {
			return fmt.Sprintf(denial, "DNS name", quote(name))
		}
	}
	for _, ip := range request.IPs {
		if within(objects.APIServer.IPs, ip) {
			return fmt.Sprintf(denial, "IP address", quote(ip.String()))
		}
	}
	return ""
}

func (r Rules) judgeIPs(request Request, texts []string) Verdict {
	ips := make([]netip.Addr, 0, len(texts))
	for _, text := range texts {
		ip, err := parseAsKubelet(text)
		if err != nil {
			return denied(IPAddresses, fmt.Sprintf("IP address %s in node.Status.Addresses is invalid: %s", quote(text),
				excerpt.Of(err.Error(), maxQuoted)))
		}
		ips = append(ips, ip)
	}
	if !agree(r.Own.SubsetOfAddresses, request.IPs, ips) {
		return denied(IPAddresses, "IP addresses in CSR do not match addresses of type 'InternalIP' or 'ExternalIP' in node object")
	}
	return approved()
}

// missing returns the verdict about a request whose Node or Machine does not exist: a denial, or Wait if the object may still appear.
func (r Rules) missing(reason Reason, age time.Duration, denial string) Verdict {
	if age < r.Patience() {
		return Verdict{Outcome: Wait, Reason: reason, Message: denial}
	}
	return denied(reason, denial)
}

// requestable returns the addresses of a Node, divided into names and IP addresses as the kubelet does for its request. It leaves out
// empty addresses, and IP addresses with a zone. A Hostname that is an IP address counts as an IP address. An address of type InternalIP
// or ExternalIP that is not an IP address is returned as an IP address, so that it is denied.
func requestable(all []corev1.NodeAddress) (names, ips []string) {
	for _, each := range all {
		ip, err := parseAsKubelet(each.Address)
		isAddress := each.Type == corev1.NodeInternalIP || each.Type == corev1.NodeExternalIP
		switch {
		case each.Address == "", isAddress && ip.Zone() != "":
		case isAddress, each.Type == corev1.NodeHostName && err == nil && ip.Zone() == "":
			ips = append(ips, each.Address)
		case slices.Contains([]corev1.NodeAddressType{corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS}, each.Type):
			names = append(names, each.Address)
		}
	}
	return names, ips
}

// parseAsKubelet parses an IP address as the kubelet does: numbers may have leading zeros. Unlike the kubelet, it returns zones.
func parseAsKubelet(text string) (netip.Addr, error) {
	if ip, isIP := netip.AddrFromSlice(netutils.ParseIPSloppy(text)); isIP {
		return ip.Unmap(), nil
	}
	return netip.ParseAddr(text)
}

// agree reports whether the lists wanted and there contain the same elements. If subset is true, it reports whether the list there
// contains all elements of the list wanted. It uses sets, because the lists in a request can be long.
func agree[T comparable](subset bool, wanted, there []T) bool {
	return sets.New(there...).HasAll(wanted...) && (subset || sets.New(wanted...).HasAll(there...))
}
