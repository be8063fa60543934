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

// Sets with workloads must not fail because the API server briefly refuses to watch autoscalers.
func TestObservedAutoscalersApplyDuringABriefRefusal(t *testing.T) {
	g := NewWithT(t)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	s := newScalingWatch(&AutoscalerOptions{Log: logr.Discard(), Clock: clk})
	answer := func(err error) { s.onAccessChange(s.access.recordAnswer(true, err), err) }
	g.Expect(s.unknownReason()).To(MatchError("the API server has not listed them yet"))
	answer(nil)
	s.targets.Replace(nil, "1")
	answer(forbidden)
	clk.Step(9 * time.Second)
	answer(forbidden)
	g.Expect(s.unknownReason()).To(Succeed())
	clk.Step(time.Second)
	answer(forbidden)
	g.Expect(s.unknownReason()).To(MatchError(forbidden))
	s.targets.Replace(nil, "2")
	answer(nil)
	g.Expect(s.unknownReason()).To(Succeed())
}

// failingDiscovery is a mapper whose requests for the served kinds fail.
type failingDiscovery struct{ meta.RESTMapper }

var errDiscovery = errors.New("discovery has failed")

func (failingDiscovery) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errDiscovery
}

// While it is unknown whether Hvpas are served, a set must not be applied as if no autoscaler scaled its workloads.
func TestFailedDiscoveryOfHvpasIsAnError(t *testing.T) {
	a := &Autoscalers{options: AutoscalerOptions{Mapper: failingDiscovery{}}}
	NewWithT(t).Expect(a.Ensure(t.Context())).To(MatchError(errDiscovery))
}
