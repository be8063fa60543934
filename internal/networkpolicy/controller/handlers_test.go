package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/process"
)

// policyOf returns a policy with the labels of a Service. Its UID is the same for all Services.
func policyOf(service string) *networkingv1.NetworkPolicy {
	policy := policyCalled("p")
	policy.UID = "1"
	policy.Annotations = map[string]string{fingerprintKey: "of " + service}
	policy.Labels = map[string]string{
		"networking.resources.gardener.cloud/service-name":      service,
		"networking.resources.gardener.cloud/service-namespace": "ns",
	}
	return policy
}

func TestEventsOfPolicies(t *testing.T) {
	type policyEvents = handler.TypedFuncs[*networkingv1.NetworkPolicy, reconcile.Request]
	created := func(initial bool) func(context.Context, policyEvents, process.Queue) {
		return func(ctx context.Context, events policyEvents, q process.Queue) {
			events.Create(ctx, event.TypedCreateEvent[*networkingv1.NetworkPolicy]{Object: policyOf("a"), IsInInitialList: initial}, q)
		}
	}
	updated := func(service string) func(context.Context, policyEvents, process.Queue) {
		return func(ctx context.Context, events policyEvents, q process.Queue) {
			events.Update(ctx, event.TypedUpdateEvent[*networkingv1.NetworkPolicy]{
				ObjectOld: policyOf("a"), ObjectNew: policyOf(service),
			}, q)
		}
	}
	for name, tc := range map[string]struct {
		happens func(context.Context, policyEvents, process.Queue)
		wakes   []types.NamespacedName
		// disturbed is true if another client has written the policy.
		disturbed bool
	}{
		"a policy of the initial list":   {happens: created(true), wakes: []types.NamespacedName{named("a")}},
		"a policy of another client":     {happens: created(false), wakes: []types.NamespacedName{named("a")}, disturbed: true},
		"an update that changes nothing": {happens: updated("a")},
		"a policy that changes its owner": {
			happens: updated("b"), wakes: []types.NamespacedName{named("a"), named("b"), named("waits")}, disturbed: true,
		},
		"a policy that another client deletes": {
			happens: func(ctx context.Context, events policyEvents, q process.Queue) {
				events.Delete(ctx, event.TypedDeleteEvent[*networkingv1.NetworkPolicy]{Object: policyOf("a")}, q)
			},
			wakes: []types.NamespacedName{named("a"), named("waits")}, disturbed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, now := NewWithT(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			r := &Reconciler{Writes: NewWrites(now), Repairs: NewRepairs(now)}
			r.waiting.set(named("waits"), []conflict{{policy: named("p")}}, true)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			t.Cleanup(q.ShutDown)
			tc.happens(t.Context(), r.policyEvents(), q)
			var woken []types.NamespacedName
			for q.Len() > 0 {
				request, _ := q.Get()
				woken = append(woken, request.NamespacedName)
			}
			g.Expect(woken).To(ConsistOf(tc.wakes))
			_, disturbed := r.Repairs.policies[named("p")]
			g.Expect(disturbed).To(Equal(tc.disturbed))
		})
	}
}
