package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusing fails each creation with an error that has the policy's name.
type refusing struct{ client.Writer }

func (refusing) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return errors.New(object.GetName() + " is refused")
}

func writing(slots int) *Reconciler {
	passive := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return &Reconciler{
		Writer: refusing{}, Writes: NewWrites(passive), Repairs: NewRepairs(passive), Slots: make(chan struct{}, slots),
		Metrics: NewMetrics(prometheus.NewRegistry(), &Reported{}, false),
	}
}

func creations(names ...string) []change {
	var changes []change
	for _, name := range names {
		changes = append(changes, change{action: actionCreate, policy: named(name), want: policyCalled(name)})
	}
	return changes
}

func texts(failures []error) []string {
	var texts []string
	for _, each := range failures {
		texts = append(texts, each.Error())
	}
	return texts
}

func TestWaitingForASlotEndsWithTheContext(t *testing.T) {
	r := writing(1)
	r.Slots <- struct{}{} // a request that never ends
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	NewWithT(t).Expect(texts(r.write(ctx, named("s"), creations("a", "b")).failures)).To(Equal([]string{
		"create NetworkPolicy ns/a: wait for other requests: too late",
	}))
}

func TestFailuresAreSorted(t *testing.T) {
	NewWithT(t).Expect(texts(writing(1).write(t.Context(), named("s"), creations("c", "a", "b")).failures)).To(Equal([]string{
		"create NetworkPolicy ns/a: a is refused", "create NetworkPolicy ns/b: b is refused", "create NetworkPolicy ns/c: c is refused",
	}))
}

func TestTheNumberOfFailuresIsNoNews(t *testing.T) {
	g, recorder := NewWithT(t), events.NewFakeRecorder(10)
	e := &Events{Recorder: recorder, Reported: &Reported{}}
	f := &facts{key: named("s"), service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}}
	first := errors.New("a is refused")
	e.failures(f, []error{first, errors.New("b is refused")})
	g.Expect(recorder.Events).
		To(Receive(Equal("Warning PolicyChangeFailed NetworkPolicies could not be changed and are tried again: a is refused")))
	e.failures(f, []error{first})
	g.Expect(recorder.Events).NotTo(Receive())
}
