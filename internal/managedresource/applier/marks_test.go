package applier_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// reads counts the reads and updates of one object, and fails reads if the test requests it.
type reads struct {
	failing       atomic.Bool
	seen, updates atomic.Int64
}

func watchReads(e *Env, path string) *reads {
	r := &reads{}
	e.Requests.SetHook(func(request *http.Request) error {
		if request.URL.Path != path {
			return nil
		}
		switch request.Method {
		case http.MethodPut:
			r.updates.Add(1)
		case http.MethodGet:
			if r.failing.Load() {
				return errors.New("read refused by the test")
			}
			r.seen.Add(1)
		}
		return nil
	})
	return r
}

// failOnce fails reads until the set "mr" reports a failure.
func (r *reads) failOnce(e *Env, ask func(e *Env)) {
	e.T.Helper()
	r.failing.Store(true)
	ask(e)
	e.AwaitApplied("mr", "False/ApplyFailed")
	r.failing.Store(false)
}

func requestAudit(e *Env) {
	e.T.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"gardener.cloud/operation":"reconcile"}}}`))
	e.Expect(e.Source.Patch(e.Ctx, e.ManagedResource("mr"), patch)).To(Succeed())
}

// Nothing but the annotation that requests a reconciliation causes a read of the object.
func TestAnAuditThatFailedIsRepeated(t *testing.T) {
	e := withoutControllers(t)
	e.Set("mr", e.ConfigMap("c", "1"))
	e.AwaitApplied("mr", succeeded)
	e.AwaitRest()
	reads := watchReads(e, e.Fill("/api/v1/namespaces/$NS/configmaps/c"))
	reads.failOnce(e, requestAudit)
	e.AwaitApplied("mr", succeeded)
	e.Expect(reads.seen.Load()).To(BeNumerically(">=", 1))
}

// Nothing but the deletion of the autoscaler causes a comparison of the object.
func TestAComparisonAfterTheDeletionOfAnAutoscalerIsRepeatedAfterAFailure(t *testing.T) {
	e := withoutControllers(t)
	scaler := e.Create(e.Fill("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: $NS}\n" +
		"spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}"))
	e.Set("mr", webDeployment(e, "", "replicas: 1, ", ""))
	e.AwaitApplied("mr", succeeded)
	e.Patch(deploymentKind, "web", `{"spec":{"replicas":5}}`)
	e.AwaitRest()
	e.Expect(Field(e.Live(deploymentKind, "web"), "spec", "replicas")).To(BeEquivalentTo(5))
	reads := watchReads(e, e.Fill("/apis/apps/v1/namespaces/$NS/deployments/web"))
	reads.failOnce(e, func(e *Env) { e.Expect(e.Target.Delete(e.Ctx, scaler)).To(Succeed()) })
	e.Await(deploymentKind, "web", func(g Gomega, live *unstructured.Unstructured) {
		g.Expect(Field(live, "spec", "replicas")).To(BeEquivalentTo(1))
	})
}

// The controller's clock advances only in the test; the queue uses the real clock.
func TestAForcedUpdateThatFailedIsRepeatedBeforeTheNextPeriod(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Now())
	e := New(t, Options{TwoClusters: true, Clock: now, Configure: func(c *config.ResourceManagerConfiguration) {
		c.Controllers.ManagedResource.AlwaysUpdate = new(true)
	}})
	e.Set("mr", e.ConfigMap("c", "1"))
	e.AwaitApplied("mr", succeeded)
	e.AwaitRest()
	reads := watchReads(e, e.Fill("/api/v1/namespaces/$NS/configmaps/c"))
	reads.failOnce(e, func(*Env) { now.Step(e.Config.Controllers.ManagedResource.SyncPeriod.Duration) })
	e.AwaitApplied("mr", succeeded)
	e.Expect(reads.updates.Load()).To(BeNumerically(">=", 1))
}

func TestAComparisonThatAPauseOfRepairsDelaysFollowsThePause(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Now())
	e := New(t, Options{TwoClusters: true, Clock: now, Configure: func(c *config.ResourceManagerConfiguration) {
		c.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Hour}
	}})
	e.Set("mr", e.ConfigMap("c", "1"), e.ConfigMap("d", "1"))
	e.AwaitApplied("mr", succeeded)
	for range 3 {
		e.Edit("c", `{"data":{"key":"x"}}`)
		e.AwaitData("c", "1")
	}
	e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).Should(ContainElement(HavePrefix("DriftRepairPaused: ")))
	e.AwaitRest()
	reads := watchReads(e, e.Fill("/api/v1/namespaces/$NS/configmaps/c"))
	readsOfOther := func() int { return countOf(e.Requests.Seen(), e.Fill("GET /api/v1/namespaces/$NS/configmaps/d")) }
	const moment = 500 * time.Millisecond // the queue uses the real clock, and waits for the rest of the time on the fake clock
	now.Step(10*time.Second - moment)
	requestAudit(e)
	e.Eventually(readsOfOther).WithTimeout(Patience).Should(Equal(1))
	e.AwaitRest()
	e.Expect(reads.seen.Load()).To(BeZero())
	now.Step(moment)
	e.Eventually(reads.seen.Load).WithTimeout(Patience).Should(BeNumerically(">=", 1))
	e.Expect(readsOfOther()).To(BeZero(), "the objects that were read are not read again")
}

func countOf(requests []string, want string) int {
	count := 0
	for _, each := range requests {
		if each == want {
			count++
		}
	}
	return count
}
