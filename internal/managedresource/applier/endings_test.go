package applier_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// expiringJob is a Job that Kubernetes deletes after its end.
func expiringJob(e *Env, image string) string {
	return e.Fill(`apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: $NS}
spec:
  ttlSecondsAfterFinished: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: ` + image + `}]`)
}

// finish sets the status of the Job as the Job controller does at its end.
func finish(e *Env) {
	e.T.Helper()
	const at = "2026-01-01T00:00:00Z"
	condition := func(kind string) string {
		return fmt.Sprintf(`{"type":%q,"status":"True","lastProbeTime":%q,"lastTransitionTime":%q}`, kind, at, at)
	}
	e.PatchStatus(jobKind, "migrate", fmt.Sprintf(`{"status":{"startTime":%q,"completionTime":%q,"succeeded":1,"conditions":[%s,%s]}}`, at, at,
		condition("SuccessCriteriaMet"), condition("Complete")))
}

// expire removes the Job as the controller of finished Jobs does.
func expire(e *Env) {
	e.T.Helper()
	e.Remove(jobKind, "migrate")
	e.Patch(jobKind, "migrate", `{"metadata":{"finalizers":null}}`) // no garbage collector removes it
	e.AwaitAbsent(jobKind, "migrate")
}

// stays requires that the Job is not created again, and that the set is healthy.
func stays(e *Env) {
	e.T.Helper()
	e.Set("later", e.ConfigMap("later", "1")) // when it is applied, the controller has processed all earlier events
	e.AwaitApplied("later", succeeded)
	e.Delete("later")
	e.AwaitGone("later")
	e.Expect(e.Live(jobKind, "migrate")).To(BeNil())
	e.Eventually(func() []string {
		mr := e.Get("mr")
		return []string{Condition(mr, "ResourcesApplied"), Condition(mr, "ResourcesHealthy"), Message(mr, "ResourcesHealthy")}
	}).WithTimeout(Patience).Should(HaveExactElements(succeeded, "True/ResourcesHealthy", Not(BeEmpty())))
}

func awaitJob(e *Env) *unstructured.Unstructured {
	e.T.Helper()
	var live *unstructured.Unstructured
	e.Eventually(func() bool {
		live = e.Live(jobKind, "migrate")
		return live != nil && live.GetDeletionTimestamp() == nil
	}).WithTimeout(Patience).Should(BeTrue(), func() string { return fmt.Sprint(e.Get("mr"), e.Events("mr"), live) })
	return live
}

func TestAJobThatHasExpiredRunsAgainOnlyOnRequest(t *testing.T) {
	e := withoutControllers(t)
	e.Set("mr", expiringJob(e, "one"), e.ConfigMap("c", "1"))
	before := e.AwaitApplied("mr", succeeded)

	t.Log("it is deleted before it has finished")
	first := awaitJob(e).GetUID()
	e.Remove(jobKind, "migrate")
	e.Patch(jobKind, "migrate", `{"metadata":{"finalizers":null}}`)
	e.Await(jobKind, "migrate", func(g Gomega, live *unstructured.Unstructured) { g.Expect(live.GetUID()).NotTo(Equal(first)) })

	t.Log("it expires")
	finish(e)
	expire(e)
	stays(e)
	e.Expect(e.Events("mr")).NotTo(ContainElement(ContainSubstring("Repairs of batch/v1 Job")))

	t.Log("another object of the set changes")
	e.Secret("mr", expiringJob(e, "one"), e.ConfigMap("c", "2"))
	before = e.AwaitChange(before)
	stays(e)

	t.Log("a plan is requested")
	changed(e, "mr", planned)
	awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.of("migrate").Action).To(Equal("unchanged")) })
	changed(e, "mr", applyNow)

	t.Log("the user requests a reconciliation")
	(&setTest{e}).operation("reconcile")
	awaitJob(e)

	t.Log("it expires while no controller runs")
	e.Stop()
	finish(e)
	expire(e)
	e.Start()
	stays(e)

	t.Log("its manifest changes")
	e.Secret("mr", expiringJob(e, "two"), e.ConfigMap("c", "2"))
	e.AwaitChange(before)
	e.Expect(awaitJob(e)).NotTo(BeNil())

	t.Log("it leaves the set")
	finish(e)
	expire(e)
	stays(e)
	e.Delete("mr")
	e.AwaitGone("mr")
	e.Set("mr", expiringJob(e, "two"))
	awaitJob(e)
}

func TestAnObjectWithoutOwnerIsNotCreatedAgainAndAgain(t *testing.T) {
	e := withoutControllers(t)
	owner := e.Create(e.ConfigMap("owner", "1"))
	owned := func(uid string) string {
		return e.ConfigMap("c", "1", fmt.Sprintf("ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %q}]", uid))
	}
	e.Set("mr", owned(string(owner.GetUID())), e.ConfigMap("other", "1"))
	e.AwaitApplied("mr", succeeded)
	e.Remove(configMapKind, "c")
	e.Await(configMapKind, "c", func(Gomega, *unstructured.Unstructured) {}) // its owner exists

	e.Remove(configMapKind, "owner")
	e.Remove(configMapKind, "c") // as the garbage collector of Kubernetes does
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(Message(mr, "ResourcesApplied")).To(ContainSubstring(e.Fill(`its owner "v1/ConfigMap/$NS/owner" (uid "` + string(owner.GetUID()) +
		`") does not exist`)))
	e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).
		Should(ContainElement(And(HavePrefix("DriftRepairPaused: "), ContainSubstring("owner"))))
	e.Expect(e.LiveConfigMap("c")).To(BeNil())
	e.Edit("other", `{"data":{"key":"2"}}`)
	e.AwaitData("other", "1")

	another := e.Create(e.ConfigMap("owner", "2"))
	e.Secret("mr", owned(string(another.GetUID())), e.ConfigMap("other", "1"))
	e.AwaitApplied("mr", succeeded)
	e.Expect(strings.Contains(fmt.Sprint(e.LiveConfigMap("c").OwnerReferences), string(another.GetUID()))).To(BeTrue())
}
