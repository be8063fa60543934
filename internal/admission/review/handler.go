package review

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// maxBody is the maximum size of a body, in bytes: more than an old and a new object of the size that API servers accept.
const maxBody = 7 << 20

// Handler judges requests. It may be called concurrently.
type Handler interface {
	Handle(ctx context.Context, request *Request) Response
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, request *Request) Response

// Handle implements Handler.
func (f HandlerFunc) Handle(ctx context.Context, request *Request) Response { return f(ctx, request) }

// Endpoint serves a Handler over HTTP.
type Endpoint struct {
	// Name is the name of the handler in metrics and logs.
	Name string
	// Mutating is true for handlers that change objects: metrics count an object that they admit unchanged as skipped.
	Mutating bool
	Handler  Handler
	Metrics  *Metrics
	Log      logr.Logger
	Clock    clock.PassiveClock
}

// bodies holds buffers for the bodies of requests, to be reused.
var bodies = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// maxReused is the capacity of the largest buffer that is reused, in bytes.
const maxReused = 256 << 10

func release(body *bytes.Buffer) {
	if body.Cap() <= maxReused {
		bodies.Put(body)
	}
}

// ServeHTTP implements http.Handler. The HTTP status is 200 for each response of the Handler, also a refusal, and 400 for a body that
// contains no valid request.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := e.Clock.Now()
	body := bodies.Get().(*bytes.Buffer) //nolint:errcheck // the pool holds nothing else
	body.Reset()
	defer release(body)
	found, err := readReview(r, body)
	var response Response
	status := http.StatusOK
	if err == nil {
		response = e.judge(r.Context(), &found.request)
	} else {
		status, response = http.StatusBadRequest, Undecodable(err)
	}
	e.Metrics.observe(e, response, e.Clock.Since(begin))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoded, err := json.Marshal(newAnswer(found, response))
	if err == nil {
		_, err = w.Write(encoded)
	}
	if err != nil {
		e.Log.V(1).Info("Could not answer", "handler", e.Name, "error", err.Error())
	}
}

func readReview(r *http.Request, body *bytes.Buffer) (review, error) {
	given := r.Header.Get("Content-Type")
	if !isJSON(given) {
		return review{}, fmt.Errorf("contentType=%s, expected application/json", given)
	}
	if r.Body == nil {
		return review{}, errNoContent
	}
	if r.ContentLength > 0 { // at most maxReused: the client may announce more than it sends
		body.Grow(int(min(r.ContentLength, maxReused)) + bytes.MinRead)
	}
	n, err := body.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return review{}, fmt.Errorf("read body: %w", err)
	}
	if n > maxBody {
		return review{}, fmt.Errorf("request entity is too large; limit is %d bytes", maxBody)
	}
	if n == 0 {
		return review{}, errNoContent
	}
	return decodeReview(body.Bytes())
}

// isJSON reports whether a content type is application/json, with or without parameters. API servers send no parameters.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// judge calls the handler. If the handler panics, judge returns an error response.
func (e *Endpoint) judge(ctx context.Context, request *Request) (response Response) {
	defer func() {
		if panicked := recover(); panicked != nil {
			e.Log.Info("Handler panicked", "handler", e.Name, "namespace", request.Namespace, "name", request.Name, "panic", fmt.Sprint(panicked),
				"stack", string(debug.Stack()))
			response = Errored(http.StatusInternalServerError, fmt.Errorf("panic: %v [recovered]", panicked))
		}
	}()
	response = e.Handler.Handle(ctx, request)
	switch log := e.Log.V(1); {
	case !response.Allowed:
		e.Log.Info("Denied", "handler", e.Name, "operation", request.Operation, "kind", request.Kind.Kind, "namespace", request.Namespace, "name",
			request.Name, "user", request.User.Name, "code", response.Code, "message", excerpt.Of(response.Message, loggedMessage))
	case log.Enabled():
		log.Info("Allowed", "handler", e.Name, "operation", request.Operation, "kind", request.Kind.Kind, "namespace", request.Namespace, "name",
			request.Name, "patch", len(response.Patch))
	}
	return response
}

// loggedMessage is the limit of messages in the log, in bytes: a message may quote input of the user.
const loggedMessage = 1 << 10

// answer is an AdmissionReview that contains a response.
type answer struct {
	Kind       string  `json:"kind"`
	APIVersion string  `json:"apiVersion"`
	Response   verdict `json:"response"`
}

type verdict struct {
	UID       string        `json:"uid"`
	Allowed   bool          `json:"allowed"`
	Status    metav1.Status `json:"status"`
	PatchType string        `json:"patchType,omitempty"`
	Patch     []byte        `json:"patch,omitempty"`
	Warnings  []string      `json:"warnings,omitempty"`
}

// newAnswer returns the answer in the version of the AdmissionReview that it answers.
func newAnswer(to review, response Response) answer {
	out := answer{Kind: "AdmissionReview", APIVersion: groupV1, Response: verdict{
		UID: to.request.UID, Allowed: response.Allowed, Patch: response.Patch, Warnings: response.Warnings,
		Status: metav1.Status{Code: response.Code, Reason: response.Reason, Message: response.Message, Details: response.Details},
	}}
	if to.apiVersion == groupV1beta1 {
		out.APIVersion = groupV1beta1
	}
	if response.Code == http.StatusUnprocessableEntity {
		out.Response.Status.Status = metav1.StatusFailure
	}
	if len(response.Patch) > 0 {
		out.Response.PatchType = "JSONPatch"
	}
	return out
}
