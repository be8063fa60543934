package binary

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Requests counts the requests of a process, watches, leases and Events aside. The zero value is ready; all methods may
// be called concurrently.
type Requests struct {
	mu   sync.Mutex
	seen []string
	hook func(*http.Request) error

	cut     Cut
	counted int
	dead    bool
}

// Hook is called before each request is sent, watches too; its error is the request's. Nil removes it.
func (r *Requests) Hook(hook func(*http.Request) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

// Reset forgets what was counted.
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

// Writes lists those that change something.
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
	path := request.URL.Path
	counted := request.URL.Query().Get("watch") == "" && !strings.Contains(path, "/leases") && !strings.Contains(path, "/events")
	t.requests.mu.Lock()
	if counted {
		t.requests.seen = append(t.requests.seen, request.Method+" "+path)
	}
	hook := t.requests.hook
	send, answer := t.requests.fate(counted)
	t.requests.mu.Unlock()
	if !send {
		return nil, ErrCutOff
	}
	if hook != nil {
		if err := hook(request); err != nil {
			return nil, err
		}
	}
	response, err := t.next.RoundTrip(request)
	if !answer && err == nil {
		_ = response.Body.Close()
		return nil, ErrCutOff
	}
	return response, err
}
