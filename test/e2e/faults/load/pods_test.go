package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAPIServerAway(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	sent := func(err error) error { return &url.Error{Op: "Post", URL: "https://127.0.0.1", Err: err} }
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no program listens":                  {sent(syscall.ECONNREFUSED), true},
		"the connection is closed":            {sent(io.EOF), true},
		"the connection is reset":             {sent(syscall.ECONNRESET), true},
		"it ends":                             {apierrors.NewTooManyRequests("the apiserver is shutting down", 1), true},
		"it is not there yet":                 {apierrors.NewServiceUnavailable("apiserver not ready"), true},
		"it has not read what admission uses": {apierrors.NewForbidden(pods, "a", errors.New("not yet ready to handle request")), true},
		"etcd is away":                        {apierrors.NewInternalError(errors.New("rpc error: code = Unavailable")), true},
		"etcd does not answer":                {apierrors.NewTimeoutError("the request did not complete", 1), true},
		"a webhook was not reached":           {apierrors.NewInternalError(errors.New(`failed calling webhook "a": connection refused`)), false},
		"a webhook says no":                   {apierrors.NewInternalError(errors.New(`admission webhook "a" denied the request: no`)), false},
		"no answer came":                      {sent(context.DeadlineExceeded), false},
		"the Pod is forbidden":                {apierrors.NewForbidden(pods, "a", errors.New("violates PodSecurity")), false},
		"the Pod is invalid":                  {apierrors.NewBadRequest("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(APIServerAway(fmt.Errorf("show Pod to webhooks: %w", tc.err))).To(Equal(tc.want))
		})
	}
}

func TestCount(t *testing.T) {
	refused := fmt.Errorf("show Pod to webhooks: %w", syscall.ECONNREFUSED)
	webhook := errors.New(`failed calling webhook "a"`)
	for name, tc := range map[string]struct {
		err     error
		excused func(error) bool
		want    Figures
	}{
		"an answer":                                 {nil, nil, Figures{Asked: 1}},
		"none of a webhook was needed":              {errUnchanged, APIServerAway, Figures{Asked: 1, Unchanged: 1}},
		"no answer in time":                         {context.DeadlineExceeded, nil, Figures{Asked: 1, Unanswered: 1}},
		"no answer in time from an API server away": {context.DeadlineExceeded, APIServerAway, Figures{Asked: 1, Unanswered: 1}},
		"no webhook, and no API server either":      {webhook, APIServerAway, Figures{Asked: 1, Unanswered: 1}},
		"no API server":                             {refused, nil, Figures{Asked: 1, Unanswered: 1}},
		"no API server, which was taken away":       {refused, APIServerAway, Figures{}},
	} {
		t.Run(name, func(t *testing.T) {
			figures := Figures{}
			figures.count(tc.err, tc.excused)
			NewWithT(t).Expect(figures).To(Equal(tc.want))
		})
	}
}
