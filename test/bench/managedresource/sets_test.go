package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// appliedSet returns a ManagedResource with the status of an applied set.
func appliedSet(name, checksum string, modify ...func(map[string]any)) *unstructured.Unstructured {
	set := map[string]any{
		"metadata": map[string]any{"name": name, "generation": int64(2)},
		"status": map[string]any{
			"observedGeneration": int64(2), "secretsDataChecksum": checksum,
			"conditions": []any{
				map[string]any{"type": "ResourcesHealthy", "status": "False"},
				map[string]any{"type": "ResourcesApplied", "status": "True"},
			},
		},
	}
	for _, m := range modify {
		m(set)
	}
	return &unstructured.Unstructured{Object: set}
}

func TestApplied(t *testing.T) {
	for name, tc := range map[string]struct {
		set  *unstructured.Unstructured
		want string
	}{
		"the condition is True": {set: appliedSet("a", "abc"), want: "abc"},
		"the condition is Progressing": {set: appliedSet("a", "abc", func(set map[string]any) {
			_ = unstructured.SetNestedSlice(set, []any{map[string]any{"type": "ResourcesApplied", "status": "Progressing"}}, "status", "conditions")
		})},
		"another generation was observed": {set: appliedSet("a", "abc", func(set map[string]any) {
			_ = unstructured.SetNestedField(set, int64(1), "status", "observedGeneration")
		})},
		"a new set without status": {set: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": int64(1)}}}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(applied(tc.set.Object)).To(Equal(tc.want)) })
	}
}

func TestUpdateIsDoneWhenObjectAndSetAreSeen(t *testing.T) {
	g := NewWithT(t)
	begin := time.Unix(1000, 0)
	configMap := func(set, says string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "part-009", "labels": map[string]any{"app.kubernetes.io/instance": set}},
			"data":     map[string]any{"greeting": says},
		}}
	}
	tracker := newUpdateTracker(2, map[string]string{"a": "old-a", "b": "old-b"})
	for i, step := range []struct {
		object *unstructured.Unstructured
		done   bool
	}{
		{object: configMap("a", "hello")},
		{object: appliedSet("a", "old-a")},
		{object: configMap("a", "good morning")},
		{object: appliedSet("b", "new-b")},
		{object: appliedSet("a", "new-a")}, // a is complete
		{object: appliedSet("a", "new-a")},
		{object: configMap("b", "good morning"), done: true},
	} {
		e := event{at: begin.Add(time.Duration(i) * time.Second), resource: managedResources, object: metav1.Object(step.object)}
		if step.object.Object["data"] != nil {
			e.resource = configMaps
		}
		g.Expect(tracker.see(e)).To(Equal(step.done), "step %d", i)
	}
	g.Expect(tracker.done).To(Equal(map[string]time.Time{"a": begin.Add(4 * time.Second), "b": begin.Add(6 * time.Second)}))
}

func TestUntilGoneCountsDeletions(t *testing.T) {
	g := NewWithT(t)
	done := untilGone(2)
	g.Expect(done(event{deleted: true})).To(BeFalse())
	g.Expect(done(event{})).To(BeFalse())
	g.Expect(done(event{deleted: true})).To(BeTrue())
}
