package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing/iotest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// Storm is a fault that disturbs every n-th of the requests for which concerns is true (1 for all of them), at most the given number of
// times.
func Storm(every, times int64, concerns func(*http.Request) bool, disturb binary.Fault) binary.Fault {
	var met, made atomic.Int64
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if concerns(request) && met.Add(1)%every == 0 && made.Add(1) <= times {
			return disturb(request, next)
		}
		return next.RoundTrip(request)
	}
}

// Writes reports whether a request changes state that is compared.
func Writes(request *http.Request) bool { return request.Method != http.MethodGet && Counts(request) }

// Refuse answers a request with an error. An error 409 is the conflict with a write of another client.
func Refuse(code int) binary.Fault {
	return func(request *http.Request, _ http.RoundTripper) (*http.Response, error) {
		info := binary.Info(request)
		kind := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		failure := apierrors.NewGenericServerResponse(code, request.Method, kind, info.Name, "a test refuses it", 0, false)
		return respond(code, failedStatus(failure)), nil
	}
}

// TooMany refuses a request and asks to repeat it in a second.
func TooMany(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := Refuse(http.StatusTooManyRequests)(request, next)
	if err == nil {
		response.Header.Set("Retry-After", "1")
	}
	return response, err
}

// Lost executes a request and closes the connection before the response.
func Lost(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

// TimedOut executes a request and returns a timeout error.
func TimedOut(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	return Refuse(http.StatusGatewayTimeout)(request, next)
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
func Slow(by time.Duration) binary.Fault {
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if err := local.Pause(request.Context(), by); err != nil {
			return nil, err
		}
		return next.RoundTrip(request)
	}
}

// ShortStreams ends every watch after some time.
func ShortStreams(after time.Duration) binary.Fault {
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
func LateStreams(by time.Duration) binary.Fault {
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

// Expired ends every watch after some time. Of three watches in a row that continue from a resourceVersion, two fail because it is too old:
// the first at once, the second with its first event. A watch that begins with a list never fails.
func Expired(after time.Duration) binary.Fault {
	var turn atomic.Int64
	short := ShortStreams(after)
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		query := request.URL.Query()
		if query.Get("resourceVersion") == "" || query.Has("sendInitialEvents") {
			return short(request, next)
		}
		gone := failedStatus(apierrors.NewResourceExpired("a test says that the version is too old"))
		switch turn.Add(1) % 3 {
		case 0:
			return short(request, next)
		case 1:
			return respond(http.StatusGone, gone), nil
		}
		return respond(http.StatusOK, map[string]any{"type": "ERROR", "object": gone}), nil
	}
}

// failedStatus returns the status of an error as API servers send it.
func failedStatus(failure *apierrors.StatusError) metav1.Status {
	status := failure.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return status
}

// respond returns a response with this content, as JSON.
func respond(code int, content any) *http.Response {
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/json")
	recorder.WriteHeader(code)
	_ = json.NewEncoder(recorder).Encode(content) // both contents have only fields that JSON can represent
	return recorder.Result()
}
