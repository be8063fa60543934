package connectivity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// The lowest and the highest port number.
const (
	firstPort = 1
	lastPort  = 65535
)

// span is a range of ports of one protocol.
type span struct {
	protocol corev1.Protocol
	from, to int32
	// name is set for a named port outside the cluster, whose number is unknown; from and to are 0 then.
	name string
}

// ports is a set of ports: sorted spans that neither overlap nor are adjacent. Nil is the empty set.
type ports []span

func allPorts() ports {
	whole := func(protocol corev1.Protocol) span { return span{protocol: protocol, from: firstPort, to: lastPort} }
	return ports{whole(corev1.ProtocolSCTP), whole(corev1.ProtocolTCP), whole(corev1.ProtocolUDP)}
}

// union returns the ports that are in at least one of the sets.
func union(sets ...ports) ports {
	spans := slices.Concat(sets...)
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.name, b.name), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	var merged ports
	for _, next := range spans {
		last := len(merged) - 1
		if last >= 0 && merged[last].protocol == next.protocol && merged[last].name == next.name && next.from <= merged[last].to+1 {
			merged[last].to = max(merged[last].to, next.to)
			continue
		}
		merged = append(merged, next)
	}
	return merged
}

// intersection returns the ports that are in both sets.
func intersection(a, b ports) ports {
	var both ports
	for _, x := range a {
		for _, y := range b {
			from, to := max(x.from, y.from), min(x.to, y.to)
			if x.protocol == y.protocol && x.name == y.name && from <= to {
				both = append(both, span{protocol: x.protocol, from: from, to: to, name: x.name})
			}
		}
	}
	return union(both)
}

// String returns text such as "all" or "TCP/80, UDP/53-54, SCTP".
func (p ports) String() string {
	if slices.Equal(p, allPorts()) {
		return "all"
	}
	texts := make([]string, 0, len(p))
	for _, each := range p {
		switch {
		case each.name != "":
			texts = append(texts, fmt.Sprintf("%s/%s", each.protocol, each.name))
		case each.from == firstPort && each.to == lastPort:
			texts = append(texts, string(each.protocol))
		case each.from == each.to:
			texts = append(texts, fmt.Sprintf("%s/%d", each.protocol, each.from))
		default:
			texts = append(texts, fmt.Sprintf("%s/%d-%d", each.protocol, each.from, each.to))
		}
	}
	return strings.Join(texts, ", ")
}

// resolve translates the ports of a rule to port numbers. Named ports are the ports of the receiving Pods, which are the argument pods. An
// empty list stands for all ports. If the receivers are outside the cluster, pods is nil, and named ports keep their names.
func resolve(list []networkingv1.NetworkPolicyPort, pods *group) ports {
	if len(list) == 0 {
		return allPorts()
	}
	var resolved ports
	for _, each := range list {
		protocol := ptr.Deref(each.Protocol, corev1.ProtocolTCP)
		switch {
		case each.Port == nil:
			resolved = append(resolved, span{protocol: protocol, from: firstPort, to: lastPort})
		case each.Port.Type == intstr.String && pods == nil:
			resolved = append(resolved, span{protocol: protocol, name: each.Port.StrVal})
		case each.Port.Type == intstr.String:
			for _, number := range pods.named[namedPort{protocol, each.Port.StrVal}] {
				resolved = append(resolved, span{protocol: protocol, from: number, to: number})
			}
		case each.EndPort != nil:
			resolved = append(resolved, span{protocol: protocol, from: each.Port.IntVal, to: *each.EndPort})
		default:
			resolved = append(resolved, span{protocol: protocol, from: each.Port.IntVal, to: each.Port.IntVal})
		}
	}
	return union(resolved)
}
