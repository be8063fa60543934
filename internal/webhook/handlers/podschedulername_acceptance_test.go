package handlers_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func schedulerServed(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "podSchedulerName: {enabled: true, schedulerName: bin-packing-scheduler}"})
}

// schedulerScheduler creates a Pod that names a scheduler, and returns the scheduler of the stored Pod.
func schedulerScheduler(e *webhooktest.Env, name string) string {
	e.T.Helper()
	return e.CreatePod(`{spec: {schedulerName: ` + name + `, containers: [{name: main, image: i}]}}`).Spec.SchedulerName
}

func TestAnotherSchedulerIsKept(t *testing.T) {
	t.Parallel()
	e := schedulerServed(t)
	e.Expect(schedulerScheduler(e, "bar-scheduler")).To(Equal("bar-scheduler"))
}

// TestPodWithoutSchedulerGetsTheConfiguredOne also posts a Pod without scheduler to the server, because API servers send the default one.
func TestPodWithoutSchedulerGetsTheConfiguredOne(t *testing.T) {
	t.Parallel()
	e := schedulerServed(t)
	e.Expect(schedulerScheduler(e, `""`)).To(Equal("bin-packing-scheduler"))
	answer := e.Review("/webhooks/default-pod-scheduler-name",
		`{kind: {version: v1, kind: Pod}, operation: CREATE, namespace: $NS, object: {spec: {schedulerName: ""}}}`)
	e.Expect(answer.Allowed).To(BeTrue())
	e.Expect(answer.Patch).To(MatchJSON(`[{"op": "add", "path": "/spec/schedulerName", "value": "bin-packing-scheduler"}]`))
}

func TestDefaultSchedulerIsReplaced(t *testing.T) {
	t.Parallel()
	e := schedulerServed(t)
	e.Expect(schedulerScheduler(e, "default-scheduler")).To(Equal("bin-packing-scheduler"))
}

func TestPodsAreCreatedWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	e := schedulerServed(t)
	e.Expect(schedulerScheduler(e, "default-scheduler")).To(Equal("bin-packing-scheduler"))
	e.Stop()
	e.Expect(schedulerScheduler(e, "default-scheduler")).To(Equal("default-scheduler"))
}
