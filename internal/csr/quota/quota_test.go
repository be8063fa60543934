package quota

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"
)

func TestAsk(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakeClock(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	q := &Quota{Requests: 2, Period: time.Minute, MaxDelay: time.Minute, Clock: clock}

	g.Expect(q.Ask("1", "id", "flood")).To(Equal(Answer{}))
	g.Expect(q.Ask("2", "id", "flood")).To(Equal(Answer{}), "a full share at once")
	g.Expect(q.Ask("3", "id", "flood")).To(Equal(Answer{Wait: 30 * time.Second}))
	g.Expect(q.Ask("4", "id", "flood")).To(Equal(Answer{Wait: time.Minute}))
	g.Expect(q.Ask("5", "id", "flood")).To(Equal(Answer{Refused: true, News: true}), "it would be too late")
	g.Expect(q.Ask("5", "id", "flood")).To(Equal(Answer{Refused: true}))
	g.Expect(q.Ask("6", "id", "modest")).To(Equal(Answer{}), "others have their own share")

	clock.Step(10 * time.Second)
	g.Expect(q.Ask("3", "id", "flood")).To(Equal(Answer{Wait: 20 * time.Second}), "to ask again does not count again")
	g.Expect(q.Ask("1", "id", "flood")).To(Equal(Answer{}))
	clock.Step(20 * time.Second)
	g.Expect(q.Ask("3", "id", "flood")).To(Equal(Answer{}))
	g.Expect(q.Ask("5", "id", "flood")).To(Equal(Answer{Refused: true}), "what is refused stays so")
	g.Expect(q.Ask("7", "id", "flood")).To(Equal(Answer{Wait: time.Minute}), "refusals take no turn from others")

	clock.Step(10 * time.Minute)
	g.Expect(q.Ask("8", "id", "flood")).To(Equal(Answer{}))
	g.Expect(q.Ask("9", "id", "flood")).To(Equal(Answer{}))
	g.Expect(q.Ask("10", "id", "flood")).To(Equal(Answer{Wait: 30 * time.Second}), "shares do not add up")
}

func TestNoDelayMeansRefusal(t *testing.T) {
	g := NewWithT(t)
	q := &Quota{Requests: 1, Period: time.Minute, Clock: testclock.NewFakeClock(time.Unix(1, 0))}
	g.Expect(q.Ask("1", "id", "u")).To(Equal(Answer{}))
	g.Expect(q.Ask("2", "id", "u")).To(Equal(Answer{Refused: true, News: true}))
	q.Forget("2")
	g.Expect(q.Ask("2", "id", "u")).To(Equal(Answer{Refused: true, News: true}), "the name again, of another one")
}

func TestUsersWithAFullQuotaAreForgotten(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakeClock(time.Unix(1, 0))
	q := &Quota{Requests: 1, Period: time.Minute, MaxDelay: time.Hour, Clock: clock}
	for i := range 100 {
		name := strconv.Itoa(i)
		q.Ask(name, "id", name)
		q.Forget(name)
	}
	q.Ask("x", "id", "busy")
	q.Ask("y", "id", "busy")
	g.Expect(q.users).To(HaveLen(101))
	clock.Step(time.Minute)
	q.Ask("z", "id", "new")
	g.Expect(q.users).To(HaveLen(2), "a busy user has no full quota yet")
	g.Expect(q.turns).To(HaveLen(3))
}

func TestAnotherOfTheSameNameHasATurnOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	q := &Quota{Requests: 1, Period: time.Minute, MaxDelay: time.Minute, Clock: testclock.NewFakeClock(time.Unix(1, 0))}
	g.Expect(q.Ask("1", "first", "u")).To(Equal(Answer{}))
	g.Expect(q.Ask("1", "second", "u")).To(Equal(Answer{Wait: time.Minute}))
	g.Expect(q.Ask("1", "third", "u")).To(Equal(Answer{Refused: true, News: true}))
	g.Expect(q.Ask("1", "third", "u")).To(Equal(Answer{Refused: true}))
	g.Expect(q.turns).To(HaveLen(1))
}
