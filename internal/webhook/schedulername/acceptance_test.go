package schedulername_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/webhook/podtest"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func served(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "podSchedulerName: {enabled: true, schedulerName: bin-packing-scheduler}"})
}

// scheduler creates a Pod that asks for a scheduler, and returns which one it got.
func scheduler(e *webhooktest.Env, name string) string {
	e.T.Helper()
	return podtest.Create(e, `{spec: {schedulerName: `+name+`, containers: [{name: main, image: i}]}}`).Spec.SchedulerName
}

func TestAcceptance12_1AnotherSchedulerIsKept(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(scheduler(e, "bar-scheduler")).To(Equal("bar-scheduler"))
}

// TestAcceptance12_2NoScheduler asks the server itself too: API servers send the default.
func TestAcceptance12_2NoScheduler(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(scheduler(e, `""`)).To(Equal("bin-packing-scheduler"))
	answer := e.Review("/webhooks/default-pod-scheduler-name", `{kind: {version: v1, kind: Pod}, operation: CREATE, namespace: $NS, object: {spec: {schedulerName: ""}}}`)
	e.Expect(answer.Allowed).To(BeTrue())
	e.Expect(answer.Patch).To(MatchJSON(`[{"op": "add", "path": "/spec/schedulerName", "value": "bin-packing-scheduler"}]`))
}

func TestAcceptance12_3TheDefaultSchedulerIsReplaced(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(scheduler(e, "default-scheduler")).To(Equal("bin-packing-scheduler"))
}

func TestAcceptance12_4PodsAreCreatedWithoutTheServer(t *testing.T) {
	t.Parallel()
	e := served(t)
	e.Expect(scheduler(e, "default-scheduler")).To(Equal("bin-packing-scheduler"))
	e.Stop()
	e.Expect(scheduler(e, "default-scheduler")).To(Equal("default-scheduler"))
}
