package binary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

// Sent is a request of a process.
type Sent struct {
	// Verb and Path are as in Requests.Seen.
	Verb, Path string
	// Body is the JSON object that was sent, nil if none was.
	Body map[string]any
}

// Recording keeps the requests that change something, with what they carry.
type Recording struct {
	mu   sync.Mutex
	sent []Sent
}

// Record begins a Recording. It takes the place of any hook; also is called after each request was noted.
func (r *Requests) Record(also ...func(*http.Request) error) *Recording {
	recording := &Recording{}
	r.Hook(func(request *http.Request) error {
		if err := recording.note(request); err != nil {
			return err
		}
		for _, hook := range also {
			if err := hook(request); err != nil {
				return err
			}
		}
		return nil
	})
	return recording
}

func (r *Recording) note(request *http.Request) error {
	if request.Method == http.MethodGet {
		return nil
	}
	each := Sent{Verb: request.Method, Path: request.URL.Path}
	if request.Body != nil {
		content, err := io.ReadAll(request.Body)
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		request.Body = io.NopCloser(bytes.NewReader(content))
		if json.Unmarshal(content, &each.Body) != nil {
			each.Body = nil
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, each)
	return nil
}

// Of lists what was sent to a path, in order.
func (r *Recording) Of(verb, path string) []Sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Sent
	for _, each := range r.sent {
		if each.Verb == verb && each.Path == path {
			found = append(found, each)
		}
	}
	return found
}

// Order lists the requests with one of the verbs as "VERB path", in order.
func (r *Recording) Order(verbs ...string) []string {
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
