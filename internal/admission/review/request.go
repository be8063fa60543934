// Package review answers AdmissionReviews over HTTP. It checks that a review is JSON, and keeps the objects in it as bytes:
// each handler decodes the fields that it needs.
package review

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Operation is the operation on the object.
type Operation string

// The operations of admission.k8s.io.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Request holds the fields of an admission request that handlers need. The handler must not change or keep its bytes.
type Request struct {
	UID      string
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// SubResource is empty for the object itself.
	SubResource string
	// Name is empty for DELETECOLLECTION and for objects that get a generated name.
	Name string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	Operation Operation
	// User is the user who sends the request.
	User User
	// Object and OldObject are JSON; nil if absent or null.
	Object, OldObject []byte
	// Options are the CreateOptions, UpdateOptions or DeleteOptions of the request as JSON; nil if absent or null.
	Options []byte
	DryRun  bool
}

// User is the user who sends a request.
type User struct {
	Name   string   `json:"username"`
	UID    string   `json:"uid"`
	Groups []string `json:"groups"`
	// Extra is additional information about the user from the authenticator, for authorizers.
	Extra map[string][]string `json:"extra"`
}

// errNoContent is worded as Gardener's handlers word it.
var errNoContent = errors.New("there is no content to decode")

// lenient decodes JSON like API servers: of members with equal names the last one counts, and strings may contain any bytes.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Decode decodes an object into the value that the pointer into refers to, and skips the fields that this value does not have. A field
// that is null counts as absent. The error names the field that has the wrong type.
func Decode(object []byte, into any) error {
	if len(bytes.TrimLeft(object, " \t\r\n")) == 0 {
		return errNoContent
	}
	return withFieldPath(json.Unmarshal(object, into, lenient))
}

// Decode decodes the object of the request, see the function Decode.
func (r *Request) Decode(into any) error { return Decode(r.Object, into) }

// review is an AdmissionReview of version v1 or v1beta1.
type review struct {
	apiVersion string
	request    Request
}

// envelope contains the fields of an AdmissionReview that this package reads.
type envelope struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Request    *envelopeRequest `json:"request"`
}

type envelopeRequest struct {
	UID         string                      `json:"uid"`
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Operation   Operation                   `json:"operation"`
	User        User                        `json:"userInfo"`
	Object      jsontext.Value              `json:"object"`
	OldObject   jsontext.Value              `json:"oldObject"`
	Options     jsontext.Value              `json:"options"`
	DryRun      bool                        `json:"dryRun"`
}

const (
	groupV1      = "admission.k8s.io/v1"
	groupV1beta1 = "admission.k8s.io/v1beta1"
)

// decodeReview decodes the body of an HTTP request. In case of an error it also returns the fields that are already decoded, so that the
// answer can contain the UID.
func decodeReview(body []byte) (review, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(body), lenient)
	first := decoder.PeekKind()
	decoded := envelope{}
	err := json.UnmarshalDecode(decoder, &decoded)
	found := review{apiVersion: decoded.APIVersion}
	if decoded.Request != nil {
		found.request = decoded.Request.request()
	}
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax) || errors.Is(err, io.EOF):
		return found, err // the response contains this text
	case first != jsontext.KindBeginObject:
		return found, fmt.Errorf("expected an object, got %s", first)
	case err != nil:
		return found, withFieldPath(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return found, errors.New("there is more after the review")
	}
	return found, decoded.check()
}

// check returns an error if this is not an AdmissionReview with a request. An absent kind or apiVersion is accepted.
func (e *envelope) check() error {
	switch {
	case e.Kind != "" && e.Kind != "AdmissionReview":
		return fmt.Errorf("kind: expected AdmissionReview, got %q", e.Kind)
	case e.APIVersion != "" && e.APIVersion != groupV1 && e.APIVersion != groupV1beta1:
		return fmt.Errorf("apiVersion: expected admission.k8s.io/v1 or admission.k8s.io/v1beta1, got %q", e.APIVersion)
	case e.Request == nil:
		return errors.New("request: must be set")
	}
	return nil
}

func (r *envelopeRequest) request() Request {
	return Request{
		UID: r.UID, Kind: schema.GroupVersionKind(r.Kind), Resource: schema.GroupVersionResource(r.Resource), SubResource: r.SubResource,
		Name: r.Name, Namespace: r.Namespace, Operation: r.Operation, User: r.User, DryRun: r.DryRun,
		Object: notNull(r.Object), OldObject: notNull(r.OldObject), Options: notNull(r.Options),
	}
}

func notNull(value jsontext.Value) []byte {
	if value.Kind() == jsontext.KindNull {
		return nil
	}
	return value
}
