package criticalcomponents

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestWhichChangesOfNodesMatter(t *testing.T) {
	const ours = "node.gardener.cloud/critical-components-not-ready"
	version := func(v string) func(*corev1.Node) { return func(n *corev1.Node) { n.ResourceVersion = v } }
	for name, tc := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"nothing but the version": {
			before: nodeWith(taint(ours, "NoSchedule"), version("1")), after: nodeWith(taint(ours, "NoSchedule"), version("2")),
		},
		"labels of a Node that waits": {
			before: nodeWith(taint(ours, "NoSchedule")),
			after:  nodeWith(taint(ours, "NoSchedule"), func(n *corev1.Node) { n.Labels["zone"] = "b" }), want: true,
		},
		"labels of a Node that does not": {
			before: nodeWith(), after: nodeWith(func(n *corev1.Node) { n.Labels = map[string]string{"zone": "b"} }),
		},
		"the taint comes":              {before: nodeWith(), after: nodeWith(taint(ours, "NoSchedule")), want: true},
		"the taint goes":               {before: nodeWith(taint(ours, "NoSchedule")), after: nodeWith(), want: true},
		"another taint of a free Node": {before: nodeWith(), after: nodeWith(taint("a", "NoSchedule"))},
		"another taint of one that waits": {
			before: nodeWith(taint(ours, "NoSchedule")), after: nodeWith(taint(ours, "NoSchedule"), taint("a", "NoSchedule")), want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(waits(tc.before, tc.after)).To(Equal(tc.want))
		})
	}
	g := NewWithT(t)
	g.Expect(waits(nil, nodeWith(taint(ours, "NoExecute")))).To(BeTrue())
	g.Expect(waits(nil, nodeWith())).To(BeFalse())
	g.Expect(waits(nodeWith(taint(ours, "NoExecute")), nil)).To(BeTrue())
	g.Expect(waits(nodeWith(), nil)).To(BeFalse())
}
