package flow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/flow"
)

// recorder records the reports of a run and their times. One goroutine calls it.
type recorder struct {
	begin    time.Time
	lines    []string
	statuses []flow.Status
	// latest is the last status reported in each second since the begin.
	latest map[time.Duration]flow.Status
}

func (r *recorder) report(_ context.Context, s flow.Status) {
	r.lines = append(r.lines, fmt.Sprintf("%s %d%% %s", time.Since(r.begin), s.Progress, s.Description))
	r.statuses = append(r.statuses, s)
	if r.latest == nil {
		r.latest = map[time.Duration]flow.Status{}
	}
	r.latest[time.Since(r.begin).Truncate(time.Second)] = s
}

// record runs a flow and returns its reports.
func record(t *testing.T, g Gomega, o flow.Options, tasks ...flow.Task) (*recorder, error) {
	t.Helper()
	r := &recorder{begin: time.Now()}
	o.Report = r.report
	_, err := runWith(t.Context(), g, build(t, tasks...), o)
	return r, err
}

func TestProgressIsTheShareOfTasksThatSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		r, err := record(t, g, flow.Options{},
			task("d", takes(time.Second)),
			task("b", takes(2*time.Second), "d"),
			task("a", takes(3*time.Second), "d"),
			skipped("s"),
		)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(r.lines).To(Equal([]string{
			"0s 0% Starting Garden reconciliation",
			"1s 33% a, b",
			"3s 66% a",
			"4s 100% Garden reconciliation finished",
		}))
	})
}

func TestLaterReportsWaitForTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		r, err := record(t, g, flow.Options{ReportInterval: flow.GardenReportInterval},
			task("a", takes(time.Second)),
			task("b", takes(time.Second), "a"),
			task("c", takes(time.Second), "b"),
			task("d", takes(6*time.Second), "c"),
			task("e", takes(2500*time.Millisecond), "d"),
		)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(r.lines).To(Equal([]string{
			"0s 0% Starting Garden reconciliation",
			"5s 60% d", // not the older "b" and "c"
			"10s 80% e",
			"11.5s 100% Garden reconciliation finished", // without a wait
		}))
	})
}

func TestAReportIsMadeOnlyAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		r, err := record(t, g, flow.Options{ReportInterval: time.Second}, task("a", func(ctx context.Context) error {
			for range 10 {
				time.Sleep(time.Second)
				flow.ReportWait(ctx, "Waits for etcd.")
			}
			return nil
		}))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(r.lines).To(Equal([]string{
			"0s 0% Starting Garden reconciliation",
			"1s 0% Starting Garden reconciliation",
			"10s 100% Garden reconciliation finished",
		}))
		g.Expect(messages(r.statuses[1])).To(Equal(map[string]string{"a": "Waits for etcd."}))
	})
}

func TestAShortFlowWithADelayReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		short, err := record(t, g, flow.Options{ReportDelay: 10 * time.Second}, task("a", takes(9*time.Second)), task("b", succeed, "a"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(short.lines).To(BeEmpty())

		long, err := record(t, g, flow.Options{ReportDelay: 10 * time.Second},
			task("a", takes(9*time.Second)), task("b", takes(2*time.Second), "a"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(long.lines).To(Equal([]string{"10s 50% b", "11s 100% Garden reconciliation finished"}))
	})
}

func TestASlowReportDelaysNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		begin := time.Now()
		var reported flow.Status
		slow := build(t, task("a", takes(time.Second)), task("b", takes(time.Second), "a"), task("c", succeed, "b"))
		status, err := runWith(t.Context(), g, slow, flow.Options{
			Report: func(_ context.Context, s flow.Status) {
				time.Sleep(time.Hour)
				reported = s
			},
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(status.Tasks[2].Since).To(Equal(begin.Add(2 * time.Second)))
		g.Expect(reported).To(Equal(status), "Run returned before its last report")
		g.Expect(time.Since(begin)).To(Equal(2 * time.Hour))
	})
}

func TestAPanicOfAReportEndsTheReportsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		status, err := runWith(t.Context(), g, build(t, task("a", takes(time.Second)), task("b", fail(errors.New("boom")), "a")), flow.Options{
			Report: func(context.Context, flow.Status) { panic("no status") },
		})
		g.Expect(err).To(MatchError("1 error occurred:\n\t* task \"b\" failed: boom\nreport progress: panic: no status"))
		g.Expect(status.Progress).To(Equal(50))
	})
}

func TestThePendingReportOfACancelledFlowIsMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := &recorder{begin: time.Now()}
		_, err := runWith(ctx, g, build(t,
			task("a", func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}),
			task("b", succeed, "a"),
		), flow.Options{Report: r.report, ReportInterval: time.Hour})
		g.Expect(err).To(MatchError(context.DeadlineExceeded))
		g.Expect(r.lines).To(Equal([]string{"0s 0% Starting Garden reconciliation", "1s 50% "}))
	})
}

func TestStatusSaysSinceWhenAndWhatATaskWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		begin := time.Now()
		r, err := record(t, g, flow.Options{},
			task("a", takes(time.Second)),
			task("b", succeed), task("c", takes(time.Hour)), task("d", takes(time.Hour)), task("e", takes(time.Hour)),
			task("f", func(ctx context.Context) error {
				time.Sleep(time.Second)
				flow.ReportWait(ctx, "Waits for etcd.")
				time.Sleep(time.Second)
				flow.ReportWait(ctx, "")
				time.Sleep(time.Hour)
				return errors.New("boom")
			}, "a"),
			task("g", succeed, "a", "b"),
			task("h", succeed, "a", "b", "c", "d", "e"),
			skipped("i", "h"),
			task("j", succeed, "i"),
		)
		g.Expect(err).To(HaveOccurred())

		g.Expect(r.latest[0].Tasks).To(BeComparableTo([]flow.TaskStatus{
			{Name: "a", State: flow.Running, Since: begin},
			{Name: "b", State: flow.Succeeded, Since: begin},
			{Name: "c", State: flow.Running, Since: begin},
			{Name: "d", State: flow.Running, Since: begin},
			{Name: "e", State: flow.Running, Since: begin},
			{Name: "f", State: flow.Pending, Since: begin, Message: `Waits for "a".`},
			{Name: "g", State: flow.Pending, Since: begin, Message: `Waits for "a".`},
			{Name: "h", State: flow.Pending, Since: begin, Message: `Waits for "a", "c", "d" and 1 more.`},
			{Name: "i", State: flow.Skipped, Since: begin, Message: "i is not needed."},
			{Name: "j", State: flow.Pending, Since: begin, Message: `Waits for "h".`},
		}))

		var ofF []flow.TaskStatus
		for _, each := range r.statuses {
			if now := each.Tasks[5]; len(ofF) == 0 || now != ofF[len(ofF)-1] {
				ofF = append(ofF, now)
			}
		}
		started := begin.Add(time.Second)
		g.Expect(ofF).To(BeComparableTo([]flow.TaskStatus{
			{Name: "f", State: flow.Pending, Since: begin, Message: `Waits for "a".`},
			{Name: "f", State: flow.Running, Since: started},
			{Name: "f", State: flow.Running, Since: started, Message: "Waits for etcd."},
			{Name: "f", State: flow.Running, Since: started},
			{Name: "f", State: flow.Failed, Since: started.Add(2*time.Second + time.Hour), Message: "boom"},
		}))
	})
}
