package criticalcomponents

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// full returns metadata with many fields that do not matter.
func full(annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7", Generation: 3, Finalizers: []string{"f"},
		CreationTimestamp: metav1.NewTime(time.Unix(1, 0)), Annotations: annotations, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		Labels: map[string]string{"node.gardener.cloud/critical-component": "true", "app": "x"},
	}
}

func TestTrim(t *testing.T) {
	critical := map[string]string{"node.gardener.cloud/critical-component": "true"}
	kept := metav1.ObjectMeta{Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7", Labels: critical}
	selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	owner := metav1.OwnerReference{Kind: "DaemonSet", UID: "d", Controller: ptr.To(true)}
	withAnnotation := kept
	withAnnotation.Annotations = map[string]string{"node.gardener.cloud/wait-for-csi-node-x": "foo"}
	withAnnotation.OwnerReferences = []metav1.OwnerReference{owner}
	podMeta := full(map[string]string{"node.gardener.cloud/wait-for-csi-node-x": "foo", "other": "x"})
	podMeta.OwnerReferences = []metav1.OwnerReference{{Kind: "Other"}, owner}
	for name, tc := range map[string]struct{ object, want any }{
		"a Node": {
			object: &corev1.Node{
				ObjectMeta: full(map[string]string{"a": "b"}), Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24", Taints: taintsFor("a")},
				Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"large"}}}},
			},
			want: &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
					Labels: full(nil).Labels,
				},
				Spec: corev1.NodeSpec{Taints: taintsFor("a")},
			},
		},
		"a Pod": {
			object: &corev1.Pod{
				ObjectMeta: podMeta, Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "large"}}},
				Status: corev1.PodStatus{
					Phase:      corev1.PodRunning,
					Conditions: []corev1.PodCondition{{Type: "Initialized", Status: "True"}, {Type: "Ready", Status: "False", Message: "large"}},
				},
			},
			want: &corev1.Pod{
				ObjectMeta: withAnnotation, Spec: corev1.PodSpec{NodeName: "n1"},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "Ready", Status: "False"}}},
			},
		},
		"a DaemonSet": {
			object: &appsv1.DaemonSet{ObjectMeta: full(nil), Status: appsv1.DaemonSetStatus{NumberReady: 5}, Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{}, Template: corev1.PodTemplateSpec{ObjectMeta: full(nil), Spec: corev1.PodSpec{
					NodeName: "n1", HostNetwork: true, NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{{Key: "a"}},
					Containers: []corev1.Container{{Name: "large"}},
					Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, NodeAffinity: &corev1.NodeAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution:  selector,
						PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{}},
					}},
				}},
			}},
			want: &appsv1.DaemonSet{
				ObjectMeta: kept,
				Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: critical}, Spec: corev1.PodSpec{
					NodeName: "n1", HostNetwork: true, NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{{Key: "a"}},
					Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}},
				}}},
			},
		},
		"a CSINode": {
			object: &storagev1.CSINode{
				ObjectMeta: full(nil),
				Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "a", NodeID: "large", TopologyKeys: []string{"x"}}}},
			},
			want: &storagev1.CSINode{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7"},
				Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "a"}}},
			},
		},
		"what a watch missed": {object: cache.DeletedFinalStateUnknown{Key: "a"}, want: cache.DeletedFinalStateUnknown{Key: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := trim(tc.object)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(BeComparableTo(tc.want))
		})
	}
}

// Fields that trim drops must not matter to the checks.
func TestTrimChangesNoJudgement(t *testing.T) {
	for name, tc := range judgeCases() {
		t.Run(name, func(t *testing.T) {
			tc.facts.node = trimmedNode(nodeWith())
			for i := range tc.facts.daemonSets {
				tc.facts.daemonSets[i] = *trimmedDaemonSet(&tc.facts.daemonSets[i])
			}
			for i := range tc.facts.pods {
				tc.facts.pods[i] = *trimmedPod(&tc.facts.pods[i])
			}
			if tc.facts.csiNode != nil {
				tc.facts.csiNode = trimmedCSINode(tc.facts.csiNode)
			}
			NewWithT(t).Expect(judge(tc.facts)).To(Equal(tc.want))
		})
	}
}

func taintsFor(keys ...string) []corev1.Taint {
	node := nodeWith()
	for _, key := range keys {
		taint(key, "NoSchedule")(node)
	}
	return node.Spec.Taints
}
