package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestFights(t *testing.T) {
	type step struct {
		second      int
		fingerprint string
		own         bool // no other client has written before
	}
	repairs := func(seconds ...int) []step {
		var steps []step
		for _, second := range seconds {
			steps = append(steps, step{second: second, fingerprint: gone})
		}
		return steps
	}
	for name, tc := range map[string]struct {
		steps []step
		truce time.Duration
	}{
		"two repairs are no fight":                    {steps: repairs(0, 1)},
		"the third within a minute is":                {steps: repairs(0, 30, 59), truce: 10 * time.Second},
		"the third after a minute is not":             {steps: repairs(0, 30, 60)},
		"the next truce is longer":                    {steps: repairs(0, 1, 2, 20, 21, 22), truce: 20 * time.Second},
		"it grows to five minutes":                    {steps: repairs(0, 1, 2, 20, 21, 22, 50, 51, 52, 100, 101, 102, 200, 201, 202, 400, 401, 402, 800, 801, 802), truce: 5 * time.Minute},
		"after long peace it begins anew":             {steps: repairs(0, 1, 2, 20, 21, 22, 700, 701, 702), truce: 10 * time.Second},
		"changes of one's own are no repairs":         {steps: []step{{0, gone, true}, {1, gone, true}, {2, gone, true}}},
		"what is restored must be the same each time": {steps: []step{{0, gone, false}, {1, gone, false}, {2, "y", false}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, passive := NewWithT(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			fights := NewFights(passive)
			for _, each := range tc.steps {
				passive.SetTime(time.Unix(1000+int64(each.second), 0))
				if !each.own {
					fights.disturbed(named("p"))
				}
				fights.wrote(named("p"), each.fingerprint)
			}
			deletion := change{action: actionDelete, policy: named("p")}
			other := change{action: actionDelete, policy: named("q")}
			rest, truces := fights.hold([]change{deletion, other})
			if tc.truce == 0 {
				g.Expect(rest).To(Equal([]change{deletion, other}))
				g.Expect(truces).To(BeEmpty())
				return
			}
			g.Expect(rest).To(Equal([]change{other}))
			g.Expect(truces).To(Equal([]truce{{policy: named("p"), rest: tc.truce, whole: tc.truce}}))
			passive.SetTime(passive.Now().Add(tc.truce))
			rest, _ = fights.hold([]change{deletion, other})
			g.Expect(rest).To(Equal([]change{deletion, other}))
		})
	}
}

// A truce must not delay the removal of access.
func TestAnotherWishIsCarriedOutDuringATruce(t *testing.T) {
	g, fights := NewWithT(t), NewFights(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	create := change{action: actionCreate, policy: named("a"), want: policyCalled("a")}
	for range 3 {
		fights.disturbed(named("a"))
		fights.wrote(named("a"), create.fingerprint())
	}
	deletion := change{action: actionDelete, policy: named("a")}
	rest, truces := fights.hold([]change{create, deletion})
	g.Expect(rest).To(Equal([]change{deletion}))
	g.Expect(truces).To(HaveLen(1))
	g.Expect(truces[0].String()).To(Equal("Repairs of NetworkPolicy ns/a pause for 10s, since another client changes or deletes it again and again: find this client in its managedFields or the audit log, and stop it"))
}

func TestOldFightsAreForgotten(t *testing.T) {
	g, passive := NewWithT(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	fights := NewFights(passive)
	fights.disturbed(named("a"))
	passive.SetTime(time.Unix(2000, 0))
	fights.disturbed(named("b"))
	g.Expect(fights.policies).To(HaveLen(1))
	g.Expect(fights.policies).To(HaveKey(named("b")))
}
