package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestRepairsOfAPolicyPause(t *testing.T) {
	type step struct {
		second      int
		fingerprint string
		own         bool // no other client has written before
	}
	deletions := func(seconds ...int) []step {
		var steps []step
		for _, second := range seconds {
			steps = append(steps, step{second: second, fingerprint: gone})
		}
		return steps
	}
	for name, tc := range map[string]struct {
		steps []step
		pause time.Duration
	}{
		"two repairs cause no pause":                      {steps: deletions(0, 1)},
		"the third repair within a minute does":           {steps: deletions(0, 30, 59), pause: 10 * time.Second},
		"the next pause is longer":                        {steps: deletions(0, 1, 2, 20, 21, 22), pause: 20 * time.Second},
		"changes of the controller itself are no repairs": {steps: []step{{0, gone, true}, {1, gone, true}, {2, gone, true}}},
		"repairs must restore the same state each time":   {steps: []step{{0, gone, false}, {1, gone, false}, {2, "y", false}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, passive := NewWithT(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			repairs := NewRepairs(passive)
			for _, each := range tc.steps {
				passive.SetTime(time.Unix(1000+int64(each.second), 0))
				if !each.own {
					repairs.disturbed(named("p"))
				}
				repairs.wrote(named("p"), each.fingerprint)
			}
			deletion := change{action: actionDelete, policy: named("p")}
			other := change{action: actionDelete, policy: named("q")}
			rest, paused := repairs.split([]change{deletion, other})
			if tc.pause == 0 {
				g.Expect(rest).To(Equal([]change{deletion, other}))
				g.Expect(paused).To(BeEmpty())
				return
			}
			g.Expect(rest).To(Equal([]change{other}))
			g.Expect(paused).To(Equal([]pausedRepair{{policy: named("p"), remaining: tc.pause, pause: tc.pause}}))
			passive.SetTime(passive.Now().Add(tc.pause))
			rest, _ = repairs.split([]change{deletion, other})
			g.Expect(rest).To(Equal([]change{deletion, other}))
		})
	}
}

// A pause must not delay the removal of access.
func TestAnotherChangeIsMadeDuringAPause(t *testing.T) {
	g, repairs := NewWithT(t), NewRepairs(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	create := change{action: actionCreate, policy: named("a"), want: policyCalled("a")}
	for range 3 {
		repairs.disturbed(named("a"))
		repairs.wrote(named("a"), create.fingerprint())
	}
	deletion := change{action: actionDelete, policy: named("a")}
	rest, paused := repairs.split([]change{create, deletion})
	g.Expect(rest).To(Equal([]change{deletion}))
	g.Expect(paused).To(HaveLen(1))
	g.Expect(paused[0].String()).
		To(Equal("Repairs of NetworkPolicy ns/a pause for 10s, since another client changes or deletes it again and again: find this client " +
			"in its managedFields or the audit log, and stop it"))
}

func TestOldRecordsOfRepairsAreDropped(t *testing.T) {
	g, passive := NewWithT(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	repairs := NewRepairs(passive)
	repairs.disturbed(named("a"))
	passive.SetTime(time.Unix(2000, 0))
	repairs.disturbed(named("b"))
	g.Expect(repairs.policies).To(HaveLen(1))
	g.Expect(repairs.policies).To(HaveKey(named("b")))
}
