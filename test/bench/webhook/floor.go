package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/test/local/child"
)

// allowed is what the floor answers to everything.
const allowed = `{"kind":"AdmissionReview","apiVersion":"%s","response":{"uid":"%s","allowed":true,"status":{"metadata":{},"code":200}}}`

// first returns the first string of a name in a review as API servers write it.
func first(body []byte, name string) []byte {
	_, behind, _ := bytes.Cut(body, []byte(`"`+name+`":"`))
	text, _, _ := bytes.Cut(behind, []byte(`"`))
	return text
}

// serveFloor reads whatever comes and allows it, until the context ends.
func serveFloor(ctx context.Context, address, certificates string) error {
	bodies := sync.Pool{New: func() any { return &bytes.Buffer{} }}
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bodies.Get().(*bytes.Buffer) //nolint:forcetypeassert,errcheck // the pool holds nothing else
		defer bodies.Put(body)
		body.Reset()
		_, _ = body.ReadFrom(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, allowed, first(body.Bytes(), "apiVersion"), first(body.Bytes(), "uid"))
	})}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	err := server.ListenAndServeTLS(filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to end
	}
	return err
}

// startFloor starts this program as a floor.
func (b *bench) startFloor(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(b.ports.floor))
	b.floor, err = child.Start(child.Spec{
		Name: "floor", Path: self, Args: []string{"-floor", address, "-certificates", b.file("certificates")},
		Dir: b.dir, LogFile: b.file("floor.log"), RecordFile: b.file("floor.json"),
	})
	if err != nil {
		return err
	}
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		if err := b.floor.Failure(); err != nil {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
