package criticalcomponents

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestNotes(t *testing.T) {
	many := make([]types.NamespacedName, 0, 1000)
	for i := range 1000 {
		many = append(many, types.NamespacedName{Namespace: "kube-system", Name: fmt.Sprintf("component-%04d", i)})
	}
	for name, tc := range map[string]struct {
		finding finding
		want    string
		related corev1.ObjectReference
	}{
		"unscheduled": {
			finding: finding{cause: unscheduled, objects: names("a", "b")},
			want:    "Node-critical DaemonSets found that were not scheduled to Node yet: kube-system/a, kube-system/b",
			related: corev1.ObjectReference{
				APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: "kube-system", Name: "a", FieldPath: "and kube-system/b",
			},
		},
		"unready": {
			finding: finding{cause: unready, objects: names("a")},
			want:    "Unready node-critical Pods found on Node: kube-system/a",
			related: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "kube-system", Name: "a"},
		},
		"unregistered": {
			finding: finding{cause: unregistered, drivers: []string{"bar", "foo"}},
			want:    "Unready required CSI drivers for Node: [bar foo]",
			related: corev1.ObjectReference{APIVersion: "storage.k8s.io/v1", Kind: "CSINode", Name: "n1", FieldPath: "bar foo"},
		},
		"missing": {
			finding: finding{cause: missing, objects: names("a")},
			want:    "Required node-critical DaemonSets do not exist, or lack the label on their metadata or template: kube-system/a",
			related: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: "kube-system", Name: "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.finding.note()).To(Equal(tc.want))
			g.Expect(*tc.finding.related(nodeWith())).To(Equal(tc.related))
		})
	}
	note := finding{cause: unready, objects: many}.note()
	g := NewWithT(t)
	g.Expect(len(note)).To(BeNumerically("<=", 1024))
	g.Expect(note).To(MatchRegexp(`kube-system/component-0028, and 971 more$`))
}

func TestBounded(t *testing.T) {
	g := NewWithT(t)
	g.Expect(bounded("short", 10)).To(Equal("short"))
	g.Expect(bounded(strings.Repeat("ü", 10), 10)).To(Equal("üüü…"))
	g.Expect(bounded("a\xffb", 10)).To(Equal("a\uFFFDb"))
}

func TestFailureNotes(t *testing.T) {
	g := NewWithT(t)
	forbidden := fmt.Errorf("remove taint: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("no")))
	g.Expect(failureNote(forbidden)).To(Equal(
		`The taint stays because of an error; grant it, for example with the roles in deploy/node-controller; it is tried again: remove ` +
			`taint: nodes "n1" is forbidden: no`))
	g.Expect(failureNote(errors.New("broken"))).To(Equal("The taint stays because of an error; it is tried again: broken"))
}
