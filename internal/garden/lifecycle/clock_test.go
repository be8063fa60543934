package lifecycle_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
)

func TestNothingIsIssuedWhileClocksDiffer(t *testing.T) {
	s := newScene(t)
	s.create()
	differs := func(by time.Duration) {
		s.reconciler.ServerTime = func(context.Context) (time.Time, error) { return s.clock.Now().Add(by), nil }
	}
	condition := func(reason string) gomegatypes.GomegaMatcher {
		return ContainElement(And(
			HaveField("Type", BeEquivalentTo("ClocksDiffer")), HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", reason),
			HaveField("Message", ContainSubstring("Correct the clocks of the nodes.")),
		))
	}

	differs(61 * time.Second)
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("The clock of the operator is behind the clock of the API server")))
	s.Expect(s.get().Status.Conditions).To(condition("ClockBehind"))
	s.Expect(s.secrets("")).To(BeEmpty())

	differs(time.Minute)
	s.mustReconcile()
	s.Expect(s.get().Status.Conditions).NotTo(ContainElement(HaveField("Type", BeEquivalentTo("ClocksDiffer"))))
	issued := s.secrets("")

	differs(-62 * time.Second)
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-start"))
	s.mustReconcile()
	s.Expect(s.get().Status.Conditions).To(condition("ClockAhead"))
	s.Expect(s.get().Status.Credentials.Rotation).To(BeNil())
	s.event(And(ContainSubstring("OperationRefused"), ContainSubstring("is ahead")))
	s.Expect(s.secrets("")).To(Equal(issued))

	s.reconciler.ServerTime = func(context.Context) (time.Time, error) { return time.Time{}, nil }
	s.mustReconcile()
	s.Expect(s.get().Status.Conditions).NotTo(ContainElement(HaveField("Type", BeEquivalentTo("ClocksDiffer"))))
}

func TestAuthorityThatIsNotValidYetIsNamed(t *testing.T) {
	s := newScene(t)
	s.create()
	s.clock.SetTime(start.Add(24 * time.Hour))
	s.mustReconcile()
	authority := s.secrets("ca")
	s.clock.SetTime(start)
	s.mustReconcile()
	s.Expect(s.recorder.Events).To(Receive(And(
		ContainSubstring("AuthorityNotYetValid"), HaveSuffix("rotate them: ca, ca-client, ca-etcd, ca-etcd-peer, ca-front-proxy, ca-gardener"),
	)))
	s.Expect(s.secrets("ca")).To(Equal(authority))
}
