package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Objects are what the clusters know of a node.
type Objects struct {
	// NodeExists is false if there is no Node of that name. Addresses are those in its status.
	NodeExists bool
	Addresses  []corev1.NodeAddress
	// Machines is how many Machines are labelled with the node's name.
	Machines int
}

// NodeName is the name of the node that a request is for, once JudgeRequest has found nothing against it.
func (request Request) NodeName() string { return strings.TrimPrefix(request.CommonName, UserPrefix) }

// JudgeObjects compares a request that JudgeRequest has found nothing against with what the clusters know of the node.
// Age is the request's. The first check that fails names the reason.
func (r Rules) JudgeObjects(request Request, objects Objects, age time.Duration) Verdict {
	if !objects.NodeExists {
		return r.missing(NodeMissing, age, fmt.Sprintf("could not find node object with name %q", request.NodeName()))
	}
	if !r.WithoutMachines && objects.Machines != 1 {
		denial := fmt.Sprintf("Expected exactly one machine in namespace %q for node %q but found %d", r.MachineNamespace, request.NodeName(), objects.Machines)
		if objects.Machines == 0 {
			return r.missing(MachineCount, age, denial)
		}
		return Verdict{Outcome: Deny, Reason: MachineCount, Message: denial}
	}
	if !agree(r.Subset, request.DNSNames, addresses(objects, corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS)) {
		return Verdict{
			Outcome: Deny, Reason: DNSNames,
			Message: "DNS names in CSR do not match addresses of type 'Hostname' or 'InternalDNS' or 'ExternalDNS' in node object",
		}
	}
	return r.judgeIPs(request, addresses(objects, corev1.NodeInternalIP, corev1.NodeExternalIP))
}

func (r Rules) judgeIPs(request Request, texts []string) Verdict {
	ips := make([]netip.Addr, 0, len(texts))
	for _, text := range texts {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return Verdict{Outcome: Deny, Reason: IPAddresses, Message: fmt.Sprintf("IP address %s in node.Status.Addresses is invalid: %s", quote(text), cut(err.Error()))}
		}
		ips = append(ips, ip.Unmap())
	}
	if !agree(r.Subset, request.IPs, ips) {
		return Verdict{
			Outcome: Deny, Reason: IPAddresses,
			Message: "IP addresses in CSR do not match addresses of type 'InternalIP' or 'ExternalIP' in node object",
		}
	}
	return approved()
}

// missing denies for an object that does not exist, unless it may still come.
func (r Rules) missing(reason Reason, age time.Duration, denial string) Verdict {
	if age < r.WaitForObjects {
		return Verdict{Outcome: Wait, Reason: reason, Message: denial}
	}
	return Verdict{Outcome: Deny, Reason: reason, Message: denial}
}

func addresses(objects Objects, types ...corev1.NodeAddressType) []string {
	var found []string
	for _, each := range objects.Addresses {
		if slices.Contains(types, each.Type) {
			found = append(found, each.Address)
		}
	}
	return found
}

// agree compares two sets. With subset, what is wanted may be fewer than what there is.
func agree[T comparable](subset bool, wanted, there []T) bool {
	return covers(there, wanted) && (subset || covers(wanted, there))
}

// covers tells whether all contains every one of some. Lists of requests can be long.
func covers[T comparable](all, some []T) bool {
	known := make(map[T]struct{}, len(all))
	for _, each := range all {
		known[each] = struct{}{}
	}
	for _, each := range some {
		if _, ok := known[each]; !ok {
			return false
		}
	}
	return true
}
