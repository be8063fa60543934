package binary_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/binary"
)

// server records the requests that reach it, and answers all of them.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	reached []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reached = append(s.reached, r.Method+" "+r.URL.Path)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.reached...)
}

// process sends requests to a server through a Requests.
type process struct {
	t        *testing.T
	server   *server
	requests *binary.Requests
	client   *http.Client
}

func newProcess(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, server: newServer(t), requests: &binary.Requests{}}
	p.client = &http.Client{Transport: p.requests.Wrap(p.server.Client().Transport)}
	return p
}

// do sends a request, given as "VERB path", and reports whether it got a response.
func (p *process) do(line string) bool {
	p.t.Helper()
	g := NewWithT(p.t)
	method, path, _ := strings.Cut(line, " ")
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.server.URL+path, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := p.client.Do(request)
	if err != nil {
		g.Expect(err).To(MatchError(binary.ErrCutOff))
		return false
	}
	g.Expect(response.Body.Close()).To(Succeed())
	return true
}

func (p *process) doAll(lines ...string) (answered []bool) {
	p.t.Helper()
	for _, line := range lines {
		answered = append(answered, p.do(line))
	}
	return answered
}

func TestCutOff(t *testing.T) {
	three := []string{"GET /a", "PUT /b", "GET /c"}
	for name, tc := range map[string]struct {
		at       binary.Cut
		answered []bool
		reached  []string
	}{
		"never":               {answered: []bool{true, true, true}, reached: three},
		"before the first":    {at: binary.Cut{Request: 1}, answered: []bool{false, false, false}},
		"after the first":     {at: binary.Cut{Request: 1, After: true}, answered: []bool{false, false, false}, reached: three[:1]},
		"before the second":   {at: binary.Cut{Request: 2}, answered: []bool{true, false, false}, reached: three[:1]},
		"after the second":    {at: binary.Cut{Request: 2, After: true}, answered: []bool{true, false, false}, reached: three[:2]},
		"beyond what is sent": {at: binary.Cut{Request: 4}, answered: []bool{true, true, true}, reached: three},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := newProcess(t)
			p.requests.CutOff(tc.at)
			g.Expect(p.doAll(three...)).To(Equal(tc.answered))
			g.Expect(p.server.got()).To(Equal(tc.reached))
			happened := tc.at.Request > 0 && tc.at.Request <= len(three)
			g.Expect(p.requests.IsCutOff()).To(Equal(happened))
			g.Expect(p.requests.Connect()).To(Equal(happened))
			g.Expect(p.requests.IsCutOff()).To(BeFalse())
			g.Expect(p.do("GET /d")).To(BeTrue(), "a cut ends with Connect")
			g.Expect(p.requests.Connect()).To(BeFalse(), "and is reported once")
		})
	}
}

func TestACutAfterARequestHappensWhenItWasExecuted(t *testing.T) {
	g := NewWithT(t)
	p := newProcess(t)
	p.requests.Disturb(func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		g.Expect(p.requests.IsCutOff()).To(BeFalse(), "a caller would cancel the request")
		return response, err
	})
	p.requests.CutOff(binary.Cut{Request: 1, After: true})
	g.Expect(p.do("PUT /a")).To(BeFalse())
	g.Expect(p.requests.IsCutOff()).To(BeTrue())
}

func TestCutOffCountsFromThatMoment(t *testing.T) {
	g := NewWithT(t)
	p := newProcess(t)
	p.doAll("GET /a", "GET /b")
	p.requests.CutOff(binary.Cut{Request: 2})
	g.Expect(p.doAll("GET /c", "GET /d")).To(Equal([]bool{true, false}))
	p.requests.CutOff(binary.Cut{Request: 1, After: true})
	g.Expect(p.doAll("GET /e", "GET /f")).To(Equal([]bool{false, false}), "a second cut begins anew")
	g.Expect(p.server.got()).To(Equal([]string{"GET /a", "GET /b", "GET /c", "GET /e"}))
}

// A cut never happens at a request that the process sends at its own time, such as a watch. But while the process is cut off, no request
// gets through.
func TestWatchesLeasesAndEventsDoNotCount(t *testing.T) {
	g := NewWithT(t)
	p := newProcess(t)
	aside := []string{
		"GET /api/v1/pods?watch=true", "PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/b",
		"POST /apis/events.k8s.io/v1/namespaces/a/events", "POST /api/v1/namespaces/a/events",
	}
	p.requests.CutOff(binary.Cut{Request: 1})
	g.Expect(p.doAll(aside...)).To(Equal([]bool{true, true, true, true}))
	g.Expect(p.requests.Seen()).To(BeEmpty())
	g.Expect(p.do("GET /api/v1/pods")).To(BeFalse())
	g.Expect(p.doAll(aside...)).To(Equal([]bool{false, false, false, false}))
	g.Expect(p.requests.Seen()).To(Equal([]string{"GET /api/v1/pods"}), "what was tried counts as seen")
}

func TestSeenWritesAndReset(t *testing.T) {
	g := NewWithT(t)
	p := newProcess(t)
	p.doAll("GET /a", "PATCH /b", "POST /c?dryRun=All", "DELETE /d")
	g.Expect(p.requests.Seen()).To(Equal([]string{"GET /a", "PATCH /b", "POST /c", "DELETE /d"}))
	g.Expect(p.requests.Writes()).To(Equal([]string{"PATCH /b", "POST /c", "DELETE /d"}))
	p.requests.Reset()
	g.Expect(p.requests.Seen()).To(BeEmpty())
}

// run returns a scenario that sends length requests.
func run(p *process, length int) func(*testing.T, binary.Cut) bool {
	return func(_ *testing.T, at binary.Cut) bool {
		p.requests.CutOff(at)
		for range length {
			p.do("GET /a")
		}
		return p.requests.Connect()
	}
}

func TestEveryCut(t *testing.T) {
	t.Setenv("CRASH_SAMPLE", "")
	for name, tc := range map[string]struct {
		every, length int
		seed          string
		want          []string
		happened      int
	}{
		"every request": {every: 1, length: 2, happened: 4, want: []string{
			"before request 1", "after request 1", "before request 2", "after request 2", "before request 3",
		}},
		"every other request": {every: 2, length: 4, happened: 4, want: []string{
			"before request 1", "after request 1", "before request 3", "after request 3", "before request 5",
		}},
		"every third request, with a seed": {every: 3, length: 6, seed: "8", happened: 6, want: []string{
			"before request 1", "after request 1", "before request 3", "after request 3", "before request 6", "after request 6", "before request 9",
		}},
		"a run without requests": {every: 1, want: []string{"before request 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv("CRASH_SEED", tc.seed)
			p := newProcess(t)
			var tried []string
			happened := binary.EveryCut(t, tc.every, func(t *testing.T, at binary.Cut) bool {
				t.Helper()
				tried = append(tried, at.String())
				return run(p, tc.length)(t, at)
			})
			g.Expect(tried).To(Equal(tc.want), "the last one is undisturbed")
			g.Expect(happened).To(Equal(tc.happened))
		})
	}
}
