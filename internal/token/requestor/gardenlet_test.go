package requestor_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/binary"
)

// A gardenlet keeps the same tokens. The name of its Seed is in the namespace of the ServiceAccounts.
func TestTokensForTheGardenAreNotKeptBesideAGardenlet(t *testing.T) {
	s := newScene(t, binary.Options{
		TwoClusters: true, Stopped: true, Config: requestorEnabled + "espalier: {token: {class: garden, audiences: []}}\n",
	})
	s.Config.Espalier.Token.TargetNamespace = ptr.To("seed-" + s.Namespace)
	const leases = "gardener-system-seed-lease"
	s.Expect(s.Target.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: leases}})).
		To(Or(Succeed(), MatchError(ContainSubstring("already exists"))))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leases, Name: s.Namespace}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &s.Namespace, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NowMicro()),
	}}
	s.Expect(s.Target.Create(s.Ctx, lease)).To(Succeed())
	refusal := MatchError(And(
		HavePrefix("a gardenlet is running: lease gardener-system-seed-lease/"+s.Namespace), ContainSubstring("is renewed by"),
	))

	_, err := s.Connect(s.Ctx)
	s.Expect(err).To(refusal)
	s.Config.Espalier.Token.Class = ptr.To("shoot")
	_, err = s.Connect(s.Ctx)
	s.Expect(err).NotTo(HaveOccurred(), "a gardenlet does not keep tokens of another class")

	s.Config.Espalier.Token.Class = ptr.To("garden")
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(lease.Spec.RenewTime.Add(-time.Minute)))
	s.Expect(s.Target.Update(s.Ctx, lease)).To(Succeed())
	clusters, err := s.Connect(s.Ctx)
	s.Expect(err).NotTo(HaveOccurred(), "the gardenlet has ended")
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- clusters.Start(ctx) }()
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	s.Expect(s.Target.Update(s.Ctx, lease)).To(Succeed())
	s.Eventually(ended).Should(Receive(refusal), "a gardenlet has started")
}
