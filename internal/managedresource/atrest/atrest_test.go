package atrest

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const period = time.Minute

var (
	web   = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
	cache = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "cache"}}
)

// scene is a Sweep with a record of its checks and of the requeued objects.
type scene struct {
	*Sweep
	clock *clocktesting.FakeClock
	// result and err are the answer of the wrapped Reconciler.
	result ctrl.Result
	err    error
	// busy are the objects that are not at rest.
	busy map[types.NamespacedName]bool
	// checked are the objects that were checked. again are the objects that must be reconciled again.
	checked []types.NamespacedName
	again   []reconcile.Request
}

func newScene() *scene {
	s := &scene{
		clock: clocktesting.NewFakeClock(time.Unix(0, 0)), result: ctrl.Result{RequeueAfter: period},
		busy: map[types.NamespacedName]bool{},
	}
	s.Sweep = &Sweep{
		Inner: reconcile.Func(func(context.Context, reconcile.Request) (ctrl.Result, error) { return s.result, s.err }),
		AtRest: func(_ context.Context, name types.NamespacedName) bool {
			s.checked = append(s.checked, name)
			return !s.busy[name]
		},
		Period: period, Clock: s.clock,
	}
	return s
}

// after advances the clock and makes the Sweep check the objects that are then due.
func (s *scene) after(t *testing.T, duration time.Duration) {
	t.Helper()
	s.clock.Step(duration)
	s.checked, s.again = nil, nil
	s.check(t.Context(), func(request reconcile.Request) { s.again = append(s.again, request) })
}

func (s *scene) reconcile(t *testing.T, request reconcile.Request) (ctrl.Result, error) {
	t.Helper()
	return s.Reconcile(t.Context(), request)
}

func TestAnObjectAtRestIsCheckedOnceInEachPeriodWithoutTheQueue(t *testing.T) {
	g := NewWithT(t)
	s := newScene()
	g.Expect(s.reconcile(t, web)).To(Equal(ctrl.Result{}), "the queue has no timer for it")
	for range 3 {
		s.after(t, period-time.Second)
		g.Expect(s.checked).To(BeEmpty(), "the period has not passed")
		s.after(t, time.Second)
		g.Expect(s.checked).To(Equal([]types.NamespacedName{web.NamespacedName}))
		g.Expect(s.again).To(BeEmpty())
	}
}

func TestAReconciliationPostponesTheCheck(t *testing.T) {
	g := NewWithT(t)
	s := newScene()
	g.Expect(s.reconcile(t, web)).To(Equal(ctrl.Result{}))
	s.after(t, period/2)
	g.Expect(s.reconcile(t, web)).To(Equal(ctrl.Result{}))
	s.after(t, period/2)
	g.Expect(s.checked).To(BeEmpty())
}

func TestAnObjectThatIsNotAtRestIsReconciledOnce(t *testing.T) {
	g := NewWithT(t)
	s := newScene()
	g.Expect(s.reconcile(t, web)).To(Equal(ctrl.Result{}))
	g.Expect(s.reconcile(t, cache)).To(Equal(ctrl.Result{}))
	s.busy[web.NamespacedName] = true
	s.after(t, period)
	g.Expect(s.checked).To(ConsistOf(web.NamespacedName, cache.NamespacedName))
	g.Expect(s.again).To(Equal([]reconcile.Request{web}))
	s.after(t, period)
	g.Expect(s.checked).To(Equal([]types.NamespacedName{cache.NamespacedName}), "the other one is checked after its reconciliation")
}

func TestOtherResultsPassUnchangedAndAreNotChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		result ctrl.Result
		err    error
	}{
		"an object that is gone":         {ctrl.Result{}, nil},
		"an object to reconcile soon":    {ctrl.Result{RequeueAfter: time.Second}, nil},
		"an object that fails":           {ctrl.Result{RequeueAfter: period}, errors.New("conflict")},
		"an object with a priority":      {ctrl.Result{RequeueAfter: period, Priority: new(1)}, nil},
		"an object to reconcile later":   {ctrl.Result{RequeueAfter: time.Hour}, nil},
		"an object that fails otherwise": {ctrl.Result{}, reconcile.TerminalError(errors.New("wrong input"))},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newScene()
			_, err := s.reconcile(t, web)
			g.Expect(err).NotTo(HaveOccurred())
			s.result, s.err = tc.result, tc.err
			result, err := s.reconcile(t, web)
			g.Expect(result).To(Equal(tc.result))
			g.Expect(errors.Is(err, tc.err)).To(BeTrue())
			s.after(t, period)
			g.Expect(s.checked).To(BeEmpty())
		})
	}
}

func TestAnObjectIsNotCheckedWhileItIsReconciled(t *testing.T) {
	g := NewWithT(t)
	s := newScene()
	g.Expect(s.reconcile(t, web)).To(Equal(ctrl.Result{}))
	s.Inner = reconcile.Func(func(context.Context, reconcile.Request) (ctrl.Result, error) {
		s.after(t, 2*period)
		g.Expect(s.checked).To(BeEmpty())
		return s.result, nil
	})
	g.Expect(s.reconcile(t, web)).To(Equal(ctrl.Result{}))
	s.after(t, period)
	g.Expect(s.checked).To(Equal([]types.NamespacedName{web.NamespacedName}))
}

func TestARunningControllerReconcilesWhatIsNotAtRest(t *testing.T) {
	g := NewWithT(t)
	s := newScene()
	s.busy[web.NamespacedName] = true
	g.Expect(s.reconcile(t, web)).To(Equal(ctrl.Result{}))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	g.Expect(s.Source().Start(t.Context(), queue)).To(Succeed())
	g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	s.clock.Step(period)
	again, _ := queue.Get()
	g.Expect(again).To(Equal(web))
}
