package connectivity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// anywhere stands for all Pods and all addresses outside the cluster.
const anywhere = "(anywhere)"

// Cluster has the objects from which the report is computed.
type Cluster struct {
	// Namespaces are the labels of all namespaces. The key is the name.
	Namespaces map[string]labels.Set
	Pods       []corev1.Pod
	Policies   []networkingv1.NetworkPolicy
}

// Report says which workloads may connect to which, as far as policies restrict it.
type Report struct {
	Edges []Edge
	// OpenIngress are the workloads that no policy selects for ingress: such a workload may receive from every peer that may send to it by
	// the peer's own policies. OpenEgress are the workloads that no policy selects for egress: such a workload may send to every peer that
	// may receive from it by the peer's own policies. If the sender is in OpenEgress and the receiver is in OpenIngress, there is no edge.
	OpenIngress, OpenEgress []string
	// OnHostNetwork is the number of Pods to which policies do not apply.
	OnHostNetwork int
	// namespaces has the namespace of each workload; peers outside the cluster have no entry.
	namespaces map[string]string
}

// Edge says that From may connect to To. Workloads are "namespace/name"; peers outside the cluster are in parentheses, or a CIDR.
type Edge struct {
	From, To string
	// Ports is the printed form of the ports.
	Ports string
}

// rule is a rule of either direction.
type rule struct {
	direction networkingv1.PolicyType
	peers     []networkingv1.NetworkPolicyPeer
	ports     []networkingv1.NetworkPolicyPort
}

func rulesOf(policy *networkingv1.NetworkPolicy) []rule {
	rules := make([]rule, 0, len(policy.Spec.Ingress)+len(policy.Spec.Egress))
	for _, each := range policy.Spec.Ingress {
		rules = append(rules, rule{networkingv1.PolicyTypeIngress, each.From, each.Ports})
	}
	for _, each := range policy.Spec.Egress {
		rules = append(rules, rule{networkingv1.PolicyTypeEgress, each.To, each.Ports})
	}
	return rules
}

// side is the result of all policies for one direction of one group.
type side struct {
	// restricted is false if no policy selects the group for this direction.
	restricted bool
	rules      []sideRule
}

// sideRule is a rule whose selectors are resolved to groups.
type sideRule struct {
	ports []networkingv1.NetworkPolicyPort
	// anyPeer is true if the rule names no peers.
	anyPeer bool
	groups  map[*group]bool
	blocks  []string
}

// evaluator has intermediate results that are computed once.
type evaluator struct {
	Cluster

	groups []*group
}

// Evaluate computes the report. If namespace is not empty, the report contains only edges from or to workloads in that namespace. Evaluate
// returns an error for invalid selectors, which the API server does not store.
func Evaluate(cluster Cluster, namespace string) (*Report, error) {
	e, report := &evaluator{Cluster: cluster}, &Report{namespaces: map[string]string{}}
	e.groups, report.OnHostNetwork = groups(cluster.Pods, cluster.Policies)
	for _, g := range e.groups {
		report.namespaces[g.name] = g.namespace
	}
	for i := range cluster.Policies {
		if err := e.take(&cluster.Policies[i]); err != nil {
			return nil, fmt.Errorf("evaluate NetworkPolicy %s/%s: %w", cluster.Policies[i].Namespace, cluster.Policies[i].Name, err)
		}
	}
	concerns := func(g *group) bool { return namespace == "" || g.namespace == namespace }
	for _, from := range e.groups {
		for _, to := range e.groups {
			if concerns(from) || concerns(to) {
				report.Edges = append(report.Edges, between(from, to)...)
			}
		}
		if concerns(from) {
			report.addAlone(from)
		}
	}
	slices.SortFunc(report.Edges, func(a, b Edge) int {
		return strings.Compare(a.From+"\x00"+a.To+"\x00"+a.Ports, b.From+"\x00"+b.To+"\x00"+b.Ports)
	})
	report.Edges = slices.Compact(report.Edges)
	return report, nil
}

// take adds a policy to the groups that it selects.
func (e *evaluator) take(policy *networkingv1.NetworkPolicy) error {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		return err
	}
	rules := map[networkingv1.PolicyType][]sideRule{}
	for _, each := range rulesOf(policy) {
		found, err := e.find(policy.Namespace, each)
		if err != nil {
			return err
		}
		rules[each.direction] = append(rules[each.direction], found)
	}
	for _, g := range e.groups {
		if g.namespace != policy.Namespace || !selector.Matches(g.labels) {
			continue
		}
		for _, direction := range policy.Spec.PolicyTypes {
			selected := g.sides[direction]
			selected.restricted = true
			selected.rules = append(selected.rules, rules[direction]...)
		}
	}
	return nil
}

// find resolves the peers of a rule of a policy in a namespace.
func (e *evaluator) find(namespace string, r rule) (sideRule, error) {
	found := sideRule{ports: r.ports, anyPeer: len(r.peers) == 0, groups: map[*group]bool{}}
	for _, peer := range r.peers {
		if peer.IPBlock != nil {
			found.blocks = append(found.blocks, describeBlock(peer.IPBlock))
			continue
		}
		pods, err := selectorOf(peer.PodSelector)
		if err != nil {
			return found, err
		}
		namespaces, err := selectorOf(peer.NamespaceSelector)
		if err != nil {
			return found, err
		}
		for _, g := range e.groups {
			inNamespace := g.namespace == namespace
			if peer.NamespaceSelector != nil {
				inNamespace = namespaces.Matches(e.Namespaces[g.namespace])
			}
			if inNamespace && pods.Matches(g.labels) {
				found.groups[g] = true
			}
		}
	}
	return found, nil
}

// selectorOf converts a selector. A missing selector matches everything.
func selectorOf(selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(selector)
}

func describeBlock(block *networkingv1.IPBlock) string {
	if len(block.Except) == 0 {
		return block.CIDR
	}
	return block.CIDR + " except " + strings.Join(block.Except, " ")
}

// between returns the traffic that one group may send to another, if at least one of the two groups is restricted. If only one is
// restricted, between ignores its rules without peers: the ports of these rules are on the edge from or to "(anywhere)".
func between(from, to *group) []Edge {
	out, in := from.sides[networkingv1.PolicyTypeEgress], to.sides[networkingv1.PolicyTypeIngress]
	if !out.restricted && !in.restricted {
		return nil
	}
	sent, received := allPorts(), allPorts()
	if out.restricted {
		sent = out.ports(to, to, in.restricted)
	}
	if in.restricted {
		received = in.ports(from, to, out.restricted)
	}
	allowed := intersection(sent, received)
	if len(allowed) == 0 {
		return nil
	}
	return []Edge{{From: from.name, To: to.name, Ports: allowed.String()}}
}

// ports returns the ports that the rules allow for a peer; rules without peers count only if anyPeer is true. The numbers are ports
// of the receiver's Pods.
func (s *side) ports(peer, receiver *group, anyPeer bool) ports {
	var allowed ports
	for _, each := range s.rules {
		if each.groups[peer] || each.anyPeer && anyPeer {
			allowed = append(allowed, resolve(each.ports, receiver)...)
		}
	}
	return union(allowed)
}

// addAlone adds the edges of one group from and to peers outside of groups, and records whether the group is open.
func (r *Report) addAlone(g *group) {
	in, out := g.sides[networkingv1.PolicyTypeIngress], g.sides[networkingv1.PolicyTypeEgress]
	if !in.restricted {
		r.OpenIngress = append(r.OpenIngress, g.name)
	}
	if !out.restricted {
		r.OpenEgress = append(r.OpenEgress, g.name)
	}
	for outside, allowed := range in.outside(g) {
		r.Edges = append(r.Edges, Edge{From: outside, To: g.name, Ports: allowed.String()})
	}
	for outside, allowed := range out.outside(nil) {
		r.Edges = append(r.Edges, Edge{From: g.name, To: outside, Ports: allowed.String()})
	}
}

// outside returns the allowed ports for all peers and for address ranges.
func (s *side) outside(receiver *group) map[string]ports {
	found := map[string]ports{}
	for _, each := range s.rules {
		names := each.blocks
		if each.anyPeer {
			names = []string{anywhere}
		}
		for _, name := range names {
			found[name] = union(found[name], resolve(each.ports, receiver))
		}
	}
	for name, allowed := range found {
		if len(allowed) == 0 {
			delete(found, name)
		}
	}
	return found
}
