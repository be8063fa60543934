package validation

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// network is a list of networks in a cluster, with its name in messages.
type network struct {
	name     string // node, pod, service
	prefixes []netip.Prefix
}

// parseRuntime reads a list of networks of the runtime cluster.
func parseRuntime(path *field.Path, name string, list operatorv1alpha1.CIDRList) (network, field.ErrorList) {
	var found field.ErrorList
	parsed := network{name: name}
	for i, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			found = append(found, field.Invalid(path.Index(i), text, fmt.Sprintf("cannot parse %s network cidr of runtime cluster: %v", name, err)))
			continue
		}
		parsed.prefixes = append(parsed.prefixes, prefix)
	}
	return parsed, found
}

// intersects reports whether two lists have addresses in common.
func (n network) intersects(other network) bool {
	return slices.ContainsFunc(n.prefixes, func(a netip.Prefix) bool { return slices.ContainsFunc(other.prefixes, a.Overlaps) })
}

// runtimeNetworks returns the networks of the runtime cluster, in the order pods, services, nodes. It leaves out networks that cannot be
// parsed.
func runtimeNetworks(networking operatorv1alpha1.RuntimeNetworking) []network {
	all := make([]network, 0, 3)
	for _, each := range []struct {
		name string
		list operatorv1alpha1.CIDRList
	}{{"pod", networking.Pods}, {"service", networking.Services}, {"node", networking.Nodes}} {
		parsed, _ := parseRuntime(nil, each.name, each.list)
		all = append(all, parsed)
	}
	return all
}

func runtimeNetworking(path *field.Path, networking operatorv1alpha1.RuntimeNetworking) field.ErrorList {
	var found field.ErrorList
	for i, family := range networking.IPFamilies {
		at := path.Child("ipFamilies").Index(i)
		found = append(found, oneOf(at, family, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if slices.Contains(networking.IPFamilies[:i], family) {
			found = append(found, field.Duplicate(at, family))
		}
	}
	for _, each := range []struct {
		name     string
		list     operatorv1alpha1.CIDRList
		required bool
	}{{"node", networking.Nodes, false}, {"pod", networking.Pods, true}, {"service", networking.Services, true}} {
		at := path.Child(each.name + "s")
		if each.required && len(each.list) == 0 {
			found = append(found, field.Required(at, "must provide at least one network"))
		}
		_, invalid := parseRuntime(at, each.name, each.list)
		found = append(found, invalid...)
	}
	for i, text := range networking.BlockCIDRs {
		if _, err := netip.ParsePrefix(text); err != nil {
			found = append(found, field.Invalid(path.Child("blockCIDRs").Index(i), text, fmt.Sprintf("cannot parse network cidr: %v", err)))
		}
	}

	all := runtimeNetworks(networking)
	pods, services, nodes := all[0], all[1], all[2]
	intersection := func(at string, value operatorv1alpha1.CIDRList, a, b network) {
		if a.intersects(b) {
			found = append(found, field.Invalid(path.Child(at), value,
				fmt.Sprintf("%s network of runtime cluster intersects with %s network of runtime cluster", a.name, b.name)))
		}
	}
	intersection("services", networking.Services, pods, services)
	intersection("nodes", networking.Nodes, nodes, pods)
	intersection("nodes", networking.Nodes, nodes, services)
	return found
}

// virtualNetworking judges the networks for Services of the virtual cluster. There must be at least one network, and at most one of each
// IP family. The networks must not intersect with networks of the runtime cluster.
func virtualNetworking(path *field.Path, list operatorv1alpha1.CIDRList, runtime operatorv1alpha1.RuntimeNetworking) field.ErrorList {
	const most = 2
	var found field.ErrorList
	if len(list) == 0 {
		found = append(found, field.Required(path, "must provide at least one network"))
	}
	if len(list) > most {
		found = append(found, field.TooMany(path, len(list), most))
	}
	var before []netip.Prefix
	for i, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			found = append(found, field.Invalid(path.Index(i), text, fmt.Sprintf("cannot parse service network cidr: %v", err)))
			continue
		}
		if slices.ContainsFunc(before, func(other netip.Prefix) bool { return other.Addr().Is4() == prefix.Addr().Is4() }) {
			found = append(found, field.Invalid(path.Index(i), text, "networks must be of different IP families"))
		}
		before = append(before, prefix)
		for _, other := range runtimeNetworks(runtime) {
			if other.intersects(network{prefixes: []netip.Prefix{prefix}}) {
				found = append(found, field.Invalid(path.Index(i), text,
					other.name+" network of runtime cluster intersects with service network of virtual cluster"))
			}
		}
	}
	return found
}

// networkChanges forbids to change or remove networks. Further networks can be appended.
func networkChanges(path *field.Path, name string, updated, old operatorv1alpha1.CIDRList) field.ErrorList {
	var found field.ErrorList
	for i := range min(len(updated), len(old)) {
		if updated[i] != old[i] {
			found = append(found, field.Invalid(path.Index(i), updated[i], immutable))
		}
	}
	if len(updated) < len(old) {
		found = append(found, field.Forbidden(path, name+" cannot be removed"))
	}
	return found
}
