//go:build e2e

package faults_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/e2e/faults/load"
)

const (
	// outage is how long a part is stopped. shortOutage is for parts that other parts hardly depend on.
	outage, shortOutage = 30 * time.Second, 10 * time.Second
	// patience is how long it may take until everything is in sync again. Values that have not arrived by then are lost.
	patience = 4 * time.Minute
	// limit is the time limit of a spec; it is longer than all its waits together.
	limit = 15 * time.Minute
	// leastAsked is the minimum number of Pods that must be sent to the webhooks, even during a fault that stops the API server.
	leastAsked = 3
)

// fault is a disturbance of the cluster during the load.
type fault struct {
	name string
	// inject causes the fault. It returns when the fault is over, or when no more is done to cause it: when Pods were killed, or when an
	// API server runs again.
	inject func(ctx context.Context)
	// during, if not nil, returns when the load may stop. Nil: the load may stop at once.
	during func(ctx context.Context)
	// answered is the reason why webhooks must answer all the time; empty if they need not.
	answered string
	// excused reports whether an error does not count as an error of webhooks; nil: all errors count.
	excused func(error) bool
}

// measure injects the fault during the load, and waits until everything is in sync again. The results contain the measurement even if a
// step fails.
func measure(ctx context.Context, f fault) {
	GinkgoHelper()
	found := measurement{fault: f.name, result: load.Result([]string{"it was not in sync before"})}
	defer func() {
		result.all = append(result.all, found)
		Expect(result.save(m.Root)).To(Succeed())
	}()
	Expect(work.AwaitSync(ctx, patience)).To(Succeed(), "before the fault")
	before, err := work.Remember(ctx, m.AuditLog)
	Expect(err).NotTo(HaveOccurred())
	stop := work.Start(ctx, f.excused)
	defer stop() // if the fault fails, changes must still be completed
	pause(ctx, 3*time.Second)
	found.result = load.Result([]string{"the fault, or the end of it, was not as it is meant"})
	f.inject(ctx)
	over := clock.RealClock{}.Now()
	if f.during != nil {
		f.during(ctx)
	}
	figures := stop()
	unsynced := work.AwaitSync(ctx, patience)
	found.recovery = clock.RealClock{}.Since(over)
	outcome := work.Outcome(ctx, before, figures, unsynced)
	broken := outcome.Broken(load.Promise{Asked: leastAsked, Answered: f.answered})
	found.outcome, found.result = &outcome, load.Result(broken)
	GinkgoWriter.Printf("%s: in sync after %s; %+v\n", f.name, found.recovery, figures)
	Expect(broken).To(BeEmpty(), "what is promised is kept")
}

// pause waits for a duration, or until the spec ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

var _ = Describe("faults", Ordered, ContinueOnFailure, Label("faults"), func() {
	for _, binary := range cluster.Binaries() {
		It("survives the death of all Pods of "+binary, Label("pods"), func(ctx SpecContext) {
			measure(ctx, killed(binary))
		}, SpecTimeout(limit))
	}

	It("survives a drain, and a restart of the kubelet", Label("kubelet"), func(ctx SpecContext) {
		measure(ctx, drained())
	}, SpecTimeout(limit))

	It("survives a restart of containerd", Label("containerd"), func(ctx SpecContext) {
		f := stopped("containerd stopped for 10 s", shortOutage, "containerd")
		f.answered = "containers go on"
		measure(ctx, f)
	}, SpecTimeout(limit))

	It("survives 30 s without API server and etcd", Label("apiserver"), func(ctx SpecContext) {
		f := stopped("API server and etcd stopped for 30 s", outage, "kube-apiserver", "etcd")
		f.excused = load.APIServerAway
		measure(ctx, f)
	}, SpecTimeout(limit))

	It("survives an etcd that is full", Label("etcd"), func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { unlimitEtcd(ctx) }, NodeTimeout(limit)) // registered first, because limitEtcd stops etcd
		limitEtcd(ctx)
		measure(ctx, full())
	}, SpecTimeout(limit))

	It("renews a certificate that is about to end", Label("certificate"), func(ctx SpecContext) {
		measure(ctx, ending())
	}, SpecTimeout(limit))

	It("renews a certificate that has expired while no replica ran", Label("certificate"), func(ctx SpecContext) {
		measure(ctx, ended())
	}, SpecTimeout(limit))
})
