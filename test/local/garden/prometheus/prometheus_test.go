package prometheus

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestEveryGenerationIsReportedAvailable(t *testing.T) {
	g := NewWithT(t)
	key := client.ObjectKey{Namespace: "garden", Name: "cache"}
	o := newObject()
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	o.SetGeneration(1)
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(o).WithStatusSubresource(o).Build()
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	r := &reconciler{client: c, now: func() metav1.Time { return now }}
	statusAfter := func(key client.ObjectKey) map[string]any {
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		status, _ := o.Object["status"].(map[string]any)
		return status
	}
	condition := func(kind, at string, generation int64) any {
		return map[string]any{
			"type": kind, "status": "True", "reason": "StandIn", "message": "No Pod runs.", "lastTransitionTime": at,
			"observedGeneration": generation,
		}
	}
	first := map[string]any{
		"paused": false, "replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1), "unavailableReplicas": int64(0),
		"selector": "app.kubernetes.io/name=prometheus,prometheus=cache",
		"conditions": []any{
			condition("Available", "2026-01-01T00:00:00Z", 1), condition("Reconciled", "2026-01-01T00:00:00Z", 1),
		},
	}
	g.Expect(statusAfter(client.ObjectKey{Namespace: "garden", Name: "absent"})).To(BeEmpty())
	g.Expect(statusAfter(key)).To(Equal(first))

	now = metav1.NewTime(now.Add(time.Hour))
	g.Expect(statusAfter(key)).To(Equal(first), "the same generation is not written again")

	o.SetGeneration(2)
	o.Object["spec"] = map[string]any{"replicas": int64(2)}
	g.Expect(c.Update(t.Context(), o)).To(Succeed())
	second := statusAfter(key)
	g.Expect(second).To(HaveKeyWithValue("availableReplicas", int64(2)))
	const later = "2026-01-01T01:00:00Z"
	g.Expect(second["conditions"]).To(ConsistOf(condition("Available", later, 2), condition("Reconciled", later, 2)))
}
