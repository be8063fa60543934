package criticalcomponents

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// podOf returns a Pod of the DaemonSet with the given UID; for "", a Pod without a DaemonSet.
func podOf(owner types.UID, status corev1.ConditionStatus, annotations ...string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p-" + string(owner)}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", UID: owner, Controller: ptr.To(true)}}
	}
	if status != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: status}}
	}
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "node.gardener.cloud/wait-for-csi-node-"+annotations[i], annotations[i+1])
	}
	return pod
}

func daemonSetNamed(name string, change ...func(*appsv1.DaemonSet)) appsv1.DaemonSet {
	daemonSet := withSpec(nil)
	daemonSet.Name, daemonSet.UID = name, types.UID(name)
	for _, each := range change {
		each(daemonSet)
	}
	return *daemonSet
}

func names(names ...string) []types.NamespacedName {
	var all []types.NamespacedName
	for _, name := range names {
		all = append(all, types.NamespacedName{Namespace: "kube-system", Name: name})
	}
	return all
}

func registering(drivers ...string) *storagev1.CSINode {
	csiNode := &storagev1.CSINode{}
	for _, driver := range drivers {
		csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{Name: driver})
	}
	return csiNode
}

func judgeCases() map[string]struct {
	facts facts
	want  *finding
} {
	unlabelledTemplate := func(d *appsv1.DaemonSet) { d.Spec.Template.Labels = nil }
	otherOwner := podOf("a", "True")
	otherOwner.OwnerReferences[0].Kind = "ReplicaSet"
	notController := podOf("a", "True")
	notController.OwnerReferences[0].Controller = nil
	otherVersion := podOf("a", "True")
	otherVersion.OwnerReferences[0].APIVersion = "extensions/v1beta1"
	done := podOf("", "False")
	done.Status.Phase, done.DeletionTimestamp = corev1.PodSucceeded, &metav1.Time{}
	return map[string]struct {
		facts facts
		want  *finding
	}{
		"nothing is critical": {},
		"a DaemonSet without Pod": {
			facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("b"), daemonSetNamed("a")}},
			want:  &finding{cause: "daemonsets_unscheduled", objects: names("a", "b")},
		},
		"a DaemonSet with a Pod": {
			facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("a")}, pods: []corev1.Pod{podOf("a", "True")}},
		},
		"a Pod of another owner": {
			facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("a")}, pods: []corev1.Pod{otherOwner}},
			want:  &finding{cause: "daemonsets_unscheduled", objects: names("a")},
		},
		"a Pod that is not controlled": {
			facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("a")}, pods: []corev1.Pod{notController}},
			want:  &finding{cause: "daemonsets_unscheduled", objects: names("a")},
		},
		"a Pod of a DaemonSet of an older API": {
			facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("a")}, pods: []corev1.Pod{otherVersion}},
			want:  &finding{cause: "daemonsets_unscheduled", objects: names("a")},
		},
		"a DaemonSet that was created anew": {
			facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("a")}, pods: []corev1.Pod{podOf("old", "True")}},
			want:  &finding{cause: "daemonsets_unscheduled", objects: names("a")},
		},
		"a label on the DaemonSet alone": {facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("a", unlabelledTemplate)}}},
		"a DaemonSet for other Nodes": {
			facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("a", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeName = "n2" })}},
		},
		"scheduling comes before readiness": {
			facts: facts{daemonSets: []appsv1.DaemonSet{daemonSetNamed("a"), daemonSetNamed("b")}, pods: []corev1.Pod{podOf("b", "False")}},
			want:  &finding{cause: "daemonsets_unscheduled", objects: names("a")},
		},
		"a Pod without condition": {
			facts: facts{pods: []corev1.Pod{podOf("", "")}}, want: &finding{cause: "pods_unready", objects: names("p-")},
		},
		"a Pod of which nothing is known": {
			facts: facts{pods: []corev1.Pod{podOf("", "Unknown")}}, want: &finding{cause: "pods_unready", objects: names("p-")},
		},
		"a Pod that has ended and goes": {
			facts: facts{pods: []corev1.Pod{done}}, want: &finding{cause: "pods_unready", objects: names("p-")},
		},
		"readiness comes before drivers": {
			facts: facts{pods: []corev1.Pod{podOf("a", "True", "x", "foo"), podOf("b", "False")}},
			want:  &finding{cause: "pods_unready", objects: names("p-b")},
		},
		"a driver, and no CSINode": {
			facts: facts{pods: []corev1.Pod{podOf("a", "True", "x", "foo")}},
			want:  &finding{cause: "csi_drivers_unregistered", drivers: []string{"foo"}},
		},
		"a driver that is registered": {
			facts: facts{pods: []corev1.Pod{podOf("a", "True", "x", "foo")}, csiNode: registering("bar", "foo")},
		},
		"of two drivers, one is registered": {
			facts: facts{pods: []corev1.Pod{podOf("a", "True", "x", "foo"), podOf("b", "True", "y", "bar")}, csiNode: registering("foo")},
			want:  &finding{cause: "csi_drivers_unregistered", drivers: []string{"bar"}},
		},
		"a driver in another case": {
			facts: facts{pods: []corev1.Pod{podOf("a", "True", "x", "Foo")}, csiNode: registering("foo")},
			want:  &finding{cause: "csi_drivers_unregistered", drivers: []string{"Foo"}},
		},
		"a required DaemonSet that is missing": {
			facts: facts{required: names("a", "b"), daemonSets: []appsv1.DaemonSet{daemonSetNamed("b")}},
			want:  &finding{cause: "daemonsets_missing", objects: names("a")},
		},
		"a required one without inner label": {
			facts: facts{required: names("a"), daemonSets: []appsv1.DaemonSet{daemonSetNamed("a", unlabelledTemplate)}},
			want:  &finding{cause: "daemonsets_missing", objects: names("a")},
		},
		"a required one that is there and runs": {
			facts: facts{required: names("a"), daemonSets: []appsv1.DaemonSet{daemonSetNamed("a")}, pods: []corev1.Pod{podOf("a", "True")}},
		},
	}
}

func TestJudge(t *testing.T) {
	for name, tc := range judgeCases() {
		t.Run(name, func(t *testing.T) {
			tc.facts.node = nodeWith()
			NewWithT(t).Expect(judge(tc.facts)).To(Equal(tc.want))
		})
	}
}

func TestDriversAreCountedOnce(t *testing.T) {
	pods := []corev1.Pod{podOf("a", "True", "foo", "foo.example.com"), podOf("b", "True", "foo", "foo.example.com", "bar", "bar.example.com")}
	pods[0].Annotations["node.gardener.cloud/wait-for-csi"] = "other"
	NewWithT(t).Expect(requiredDrivers(pods)).To(Equal([]string{"bar.example.com", "foo.example.com"}))
}
