package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
	"github.com/espalier-dev/espalier/test/bench/gauge"
)

// recorder stores the first body for each path, and allows everything.
type recorder struct {
	mu     sync.Mutex
	bodies map[string][]byte
}

// uid matches the UID of a review.
var uid = regexp.MustCompile(`"request":\{"uid":"([^"]*)"`)

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	found := uid.FindSubmatch(body)
	if err != nil || found == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	if r.bodies[request.URL.Path] == nil {
		r.bodies[request.URL.Path] = body
	}
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":{"uid":%q,"allowed":true}}`, found[1])
}

// review is a recorded body.
type review struct {
	path string
	body []byte
}

// record makes the API server send its reviews to a recorder, and returns them by path.
func (b *bench) record(ctx context.Context) (map[string][]byte, error) {
	r := &recorder{bodies: map[string][]byte{}}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(b.ports.recorder)))
	if err != nil {
		return nil, err
	}
	go func() {
		_ = server.ServeTLS(listener, filepath.Join(b.file("certificates"), "tls.crt"), filepath.Join(b.file("certificates"), "tls.key"))
	}()
	defer func() { _ = server.Close() }()
	err = b.prepareExamples(ctx)
	if err != nil {
		return nil, err
	}
	remove, err := b.register(ctx, b.ports.recorder)
	if err != nil {
		return nil, err
	}
	// All but the deletions and the eleven other extension kinds.
	wanted := len(registrations.Enabled(config.FlavorStandalone, b.cfg.Webhooks, registrations.Own{})) - 13
	for i := range 200 {
		if err := b.createExamples(ctx, fmt.Sprintf("recorded-%d", i)); err != nil {
			return nil, err
		}
		r.mu.Lock()
		done := len(r.bodies) >= wanted
		r.mu.Unlock()
		if done {
			return r.bodies, remove(ctx)
		}
		if err := gauge.Pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, errors.Join(fmt.Errorf("the API server called %d webhooks instead of %d", len(r.bodies), wanted), remove(ctx))
}

// register makes the API server call a port of loopback for all webhooks, and returns a function that removes the registration.
func (b *bench) register(ctx context.Context, port int) (func(context.Context) error, error) {
	own := registrations.Own{Name: "bench", Namespace: ownSpace, URL: "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	objects := registrations.Configurations(config.FlavorStandalone, b.cfg.Webhooks, own)(b.authority)
	for _, each := range objects {
		if err := b.client.Create(ctx, each); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		var err error
		for _, each := range objects {
			err = errors.Join(err, client.IgnoreNotFound(b.client.Delete(ctx, each)))
		}
		return err
	}, nil
}
