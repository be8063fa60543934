package gardenlet

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func lease(namespace, name, holder string, renewed time.Time, seconds int32) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, RenewTime: ptr.To(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: &seconds,
	}}
}

func leader(renewed time.Time) *coordinationv1.Lease {
	return lease("garden", "gardenlet-leader-election", "gardenlet-1", renewed, 15)
}

func ofSeed(renewed time.Time) *coordinationv1.Lease {
	return lease("gardener-system-seed-lease", "cellar", "cellar", renewed, 40)
}

func guard(seed, garden client.Reader) *Guard {
	return &Guard{Seed: seed, Garden: garden, SeedName: "cellar", Clock: testingclock.NewFakeClock(now), Log: logr.Discard()}
}

func cluster(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
}

func TestCheck(t *testing.T) {
	const leaderRuns = `a gardenlet is running: lease garden/gardenlet-leader-election (its leader election) is renewed by "gardenlet-1"; ` +
		"stop this gardenlet first, because two programs must not do its work"
	const seedRuns = `a gardenlet is running: lease gardener-system-seed-lease/cellar (the lease of Seed cellar) is renewed by "cellar"; ` +
		"stop this gardenlet first, because two programs must not do its work"
	released := leader(now)
	released.Spec.HolderIdentity = ptr.To("")
	never := leader(now)
	never.Spec.RenewTime = nil
	endless := ofSeed(now.Add(-39 * time.Second))
	endless.Spec.LeaseDurationSeconds = nil
	other := lease("gardener-system-seed-lease", "attic", "attic", now, 40)
	for name, tc := range map[string]struct {
		seed, garden []client.Object
		want         string
	}{
		"no lease":                                      {},
		"a leader":                                      {seed: []client.Object{leader(now.Add(-14 * time.Second))}, want: leaderRuns},
		"a leader that has died":                        {seed: []client.Object{leader(now.Add(-15 * time.Second))}},
		"a leader that has released its lease":          {seed: []client.Object{released}},
		"a lease that was never renewed":                {seed: []client.Object{never}},
		"a Seed that is alive":                          {garden: []client.Object{ofSeed(now.Add(-39 * time.Second))}, want: seedRuns},
		"a Seed that is dead":                           {garden: []client.Object{ofSeed(now.Add(-40 * time.Second))}},
		"a Seed whose lease has no duration":            {garden: []client.Object{endless}, want: seedRuns},
		"another Seed that is alive":                    {garden: []client.Object{other}},
		"the lease of a Seed in the Seed's own cluster": {seed: []client.Object{ofSeed(now)}},
	} {
		t.Run(name, func(t *testing.T) {
			err := guard(cluster(tc.seed...), cluster(tc.garden...)).Check(t.Context())
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(tc.want))
			}
		})
	}
}

func TestWithoutTheNameOfASeedOnlyTheLeaderIsChecked(t *testing.T) {
	g := guard(cluster(), cluster(ofSeed(now)))
	g.SeedName = ""
	NewWithT(t).Expect(g.Check(t.Context())).To(Succeed())
	g = guard(cluster(), nil)
	g.Garden = nil
	NewWithT(t).Expect(g.Check(t.Context())).To(Succeed())
}

// The clock of this machine may be minutes ahead of the clock of the gardenlet.
func TestARenewalBetweenTwoChecksIsSeenWithAWrongClock(t *testing.T) {
	g := NewWithT(t)
	seed := cluster(leader(now.Add(-time.Hour)))
	guarded := guard(seed, cluster())
	g.Expect(guarded.Check(t.Context())).To(Succeed())
	g.Expect(guarded.Check(t.Context())).To(Succeed())
	g.Expect(seed.Update(t.Context(), withVersionOf(t, seed, leader(now.Add(2*time.Second-time.Hour))))).To(Succeed())
	g.Expect(guarded.Check(t.Context())).To(MatchError(ContainSubstring("a gardenlet is running")))
}

func withVersionOf(t *testing.T, c client.Client, object *coordinationv1.Lease) *coordinationv1.Lease {
	t.Helper()
	found := &coordinationv1.Lease{}
	NewWithT(t).Expect(c.Get(t.Context(), client.ObjectKeyFromObject(object), found)).To(Succeed())
	object.ResourceVersion = found.ResourceVersion
	return object
}

// forbidden refuses all requests.
type forbidden struct{ client.Reader }

func (forbidden) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return context.DeadlineExceeded
}

func TestALeaseThatCannotBeReadIsAnErrorAtTheStart(t *testing.T) {
	NewWithT(t).Expect(guard(forbidden{}, cluster()).Check(t.Context())).To(MatchError("find out whether a gardenlet runs: read lease " +
		"garden/gardenlet-leader-election: context deadline exceeded"))
}

func TestTheProcessEndsWhenAGardenletStarts(t *testing.T) {
	g := NewWithT(t)
	seed, clock := cluster(), testingclock.NewFakeClock(now)
	guarded := guard(seed, cluster())
	guarded.Clock = clock
	ended := make(chan error, 1)
	go func() { ended <- guarded.Start(t.Context()) }()
	g.Eventually(clock.HasWaiters).Should(BeTrue())
	clock.Step(5 * time.Second)
	g.Consistently(ended).WithTimeout(100 * time.Millisecond).ShouldNot(Receive())
	g.Expect(seed.Create(t.Context(), leader(now.Add(5*time.Second)))).To(Succeed())
	clock.Step(5 * time.Second)
	g.Eventually(ended).Should(Receive(MatchError(ContainSubstring("a gardenlet is running"))))
	g.Expect(guarded.NeedLeaderElection()).To(BeFalse(), "every replica checks")
}

func TestTheProcessGoesOnWhileALeaseCannotBeRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	guarded := guard(forbidden{}, cluster())
	go func() { ended <- guarded.Start(ctx) }()
	g := NewWithT(t)
	g.Consistently(ended).WithTimeout(100 * time.Millisecond).ShouldNot(Receive())
	cancel()
	g.Eventually(ended).Should(Receive(BeNil()))
}

func TestSeedOf(t *testing.T) {
	for namespace, want := range map[string]string{"seed-cellar": "cellar", "garden": "", "": "", "seed-": ""} {
		NewWithT(t).Expect(SeedOf(namespace)).To(Equal(want), namespace)
	}
}
