package observe

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// Sets with workloads must not fail because autoscalers cannot be watched for a moment.
func TestAutoscalersThatWereSeenCountWhileTheyAreRefusedForAMoment(t *testing.T) {
	g := NewWithT(t)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	s := &scalingStore{options: &AutoscalerOptions{Log: logr.Discard()}, synced: make(chan struct{}), admission: newAdmission(clk)}
	answer := func(err error) { s.turned(s.admission.answered(true, err), err) }
	g.Expect(s.ready()).To(MatchError("the API server has not listed them yet"))
	answer(nil)
	g.Expect(s.Replace(nil, "1")).To(Succeed())
	answer(forbidden)
	clk.Step(9 * time.Second)
	answer(forbidden)
	g.Expect(s.ready()).To(Succeed())
	clk.Step(time.Second)
	answer(forbidden)
	g.Expect(s.ready()).To(MatchError(forbidden))
	g.Expect(s.Replace(nil, "2")).To(Succeed())
	answer(nil)
	g.Expect(s.ready()).To(Succeed())
}

// failingDiscovery cannot tell which kinds are served.
type failingDiscovery struct{ meta.RESTMapper }

var errDiscovery = errors.New("discovery has failed")

func (failingDiscovery) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errDiscovery
}

// A set must not be applied as if nothing scaled its workloads while it is not known whether Hvpas are served.
func TestFailedDiscoveryOfHvpasIsNotTakenForUnused(t *testing.T) {
	a := &Autoscalers{options: AutoscalerOptions{Mapper: failingDiscovery{}}}
	NewWithT(t).Expect(a.Ensure(t.Context())).To(MatchError(errDiscovery))
}
