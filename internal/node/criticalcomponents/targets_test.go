package criticalcomponents

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func nodeWith(change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: map[string]string{"zone": "a", "cores": "8"}}}
	for _, each := range change {
		each(node)
	}
	return node
}

func taint(key, effect string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
	}
}

func withSpec(change func(*corev1.PodSpec)) *appsv1.DaemonSet {
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "d", UID: "d"}}
	daemonSet.Spec.Template.Labels = map[string]string{"node.gardener.cloud/critical-component": "true"}
	if change != nil {
		change(&daemonSet.Spec.Template.Spec)
	}
	return daemonSet
}

func requiring(expressions ...corev1.NodeSelectorRequirement) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: expressions}},
		}}}
	}
}

func tolerating(tolerations ...corev1.Toleration) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) { spec.Tolerations = tolerations }
}

func TestShouldRunOn(t *testing.T) {
	const ours = "node.gardener.cloud/critical-components-not-ready"
	for name, tc := range map[string]struct {
		node *corev1.Node
		spec func(*corev1.PodSpec)
		want bool
	}{
		"nothing asked, nothing tainted": {node: nodeWith(), want: true},
		"pinned to the node":             {node: nodeWith(), spec: func(s *corev1.PodSpec) { s.NodeName = "n1" }, want: true},
		"pinned to another node":         {node: nodeWith(), spec: func(s *corev1.PodSpec) { s.NodeName = "n2" }},
		"a node selector that matches": {
			node: nodeWith(), spec: func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"zone": "a"} }, want: true,
		},
		"a node selector that does not": {
			node: nodeWith(), spec: func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"zone": "b"} },
		},
		"an affinity that matches": {
			node: nodeWith(), spec: requiring(corev1.NodeSelectorRequirement{Key: "cores", Operator: "Gt", Values: []string{"4"}}), want: true,
		},
		"an affinity that does not": {
			node: nodeWith(), spec: requiring(corev1.NodeSelectorRequirement{Key: "zone", Operator: "NotIn", Values: []string{"a"}}),
		},
		"an affinity that cannot be parsed": {
			node: nodeWith(), spec: requiring(corev1.NodeSelectorRequirement{Key: "cores", Operator: "Gt", Values: []string{"many"}}),
		},
		"a taint that is not tolerated":    {node: nodeWith(taint("a", "NoSchedule"))},
		"a taint that evicts":              {node: nodeWith(taint("a", "NoExecute"))},
		"a taint that only advises":        {node: nodeWith(taint("a", "PreferNoSchedule")), want: true},
		"the waiting taint, not tolerated": {node: nodeWith(taint(ours, "NoSchedule"))},
		"the waiting taint, tolerated": {
			node: nodeWith(taint(ours, "NoSchedule")), spec: tolerating(corev1.Toleration{Key: ours, Operator: "Exists"}), want: true,
		},
		"the waiting taint, tolerated for other effect": {
			node: nodeWith(taint(ours, "NoSchedule")), spec: tolerating(corev1.Toleration{Key: ours, Operator: "Exists", Effect: "NoExecute"}),
		},
		"all taints tolerated": {
			node: nodeWith(taint("a", "NoExecute"), taint(ours, "NoSchedule")), spec: tolerating(corev1.Toleration{Operator: "Exists"}),
			want: true,
		},
		"what every daemon tolerates": {node: nodeWith(
			taint("node.kubernetes.io/not-ready", "NoExecute"), taint("node.kubernetes.io/unreachable", "NoExecute"),
			taint("node.kubernetes.io/disk-pressure", "NoSchedule"), taint("node.kubernetes.io/memory-pressure", "NoSchedule"),
			taint("node.kubernetes.io/pid-pressure", "NoSchedule"), taint("node.kubernetes.io/unschedulable", "NoSchedule"),
		), want: true},
		"not ready, for scheduling": {node: nodeWith(taint("node.kubernetes.io/not-ready", "NoSchedule"))},
		"no network":                {node: nodeWith(taint("node.kubernetes.io/network-unavailable", "NoSchedule"))},
		"no network, but that of the node": {
			node: nodeWith(taint("node.kubernetes.io/network-unavailable", "NoSchedule")),
			spec: func(s *corev1.PodSpec) { s.HostNetwork = true }, want: true,
		},
		"a toleration with another value": {
			node: nodeWith(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}} }),
			spec: tolerating(corev1.Toleration{Key: "a", Value: "2"}),
		},
		"a toleration with the taint's value": {
			node: nodeWith(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}} }),
			spec: tolerating(corev1.Toleration{Key: "a", Value: "1"}), want: true,
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(shouldRunOn(tc.node, withSpec(tc.spec))).To(Equal(tc.want)) })
	}
}

func TestAffinityFault(t *testing.T) {
	g := NewWithT(t)
	g.Expect(affinityFault(withSpec(nil))).To(Succeed())
	g.Expect(affinityFault(withSpec(requiring(corev1.NodeSelectorRequirement{Key: "cores", Operator: "Gt", Values: []string{"4"}})))).
		To(Succeed())
	g.Expect(affinityFault(withSpec(requiring(corev1.NodeSelectorRequirement{Key: "cores", Operator: "Gt", Values: []string{"many"}})))).
		To(MatchError(
			HavePrefix(`spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].` +
				`matchExpressions[0].values[0]: Invalid value: "many"`)))
}
