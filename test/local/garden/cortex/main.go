// Command cortex replaces the query frontend of cortex: it passes queries on to the Prometheus that its configuration names, without
// splitting them and without keeping results. It serves its own metrics, too.
//
//	cortex -config.file=FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/yaml"
)

// configuration is the part of the configuration that the program uses.
type configuration struct {
	Target string `json:"target"`
	Server struct {
		Port int `json:"http_listen_port"`
	} `json:"server"`
	Frontend struct {
		Downstream string `json:"downstream_url"`
	} `json:"frontend"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	file := flag.String("config.file", "", "the configuration")
	flag.Parse()
	err := run(ctx, *file)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	c := configuration{}
	if err = yaml.Unmarshal(content, &c); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	handler, err := c.handler()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: fmt.Sprintf(":%d", c.Server.Port), Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// handler returns the proxy, or an error if the configuration does not describe a query frontend.
func (c configuration) handler() (http.Handler, error) {
	downstream, err := url.Parse(c.Frontend.Downstream)
	if err != nil || downstream.Host == "" || c.Target != "query-frontend" || c.Server.Port == 0 {
		return nil, fmt.Errorf("the configuration needs target query-frontend, server.http_listen_port and frontend.downstream_url: %+v", c)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.Handle("/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(downstream) }})
	return mux, nil
}
