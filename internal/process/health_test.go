package process

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

type cacheState bool

func (c cacheState) WaitForCacheSync(ctx context.Context) bool {
	if !c {
		<-ctx.Done()
	}
	return bool(c)
}

func probe(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
}

func TestSyncCheckDoesNotHangOnAnUnfilledCache(t *testing.T) {
	g := NewWithT(t)
	g.Expect(syncCheck(cacheState(true))(probe(t))).To(Succeed())
	g.Expect(syncCheck(cacheState(false))(probe(t))).To(MatchError("informers are not synced"))
}

func TestHealthFailsOnlyAfterTheDeadline(t *testing.T) {
	g := NewWithT(t)
	passive := clocktesting.NewFakeClock(time.Unix(0, 0))
	var failure error
	check := tolerate(func(*http.Request) error { return failure }, time.Minute, passive)

	failure = errors.New("informers are not synced")
	passive.Step(time.Minute)
	g.Expect(check(probe(t))).To(Succeed(), "the deadline counts from the start")
	passive.Step(time.Second)
	g.Expect(check(probe(t))).To(MatchError("for more than 1m0s: informers are not synced"))

	failure = nil
	g.Expect(check(probe(t))).To(Succeed())
	failure = errors.New("informers are not synced")
	passive.Step(time.Minute)
	g.Expect(check(probe(t))).To(Succeed(), "the deadline counts from the last success")
	passive.Step(time.Second)
	g.Expect(check(probe(t))).NotTo(Succeed())
}

func TestAPIServerCheckAsksHealthz(t *testing.T) {
	g := NewWithT(t)
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	check, err := apiServerCheck(&rest.Config{Host: server.URL, QPS: 0.001}, server.Client())
	g.Expect(err).NotTo(HaveOccurred())
	for range 3 {
		g.Expect(check(probe(t))).To(Succeed(), "a client-side limit must not hold probes back")
	}
	status = http.StatusInternalServerError
	g.Expect(check(probe(t))).To(MatchError(HavePrefix("ask /healthz of the API server: ")))
}
