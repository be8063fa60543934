package binary

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Requests counts the requests of a process, watches, leases and Events aside. The zero value is ready; all methods may
// be called concurrently.
type Requests struct {
	// Counts selects the requests that are counted, if not nil.
	Counts func(*http.Request) bool

	mu        sync.Mutex
	seen      []string
	fault     Fault
	recording *Recording

	cut Cut
	// counted is the number of requests since CutOff.
	counted int
	dead    bool
	// executing is true while the request after which the process is cut off is being executed.
	executing bool
}

// Fault executes a request instead of the connection, which is next, or refuses it.
type Fault func(request *http.Request, next http.RoundTripper) (*http.Response, error)

// Execute executes a request. Without a Fault, the connection does.
func (f Fault) Execute(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	if f == nil {
		return next.RoundTrip(request)
	}
	return f(request, next)
}

// Disturb lets a Fault execute all requests that are sent, watches too. Nil removes it.
func (r *Requests) Disturb(fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
}

// SetHook is called before each request is sent, watches too; its error is the request's. It takes the place of a Fault. Nil removes it.
func (r *Requests) SetHook(hook func(*http.Request) error) {
	if hook == nil {
		r.Disturb(nil)
		return
	}
	r.Disturb(func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if err := hook(request); err != nil {
			return nil, err
		}
		return next.RoundTrip(request)
	})
}

// Reset forgets the counted requests.
func (r *Requests) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = nil
}

// Seen lists the requests since the last Reset as "VERB path".
func (r *Requests) Seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// Writes lists the seen requests that change objects.
func (r *Requests) Writes() []string {
	return slices.DeleteFunc(r.Seen(), func(each string) bool { return strings.HasPrefix(each, http.MethodGet+" ") })
}

// Wrap is for process.Setup.WrapTransport.
func (r *Requests) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{r, next} }

type transport struct {
	requests *Requests
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	send, answer, fault := t.requests.enter(request)
	if !send {
		return nil, ErrCutOff
	}
	response, err := fault.Execute(request, t.next)
	if answer {
		return response, err
	}
	t.requests.executed()
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	return nil, ErrCutOff
}

// enter counts a request, and returns whether to send it, whether its answer arrives, and the fault that takes the place of the
// server.
func (r *Requests) enter(request *http.Request) (send, answer bool, fault Fault) {
	counts := r.Counts
	if counts == nil {
		counts = isForeground
	}
	counted := counts(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return false, false, nil
	}
	if counted {
		r.seen = append(r.seen, request.Method+" "+request.URL.Path)
		r.counted++
		r.dead = r.counted == r.cut.Request
	}
	send, answer = !r.dead || r.cut.After, !r.dead
	r.executing = send && !answer
	if send && r.recording != nil {
		r.recording.note(request)
	}
	return send, answer, r.fault
}

// executed notes that the request after which the process is cut off was executed.
func (r *Requests) executed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.executing = false
}

// isForeground reports whether a request is made for work, and not at a time of its own.
func isForeground(request *http.Request) bool {
	info := Info(request)
	return info.Verb != "watch" && info.Resource != "leases" && info.Resource != "events"
}

// Info returns the verb and the resource of a request, as an API server sees them.
func Info(request *http.Request) *apirequest.RequestInfo {
	resolver := apirequest.RequestInfoFactory{
		APIPrefixes: map[string]sets.Empty{"api": {}, "apis": {}}, GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}},
	}
	info, err := resolver.NewRequestInfo(request)
	if err != nil { // it is no request of an API
		return &apirequest.RequestInfo{}
	}
	return info
}
