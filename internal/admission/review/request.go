// Package review answers AdmissionReviews over HTTP. It decodes what is needed, and no more: the objects under review stay
// bytes, of which each handler reads its part.
package review

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Operation is what is done to the object.
type Operation string

// The operations of admission.k8s.io.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Request is what handlers get to know of an admission request. They must not change or keep its bytes.
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
	// User is who asks.
	User User
	// Object and OldObject are JSON; nil if absent or null.
	Object, OldObject []byte
	// Options are JSON: how the object is created, updated or deleted; nil if absent or null.
	Options []byte
	DryRun  bool

	// outline is that of Object; empty if it is not known.
	outline outline
}

// User is who sends a request.
type User struct {
	Name   string   `json:"username"`
	UID    string   `json:"uid"`
	Groups []string `json:"groups"`
	// Extra is what else the authenticator said about the user. To be handed on to authorizers.
	Extra map[string][]string `json:"extra"`
}

// errNoContent is worded as Gardener's handlers word it.
var errNoContent = errors.New("there is no content to decode")

// lenient reads JSON as API servers do: the last of equal names counts, and any bytes may be in strings.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) //nolint:gochecknoglobals // a constant, if Go had such

// Decode reads of an object what into, a pointer, has fields for, and skips the rest. Null is read as absent. The error
// names the field that has the wrong type. What is skipped is not looked at.
func Decode(object []byte, into any) error { return decode(object, nil, into) }

// Decode is the function of that name for the object of the request, and faster.
func (r *Request) Decode(into any) error { return decode(r.Object, r.outline, into) }

func decode(object []byte, known outline, into any) error {
	trimmed := bytes.TrimLeft(object, " \t\r\n")
	if len(trimmed) == 0 {
		return errNoContent
	}
	if len(trimmed) != len(object) {
		known = nil
	}
	used := scratches.Get().(*scratch) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	defer release(used)
	used.Reset()
	p := pruner{text: trimmed, outline: known}
	if kept, end := p.prune(used.AvailableBuffer(), 0, shapeFor(reflect.TypeOf(into))); end >= 0 {
		_, _ = used.Write(kept) // keeps what has grown for the next one
		trimmed = kept
	}
	return reworded(json.Unmarshal(trimmed, into, lenient))
}

// review is an AdmissionReview of either version.
type review struct {
	apiVersion, kind string
	request          Request
}

type groupVersionKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

type groupVersionResource struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
}

const reviewKind = "AdmissionReview"

const (
	groupV1      = "admission.k8s.io/v1"
	groupV1beta1 = "admission.k8s.io/v1beta1"
)

// decodeReview reads a body, to which the objects and options of the request then refer.
func decodeReview(body []byte, used outline) (review, error) {
	if found, ok := readEnvelope(body, used); ok {
		return found, nil
	}
	return decodeUnusual(body)
}

// decodeUnusual reads what readEnvelope leaves to it.
func decodeUnusual(body []byte) (review, error) {
	found := review{}
	given := false
	decoder := jsontext.NewDecoder(bytes.NewBuffer(body), lenient)
	err := members(decoder, func(name string) error {
		switch name {
		case "apiVersion":
			return json.UnmarshalDecode(decoder, &found.apiVersion) //nolint:wrapcheck // it is the text of the answer
		case "kind":
			return json.UnmarshalDecode(decoder, &found.kind) //nolint:wrapcheck // so is this
		case "request":
			given = decoder.PeekKind() == '{'
			if !given {
				return decoder.SkipValue() //nolint:wrapcheck // and this
			}
			return decodeRequest(decoder, body, &found.request)
		}
		return decoder.SkipValue() //nolint:wrapcheck // and this
	})
	if err != nil {
		return found, reworded(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return found, errors.New("there is more after the review")
	}
	if found.kind != "" && found.kind != reviewKind {
		return found, fmt.Errorf("kind: expected AdmissionReview, got %q", found.kind)
	}
	if found.apiVersion != "" && found.apiVersion != groupV1 && found.apiVersion != groupV1beta1 {
		return found, fmt.Errorf("apiVersion: expected admission.k8s.io/v1 or admission.k8s.io/v1beta1, got %q", found.apiVersion)
	}
	if !given {
		return found, errors.New("request: must be set")
	}
	return found, nil
}

func decodeRequest(decoder *jsontext.Decoder, body []byte, request *Request) error {
	var dryRun *bool
	kind, resource := groupVersionKind{}, groupVersionResource{}
	err := members(decoder, func(name string) error {
		var into any
		switch name {
		case "object":
			return rawValue(decoder, body, &request.Object)
		case "oldObject":
			return rawValue(decoder, body, &request.OldObject)
		case "options":
			return rawValue(decoder, body, &request.Options)
		case "uid":
			into = &request.UID
		case "kind":
			into = &kind
		case "resource":
			into = &resource
		case "subResource":
			into = &request.SubResource
		case "name":
			into = &request.Name
		case "namespace":
			into = &request.Namespace
		case "operation":
			into = &request.Operation
		case "userInfo":
			into = &request.User
		case "dryRun":
			into = &dryRun
		default:
			return decoder.SkipValue() //nolint:wrapcheck // it is the text of the answer
		}
		return json.UnmarshalDecode(decoder, into) //nolint:wrapcheck // so is this
	})
	request.Kind = schema.GroupVersionKind(kind)
	request.Resource = schema.GroupVersionResource(resource)
	request.DryRun = dryRun != nil && *dryRun
	return err
}

// rawValue checks a value and lets into refer to its bytes.
func rawValue(decoder *jsontext.Decoder, body []byte, into *[]byte) error {
	value, err := decoder.ReadValue()
	if err == nil && value.Kind() != 'n' {
		end := decoder.InputOffset()
		*into = body[end-int64(len(value)) : end : end]
	}
	return err //nolint:wrapcheck // it is the text of the answer
}

// members calls read for each name of an object, which must read its value.
func members(decoder *jsontext.Decoder, read func(name string) error) error {
	start, err := decoder.ReadToken()
	if err != nil {
		return err //nolint:wrapcheck // it is the text of the answer
	}
	if start.Kind() != '{' {
		return fmt.Errorf("expected an object, got %s", start.Kind())
	}
	for decoder.PeekKind() == '"' {
		name, failure := decoder.ReadToken()
		if failure == nil {
			failure = read(name.String())
		}
		if failure != nil {
			return failure
		}
	}
	_, err = decoder.ReadToken()
	return err //nolint:wrapcheck // and this
}
