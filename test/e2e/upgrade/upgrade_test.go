//go:build e2e

package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/e2e/faults/load"
)

const (
	// patience is how long it may take until everything is in sync after a rollout. Values that have not arrived by then are lost.
	patience = 4 * time.Minute
	limit    = 30 * time.Minute
	// leastAsked is the minimum number of Pods that must be sent to the webhooks, also during the shortest rollout of all binaries.
	leastAsked = 20
)

var _ = Describe("upgrade and rollback", Label("upgrade"), func() {
	It("loses nothing, deletes nothing, and answers all the time", func(ctx SpecContext) {
		from, err := former(ctx)
		if errors.Is(err, errNoHistory) {
			Skip("SKIPPED: no upgrade is tried: " + err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		to := present()
		DeferCleanup(func(ctx SpecContext) { to.apply(ctx) }, NodeTimeout(limit))
		begin(ctx)
		from.apply(ctx)
		work, err := load.New(ctx, c)
		if work != nil {
			DeferCleanup(func(ctx SpecContext) { Expect(work.Close(ctx)).To(Succeed()) }, NodeTimeout(limit))
		}
		Expect(err).NotTo(HaveOccurred())
		rows := []string{"| change | rollout, s | in sync after, s | changes meanwhile | Pods shown to webhooks | unanswered | lost updates | " +
			"wrong deletions | result |\n|---|---|---|---|---|---|---|---|---|\n"}
		defer func() {
			AddReportEntry("upgrade and rollback", strings.Join(rows, ""))
			_, _ = fmt.Fprintln(os.Stdout, "\n"+strings.Join(rows, ""))
		}()
		for _, step := range []struct {
			name string
			to   state
		}{
			{"upgrade from " + from.name + " to " + to.name, to},
			{"rollback to " + from.name, from},
		} {
			roll(ctx, work, step.name, step.to, &rows)
		}
	}, SpecTimeout(limit))
})

// begin removes everything that is deployed. Otherwise objects of the present state would stay when another state is applied, including
// objects that binaries have created, such as certificates, leases and NetworkPolicies. CustomResourceDefinitions stay.
func begin(ctx context.Context) {
	GinkgoHelper()
	Expect(c.Remove(ctx, cluster.Binaries()...)).To(Succeed())
	_, err := c.Kubectl(ctx, "delete", "namespace", cluster.SystemNamespace, "--ignore-not-found", "--wait", "--timeout=3m")
	Expect(err).NotTo(HaveOccurred())
}

// roll applies a state during the load, and adds a row to the table of results, even if a step fails.
func roll(ctx context.Context, work *load.Load, name string, to state, rows *[]string) {
	GinkgoHelper()
	figures, result := "– | – | – | – | – | – | –", load.Result([]string{"it was not in sync before"})
	defer func() { *rows = append(*rows, fmt.Sprintf("| %s | %s | %s |\n", name, figures, result)) }()
	Expect(work.AwaitSync(ctx, patience)).To(Succeed(), "before the %s", name)
	before, err := work.Remember(ctx, m.AuditLog)
	Expect(err).NotTo(HaveOccurred())
	stop := work.Start(ctx, nil)
	defer stop() // if the rollout fails, changes must still be completed
	result = load.Result([]string{"it was not rolled out, or not looked at thereafter"})
	start := clock.RealClock{}.Now()
	to.apply(ctx)
	rolledOut := clock.RealClock{}.Now()
	done := stop()
	unsynced := work.AwaitSync(ctx, patience)
	recovery := clock.RealClock{}.Since(rolledOut)
	outcome := work.Outcome(ctx, before, done, unsynced)
	services := &corev1.ServiceList{}
	Expect(c.Client.List(ctx, services, client.InNamespace(cluster.SystemNamespace))).To(Succeed())
	outcome.Deleted = slices.DeleteFunc(outcome.Deleted, func(name string) bool { return unasked(services.Items, name) })
	broken := outcome.Broken(load.Promise{Asked: leastAsked, Answered: "webhooks keep answering"})
	figures = fmt.Sprintf("%.1f | %.1f | %d | %d | %d | %d | %d", rolledOut.Sub(start).Seconds(), recovery.Seconds(),
		done.Changes, done.Asked, done.Unanswered, len(outcome.Lost), len(outcome.Deleted))
	result = load.Result(broken)
	GinkgoWriter.Printf("%s: %s; %+v\n", name, figures, done)
	Expect(broken).To(BeEmpty(), "what is promised is kept")
}
