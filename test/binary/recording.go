package binary

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
)

// Sent is a request of a process.
type Sent struct {
	// Verb and Path have the form of Requests.Seen.
	Verb, Path string
	// Body is the JSON object in the request; nil if there is none.
	Body map[string]any
}

// Recording contains the requests that change objects, with their bodies.
type Recording struct {
	mu   sync.Mutex
	sent []Sent
}

// Record starts a new Recording, and ends an earlier one.
func (r *Requests) Record() *Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recording = &Recording{}
	return r.recording
}

func (r *Recording) note(request *http.Request) {
	if request.Method == http.MethodGet {
		return
	}
	each := Sent{Verb: request.Method, Path: request.URL.Path}
	if request.GetBody != nil {
		if body, err := request.GetBody(); err == nil && json.NewDecoder(body).Decode(&each.Body) != nil {
			each.Body = nil
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, each)
}

// RequestsTo returns the requests to a path, in their order.
func (r *Recording) RequestsTo(verb, path string) []Sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.sent), func(each Sent) bool { return each.Verb != verb || each.Path != path })
}

// InOrder returns the requests with one of the verbs as "VERB path", in their order.
func (r *Recording) InOrder(verbs ...string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, each := range r.sent {
		if slices.Contains(verbs, each.Verb) {
			found = append(found, each.Verb+" "+each.Path)
		}
	}
	return found
}
