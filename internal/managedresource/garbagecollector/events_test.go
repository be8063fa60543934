package garbagecollector

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
)

func unusedSecrets(n int) []candidate {
	var unused []candidate
	for i := range n {
		name := fmt.Sprintf("s%03d", i)
		unused = append(unused, candidate{key: key{kind: "Secret", namespace: "shop", name: name}, uid: types.UID(name), created: noon})
	}
	return unused
}

// recorded returns the Events of a recorder.
func recorded(recorder *events.FakeRecorder) []string {
	var texts []string
	for len(recorder.Events) > 0 {
		texts = append(texts, <-recorder.Events)
	}
	return texts
}

func TestEventsNameAReason(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	e := &Events{Recorder: recorder}
	unused := unusedSecrets(1)[0]
	e.collected(unused, 0)
	e.found(unused)
	NewWithT(t).Expect(recorded(recorder)).To(Equal([]string{
		"Normal GarbageCollected Deleted: created at 2026-03-04T12:00:00Z, labelled as garbage-collectable, and no reference annotation on a " +
			"workload, ManagedResource or Prometheus in namespace \"shop\" names it",
		"Normal GarbageFound Would be deleted, but garbage collection only reports: created at 2026-03-04T12:00:00Z, labelled as " +
			"garbage-collectable, and no reference annotation on a workload, ManagedResource or Prometheus in namespace \"shop\" names it",
	}))
}

func TestEventsOfARunAreBounded(t *testing.T) {
	g, recorder := NewWithT(t), events.NewFakeRecorder(1000)
	e := &Events{Recorder: recorder}
	for i, each := range unusedSecrets(103) {
		e.collected(each, i)
	}
	g.Expect(recorded(recorder)).To(HaveLen(100))
}

func TestReportsAreSentOncePerObject(t *testing.T) {
	g, recorder := NewWithT(t), events.NewFakeRecorder(1000)
	c := &Collector{Events: &Events{Recorder: recorder}}
	unused := unusedSecrets(103)
	report := func(objects []candidate) int {
		c.report(t.Context(), objects)
		return len(recorded(recorder))
	}
	g.Expect(report(unused)).To(Equal(100), "as many as one run may tell")
	g.Expect(report(unused)).To(Equal(3), "the rest")
	g.Expect(report(unused)).To(Equal(0))
	g.Expect(report(unused[1:])).To(Equal(0))
	g.Expect(c.reported).To(HaveLen(102), "what is gone is forgotten")
	g.Expect(report(unused)).To(Equal(1), "unused again")
}
