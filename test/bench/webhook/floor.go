package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/local/child"
)

// allowed is the response of a floor to every request, with a patch if it has one for the path.
const (
	allowed = `{"kind":"AdmissionReview","apiVersion":"%s","response":{"uid":"%s","allowed":true,"status":{"metadata":{},"code":200}%s}}`
	patched = `,"patchType":"JSONPatch","patch":"%s"`
)

// first returns the first string value of a name in a review, in the format of API servers.
func first(body []byte, name string) []byte {
	_, behind, _ := bytes.Cut(body, []byte(`"`+name+`":"`))
	text, _, _ := bytes.Cut(behind, []byte(`"`))
	return text
}

// serveFloor reads every request and allows it, until the context ends. The file, if there is one, contains the patches for the responses,
// by path.
func serveFloor(ctx context.Context, address, certificates, file string) error {
	answers := map[string]string{}
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(content, &answers); err != nil {
			return err
		}
	}
	bodies := sync.Pool{New: func() any { return &bytes.Buffer{} }}
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bodies.Get().(*bytes.Buffer) //nolint:errcheck // the pool contains nothing else
		defer bodies.Put(body)
		body.Reset()
		_, _ = body.ReadFrom(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, allowed, first(body.Bytes(), "apiVersion"), first(body.Bytes(), "uid"), answers[r.URL.Path])
	})}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	err := server.ListenAndServeTLS(filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to stop
	}
	return err
}

// startFloor starts this program as a floor at a port, optionally with a file of patches.
func (b *bench) startFloor(ctx context.Context, port int, answers string) (*child.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	name := fmt.Sprintf("floor-%d", port)
	floor, err := child.Start(child.Spec{
		Name: name, Path: self, Args: []string{"-floor", address, "-certificates", b.file("certificates"), "-answers", answers},
		Dir: b.dir, LogFile: b.file(name + ".log"), RecordFile: b.file(name + ".json"),
	})
	if err != nil {
		return nil, err
	}
	b.floors = append(b.floors, floor)
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return floor, connection.Close()
		}
		if err := floor.Failure(); err != nil {
			return nil, err
		}
		if err := gauge.Pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// keepAnswers sends the recorded reviews to the server, and writes its patches into a file for a floor.
func (b *bench) keepAnswers(ctx context.Context, reviews []review) (file string, err error) {
	c := b.newClient()
	defer c.CloseIdleConnections()
	answers := map[string]string{}
	for _, each := range reviews {
		_, answer, failure := post(ctx, c, b.ports.webhooks, each)
		if failure != nil {
			return "", failure
		}
		if patch := first(answer, "patch"); len(patch) > 0 {
			answers[each.path] = fmt.Sprintf(patched, patch)
		}
	}
	content, err := json.Marshal(answers)
	if err != nil {
		return "", err
	}
	file = b.file("answers.json")
	return file, os.WriteFile(file, content, 0o600)
}
