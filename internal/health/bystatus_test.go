package health_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/health"
)

// reported returns examples of objects whose kind has no rule, with their verdicts.
func reported() map[string]judged {
	const (
		custom      = "apiVersion: shop.example.com/v1\nkind: Oven\n"
		claim       = "apiVersion: v1\nkind: PersistentVolumeClaim\n"
		reconciling = "{type: Reconciling, status: 'True', reason: Heating, message: 100 degrees}"
		stalled     = "{type: Stalled, status: 'True', reason: NoPower, message: pull the switch}"
		ready       = "{type: Ready, status: 'True'}"
		cold        = "{type: Ready, status: 'False', reason: Cold, message: not lit}"

		heats = `condition "Reconciling" has invalid status True (expected False) due to Heating: 100 degrees`
		dead  = `condition "Stalled" has invalid status True (expected False) due to NoPower: pull the switch`
	)
	return map[string]judged{
		"says nothing":  healthy(custom),
		"knows no kind": healthy("metadata: {name: x}"),
		"ready": healthy(custom + "metadata: {generation: 2}\nstatus: {observedGeneration: 2, conditions: [" +
			ready + "]}"),
		"does not say what it has looked at": healthy(custom + "metadata: {generation: 2}"),
		"has no generation":                  healthy(custom + "status: {observedGeneration: 2}"),
		"has not looked yet": unobserved(both("observed generation outdated (0/1)",
			custom+"metadata: {generation: 1}\nstatus: {observedGeneration: 0, conditions: ["+ready+"]}")),
		"has looked at what is not there": unobserved(both("observed generation outdated (3/2)",
			custom+"metadata: {generation: 2}\nstatus: {observedGeneration: 3}")),
		"reconciles": both(heats, custom+"status: {conditions: ["+ready+", "+reconciling+"]}"),
		"has reconciled": healthy(custom +
			"status: {conditions: [{type: Reconciling, status: 'False'}, {type: Stalled, status: Unknown}]}"),
		"is stalled":       unhealthy(dead, custom+"status: {conditions: ["+cold+", "+stalled+"]}"),
		"reconciles first": both(heats, custom+"status: {conditions: ["+reconciling+", "+stalled+"]}"),
		"is stalled first": unhealthy(dead, custom+"status: {conditions: ["+stalled+", "+reconciling+"]}"),
		"is not ready": both(`condition "Ready" has invalid status False (expected True) due to Cold: not lit`,
			custom+"status: {conditions: ["+cold+"]}"),
		"does not know whether ready": both(`condition "Ready" has invalid status Unknown (expected True) due to : `,
			custom+"status: {conditions: [{type: Ready, status: Unknown}]}"),
		"has a status of its own for ready": healthy(custom + "status: {conditions: [{type: Ready, status: Maybe}]}"),
		"is ready, once it can be understood": both(`condition "Ready" has invalid status False (expected True) due to Cold: not lit`,
			custom+"status: {conditions: [{type: Ready, status: Maybe}, "+cold+"]}"),
		"has conditions of its own": healthy(custom + "status: {conditions: [{type: Baked, status: 'False'}]}"),
		"is being deleted": unhealthy("object is being deleted",
			custom+"metadata: {generation: 2, deletionTimestamp: '2026-03-01T12:00:00Z'}\nstatus: {observedGeneration: 1}"),
		"is left out of the checks": unchecked(custom + skip + "status: {conditions: [" + cold + "]}"),
		"conditions are no list": failed("read fields: cannot restore "+
			"slice from map", custom+"status: {conditions: {Ready: true}}"),
		"status is no struct":                  failed("read fields: cannot restore struct from: string", custom+"status: fine"),
		"claim is bound":                       healthy(claim + "status: {phase: Bound, conditions: [" + cold + "]}"),
		"claim waits":                          both(`phase is "Pending" (expected "Bound")`, claim+"status: {phase: Pending}"),
		"claim is new":                         both(`phase is "" (expected "Bound")`, claim),
		"has a phase, but is no claim":         healthy(custom + "status: {phase: Pending}"),
		"bears a claim's kind, but of its own": healthy("apiVersion: shop.example.com/v1\nkind: PersistentVolumeClaim\n"),
		"has a phase that is no text":          healthy(custom + "status: {phase: {name: hot}}"),
		"claim with a phase that is no text":   both(`phase is "" (expected "Bound")`, claim+"status: {phase: 3}"),
	}
}

func TestJudgeByStatus(t *testing.T) {
	for name, tc := range reported() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(health.JudgeByStatus(read(g, tc.object))).To(Equal(tc.want))
		})
	}
}
