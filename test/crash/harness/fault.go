package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing/iotest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Storm is a fault that disturbs every n-th of the requests that it concerns, and ends after a number of them.
type Storm struct {
	// Every is n, 1 for all requests; Times is how many are disturbed.
	Every, Times int
	// Concerns selects the requests; nil stands for all that count.
	Concerns func(*http.Request) bool
	// Disturb is the fault for these requests.
	Disturb Fault
}

// Start returns the storm as a Fault for one run.
func (s Storm) Start() Fault {
	var mu sync.Mutex
	met, made := 0, 0
	hits := func() bool {
		mu.Lock()
		defer mu.Unlock()
		met++
		if made >= s.Times || met%s.Every != 0 {
			return false
		}
		made++
		return true
	}
	concerns := s.Concerns
	if concerns == nil {
		concerns = Counts
	}
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if concerns(request) && hits() {
			return s.Disturb(request, next)
		}
		return next.RoundTrip(request)
	}
}

// Writes reports whether a request changes state that is compared.
func Writes(request *http.Request) bool { return request.Method != http.MethodGet && Counts(request) }

// Conflict refuses a write as a conflict with another client's write.
func Conflict(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	reason := metav1.StatusReasonConflict
	if request.Method == http.MethodPost {
		reason = metav1.StatusReasonAlreadyExists
	}
	return Refuse(http.StatusConflict, reason)(request, next)
}

// TooMany refuses a request and asks to repeat it in a second.
func TooMany(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := Refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)(request, next)
	if err == nil {
		response.Header.Set("Retry-After", "1")
	}
	return response, err
}

// Refuse answers a request with an error.
func Refuse(code int, reason metav1.StatusReason) Fault {
	return func(request *http.Request, _ http.RoundTripper) (*http.Response, error) {
		return respond(request, code, status(request, code, reason))
	}
}

// TimedOut executes a request and returns a timeout error.
func TimedOut(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	if err := carryOut(request, next); err != nil {
		return nil, err
	}
	return Refuse(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)(request, next)
}

// Lost executes a request and closes the connection before the response.
func Lost(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	if err := carryOut(request, next); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}

func carryOut(request *http.Request, next http.RoundTripper) error {
	response, err := next.RoundTrip(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Truncated cuts the second half of a response.
func Truncated(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	whole, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)))
	return response, nil
}

// Slow delays a request.
func Slow(by time.Duration) Fault {
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		select {
		case <-time.After(by):
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
		return next.RoundTrip(request)
	}
}

// ShortStreams ends every watch after some time.
func ShortStreams(after time.Duration) Fault {
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			body := response.Body
			time.AfterFunc(after, func() { _ = body.Close() })
		}
		return response, err
	}
}

// LateStreams delays the events of watches.
func LateStreams(by time.Duration) Fault {
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			response.Body = &late{response.Body, by}
		}
		return response, err
	}
}

type late struct {
	io.ReadCloser
	by time.Duration
}

// Read implements io.Reader.
func (l *late) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	time.Sleep(l.by)
	return n, err
}

// Expired ends every watch after some time. The next watch fails, because its resourceVersion is too old: alternately at once, or with its
// first event.
func Expired(after time.Duration) Fault {
	var mu sync.Mutex
	turn := 0
	short := ShortStreams(after)
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		query := request.URL.Query()
		if query.Get("resourceVersion") == "" || query.Has("sendInitialEvents") {
			return short(request, next)
		}
		mu.Lock()
		turn++
		now := turn % 3
		mu.Unlock()
		switch now {
		case 0:
			return short(request, next)
		case 1:
			return Refuse(http.StatusGone, metav1.StatusReasonExpired)(request, next)
		}
		return respond(request, http.StatusOK,
			map[string]any{"type": "ERROR", "object": status(request, http.StatusGone, metav1.StatusReasonExpired)})
	}
}

func status(request *http.Request, code int, reason metav1.StatusReason) metav1.Status {
	at, _ := parse(request.URL.Path)
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: "a test says so: " + string(reason), Details: &metav1.StatusDetails{Group: at.group, Kind: at.resource, Name: at.name},
	}
}

func respond(request *http.Request, code int, content any) (*http.Response, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: request,
	}, nil
}
