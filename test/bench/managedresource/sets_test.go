package managedresource

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/bench/harness"
)

// appliedSet returns a ManagedResource with the status of an applied set.
func appliedSet(name, checksum string, modify ...func(*resourcesv1alpha1.ManagedResource)) *resourcesv1alpha1.ManagedResource {
	set := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2},
		Status: resourcesv1alpha1.ManagedResourceStatus{
			ObservedGeneration: 2, SecretsDataChecksum: &checksum,
			Conditions: []corev1beta1.Condition{{Type: "ResourcesHealthy", Status: "False"}, {Type: "ResourcesApplied", Status: "True"}},
		},
	}
	for _, m := range modify {
		m(set)
	}
	return set
}

func TestApplied(t *testing.T) {
	for name, tc := range map[string]struct {
		set  *resourcesv1alpha1.ManagedResource
		want string
	}{
		"the condition is True": {set: appliedSet("a", "abc"), want: "abc"},
		"the condition is Progressing": {set: appliedSet("a", "abc", func(set *resourcesv1alpha1.ManagedResource) {
			set.Status.Conditions = []corev1beta1.Condition{{Type: "ResourcesApplied", Status: "Progressing"}}
		})},
		"another generation was observed": {set: appliedSet("a", "abc", func(set *resourcesv1alpha1.ManagedResource) {
			set.Status.ObservedGeneration = 1
		})},
		"a new set without status": {set: &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Generation: 1}}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(applied(tc.set)).To(Equal(tc.want)) })
	}
}

func TestUpdateIsDoneWhenObjectAndSetAreSeen(t *testing.T) {
	g := NewWithT(t)
	configMap := func(set, says string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "part-009", Labels: map[string]string{"app.kubernetes.io/instance": set}},
			Data:       map[string]string{"greeting": says},
		}
	}
	done := untilUpdated(2, map[string]string{"a": "old-a", "b": "old-b"})
	for i, step := range []struct {
		object client.Object
		done   bool
	}{
		{object: configMap("a", "hello")},
		{object: appliedSet("a", "old-a")},
		{object: configMap("a", "good morning")},
		{object: appliedSet("b", "new-b")},
		{object: appliedSet("a", "new-a")}, // a is complete
		{object: appliedSet("a", "new-a")},
		{object: configMap("b", "hello")},
		{object: configMap("b", "good morning"), done: true},
	} {
		g.Expect(done(harness.Event{Object: step.object})).To(Equal(step.done), "step %d", i)
	}
}
