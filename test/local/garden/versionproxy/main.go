// Command versionproxy lets a program run that does not support the version of the cluster yet. It forwards requests, which need no
// credentials, from an address of the same Pod to the API server of the cluster, with the rights of the Pod's ServiceAccount. It replaces
// only the version that the API server reports.
//
//	versionproxy 127.0.0.1:8001 v1.36.0
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: versionproxy ADDRESS VERSION")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find API server: %w", err)
	}
	handler, err := newHandler(config, args[1])
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", args[0])
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// newHandler returns a handler that forwards requests to the API server, and reports the version instead of its own one.
func newHandler(config *rest.Config, reported string) (http.Handler, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("create transport: %w", err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("parse address of API server: %w", err)
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1, // events of watches must not be delayed
		ModifyResponse: func(response *http.Response) error {
			if response.Request.URL.Path != "/version" || response.StatusCode != http.StatusOK {
				return nil
			}
			return replaceVersion(response, reported)
		},
	}, nil
}

func replaceVersion(response *http.Response, reported string) error {
	info := version.Info{}
	if err := errors.Join(json.NewDecoder(response.Body).Decode(&info), response.Body.Close()); err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	if _, err := fmt.Sscanf(reported, "v%1s.%2s", &info.Major, &info.Minor); err != nil {
		return fmt.Errorf("parse version %q: %w", reported, err)
	}
	info.GitVersion = reported
	content, err := json.Marshal(info)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(content))
	response.ContentLength = int64(len(content))
	response.Header.Set("Content-Length", strconv.Itoa(len(content)))
	return nil
}
