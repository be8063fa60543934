package approver

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/config"
)

func perMinute(requests int, maxDelay time.Duration) config.EspalierCSRRateLimit {
	return config.EspalierCSRRateLimit{
		Requests: requests, Period: &metav1.Duration{Duration: time.Minute}, MaxDelay: &metav1.Duration{Duration: maxDelay},
	}
}

func TestAsk(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakeClock(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	q := &Quota{Limit: perMinute(2, time.Minute), Clock: clock}

	g.Expect(q.ask("1", "id", "flood")).To(Equal(answer{}))
	g.Expect(q.ask("2", "id", "flood")).To(Equal(answer{}), "a full share at once")
	g.Expect(q.ask("3", "id", "flood")).To(Equal(answer{wait: 30 * time.Second}))
	g.Expect(q.ask("4", "id", "flood")).To(Equal(answer{wait: time.Minute}))
	g.Expect(q.ask("5", "id", "flood")).To(Equal(answer{refused: true, news: true}), "it would be too late")
	g.Expect(q.ask("5", "id", "flood")).To(Equal(answer{refused: true}))
	g.Expect(q.ask("6", "id", "modest")).To(Equal(answer{}), "others have their own share")

	clock.Step(10 * time.Second)
	g.Expect(q.ask("3", "id", "flood")).To(Equal(answer{wait: 20 * time.Second}), "to ask again does not count again")
	g.Expect(q.ask("1", "id", "flood")).To(Equal(answer{}))
	clock.Step(20 * time.Second)
	g.Expect(q.ask("3", "id", "flood")).To(Equal(answer{}))
	g.Expect(q.ask("5", "id", "flood")).To(Equal(answer{refused: true}), "what is refused stays so")
	g.Expect(q.ask("7", "id", "flood")).To(Equal(answer{wait: time.Minute}), "refusals take no turn from others")

	clock.Step(10 * time.Minute)
	g.Expect(q.ask("8", "id", "flood")).To(Equal(answer{}))
	g.Expect(q.ask("9", "id", "flood")).To(Equal(answer{}))
	g.Expect(q.ask("10", "id", "flood")).To(Equal(answer{wait: 30 * time.Second}), "shares do not add up")
}

func TestNoDelayMeansRefusal(t *testing.T) {
	g := NewWithT(t)
	q := &Quota{Limit: perMinute(1, 0), Clock: testclock.NewFakeClock(time.Unix(1, 0))}
	g.Expect(q.ask("1", "id", "u")).To(Equal(answer{}))
	g.Expect(q.ask("2", "id", "u")).To(Equal(answer{refused: true, news: true}))
	q.forget("2")
	g.Expect(q.ask("2", "id", "u")).To(Equal(answer{refused: true, news: true}), "the name again, of another one")
}

func TestUsersWithAFullQuotaAreForgotten(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakeClock(time.Unix(1, 0))
	q := &Quota{Limit: perMinute(1, time.Hour), Clock: clock}
	for i := range 100 {
		name := strconv.Itoa(i)
		q.ask(name, "id", name)
		q.forget(name)
	}
	q.ask("x", "id", "busy")
	q.ask("y", "id", "busy")
	g.Expect(q.users).To(HaveLen(101))
	clock.Step(time.Minute)
	q.ask("z", "id", "new")
	g.Expect(q.users).To(HaveLen(2), "a busy user has no full quota yet")
	g.Expect(q.turns).To(HaveLen(3))
}

func TestAnotherOfTheSameNameHasATurnOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	q := &Quota{Limit: perMinute(1, time.Minute), Clock: testclock.NewFakeClock(time.Unix(1, 0))}
	g.Expect(q.ask("1", "first", "u")).To(Equal(answer{}))
	g.Expect(q.ask("1", "second", "u")).To(Equal(answer{wait: time.Minute}))
	g.Expect(q.ask("1", "third", "u")).To(Equal(answer{refused: true, news: true}))
	g.Expect(q.ask("1", "third", "u")).To(Equal(answer{refused: true}))
	g.Expect(q.turns).To(HaveLen(1))
}
