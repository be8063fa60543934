package managedresource

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestLivesBeginOneAfterTheOther(t *testing.T) {
	g := NewWithT(t)
	lives := map[int][]life{}
	there := map[int]bool{}
	fewest, most := 100, 0
	for n := range 8 * 12 * 4 {
		set, next := lifeOf(n, 12)
		lives[set] = append(lives[set], next)
		if next == created {
			g.Expect(there[set]).To(BeFalse(), "set %d is created when it is not there", set)
			there[set] = true
		}
		if next == changed || next == changedBack || next == deleted {
			g.Expect(there[set]).To(BeTrue(), "set %d is there", set)
			there[set] = next != deleted
		}
		if n >= 4*12 {
			number := 0
			for _, is := range there {
				if is {
					number++
				}
			}
			fewest, most = min(fewest, number), max(most, number)
		}
	}
	g.Expect(lives[0][:5]).To(Equal([]life{created, changed, changedBack, deleted, created}))
	g.Expect(lives[7][:5]).To(Equal([]life{notYet, notYet, notYet, created, changed}))
	g.Expect([]int{fewest, most}).To(Equal([]int{8, 10}))
}

func TestAnActorGoesOnUntilTheEnd(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	a := &actor{name: "things done", every: time.Nanosecond, act: func(_ context.Context, n int) error {
		if n == 3 {
			cancel()
			return errors.New("interrupted")
		}
		return nil
	}}
	g.Expect(a.run(ctx)).To(Succeed())
	g.Expect(a.count).To(Equal(3))

	a.act = func(context.Context, int) error { return errors.New("refused") }
	g.Expect(a.run(t.Context())).To(MatchError("things done: refused"))
}

func TestPassingKinds(t *testing.T) {
	g := NewWithT(t)
	kind := passingKind(3)
	g.Expect(kind.definition().GetName()).To(Equal("things3.soak.example.com"))
	for _, i := range kind.items() {
		g.Expect(i.resource.String()).To(Equal("soak.example.com/v1, Resource=things3"))
		g.Expect(i.object.GetAPIVersion() + " " + i.object.GetKind()).To(Equal("soak.example.com/v1 Thing3"))
	}
}
