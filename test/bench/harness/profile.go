package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/test/local"
)

// Profile takes CPU profiles of a program and of an API server for that long, during the measurement, and then a profile of the program's
// heap. Program or cluster may be nil. The returned function waits until they are written. Without a folder for profiles it does nothing.
func (r *Run) Profile(name string, length time.Duration, p *Program, c *Cluster) (wait func()) {
	if r.Profiles == "" {
		return func() {}
	}
	path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(length.Round(time.Second)/time.Second)))
	var tasks []func() error
	if c != nil {
		tasks = append(tasks, func() error { return r.profileAPIServer(c, path, name+".apiserver") })
	}
	if p != nil {
		tasks = append(tasks, func() error {
			// The process may just have been started.
			err := p.await("profiles to be served", func(ctx context.Context) error {
				_, err := local.Get(ctx, http.DefaultClient, p.URL("/debug/pprof/"))
				return err
			})
			if err == nil {
				err = r.SaveProfile(p, path, name+".cpu")
			}
			if err == nil {
				err = r.SaveProfile(p, "/debug/pprof/heap", name+".heap")
			}
			return err
		})
	}
	done := make(chan error, len(tasks))
	for _, task := range tasks {
		go func() { done <- task() }()
	}
	return func() {
		for range tasks {
			if err := <-done; err != nil {
				r.Detail("a profile of this phase is missing: %v", err)
			}
		}
	}
}

// SaveProfile writes a profile of a program, if there is a folder for profiles.
func (r *Run) SaveProfile(p *Program, path, name string) error {
	if r.Profiles == "" {
		return nil
	}
	return r.save(http.DefaultClient, p.URL(path), name)
}

func (r *Run) profileAPIServer(c *Cluster, path, name string) error {
	cfg := c.AdminConfig()
	cfg.Timeout = Patience // the default timeout is shorter than a profile
	server, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	defer server.CloseIdleConnections()
	return r.save(server, cfg.Host+path, name)
}

func (r *Run) save(c *http.Client, url, name string) error {
	content, err := local.Get(r.Ctx, c, url)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Profiles, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Profiles, name+".pprof"), content, 0o600)
}
