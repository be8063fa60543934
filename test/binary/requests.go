package binary

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Requests counts the requests of a process, except for watches, leases and Events. Its zero value is ready to use; all methods may be
// called concurrently.
type Requests struct {
	// Counts, if not nil, selects the requests that are counted instead.
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

// Fault executes a request in place of the connection, or returns an error without executing it. The connection is next.
type Fault func(request *http.Request, next http.RoundTripper) (*http.Response, error)

// Execute executes a request with the Fault. If the Fault is nil, the connection executes the request.
func (f Fault) Execute(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	if f == nil {
		return next.RoundTrip(request)
	}
	return f(request, next)
}

// Disturb makes a Fault execute all requests of the process, including watches. Nil removes the Fault.
func (r *Requests) Disturb(fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
}

// SetHook makes each request, including watches, call the function before it is sent; if the function returns an error, the request fails
// with it. It replaces a Fault. Nil removes the hook.
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

// Reset clears the list of counted requests.
func (r *Requests) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = nil
}

// Seen returns the counted requests since the last Reset as "VERB path".
func (r *Requests) Seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// Writes returns the seen requests that change objects.
func (r *Requests) Writes() []string {
	return slices.DeleteFunc(r.Seen(), func(each string) bool { return strings.HasPrefix(each, http.MethodGet+" ") })
}

// Wrap is a value for process.Setup.WrapTransport.
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

// enter counts a request. It returns whether to send the request, whether the process gets the response, and the Fault that executes the
// request.
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

// executed records that the request at which the process is cut off was executed.
func (r *Requests) executed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.executing = false
}

// isForeground reports whether a process sends a request for a reconciliation, and not at its own time.
func isForeground(request *http.Request) bool {
	info := Info(request)
	return info.Verb != "watch" && info.Resource != "leases" && info.Resource != "events"
}

// Info returns the verb and the resource of a request, in the form in which an API server sees them.
func Info(request *http.Request) *apirequest.RequestInfo {
	resolver := apirequest.RequestInfoFactory{
		APIPrefixes: map[string]sets.Empty{"api": {}, "apis": {}}, GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}},
	}
	info, err := resolver.NewRequestInfo(request)
	if err != nil { // not a request of the Kubernetes API
		return &apirequest.RequestInfo{}
	}
	return info
}
