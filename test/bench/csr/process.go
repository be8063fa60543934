package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

// process is the measured approver.
type process struct {
	child   *child.Process
	log     string
	metrics int
}

// startApprover builds the binary and runs it with its own rights and default settings, until it is ready.
func startApprover(ctx context.Context, w *world) (*process, error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(w.dir, "csr-approver")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/csr-approver")
	build.Dir, build.Stderr = root, os.Stderr
	if err = build.Run(); err != nil {
		return nil, fmt.Errorf("build csr-approver: %w", err)
	}
	c, err := client.New(w.plane.AdminConfig(), client.Options{})
	if err != nil {
		return nil, err
	}
	kubeconfig, err := binary.Identity(ctx, c, w.plane.AdminConfig(), "csr-approver", namespace, binary.Source, binary.Target)
	if err != nil {
		return nil, err
	}
	ports, err := gauge.FreePorts(2)
	if err != nil {
		return nil, err
	}
	p := &process{log: filepath.Join(w.dir, "approver.log"), metrics: ports[0]}
	config := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q, namespaces: [%s]}
leaderElection: {leaderElect: false} # so that all requests are about certificates
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
controllers: {kubeletCSRApprover: {enabled: true, concurrentSyncs: %d, machineNamespace: %s}}
`, filepath.Join(w.dir, "kubeconfig"), namespace, ports[1], p.metrics, approvals, namespace)
	err = errors.Join(
		os.WriteFile(filepath.Join(w.dir, "kubeconfig"), kubeconfig, 0o600),
		os.WriteFile(filepath.Join(w.dir, "config.yaml"), []byte(config), 0o600),
	)
	if err != nil {
		return nil, err
	}
	p.child, err = child.Start(child.Spec{
		Name: "csr-approver", Path: program, Args: []string{"--config=" + filepath.Join(w.dir, "config.yaml")},
		Dir: w.dir, LogFile: p.log, RecordFile: filepath.Join(w.dir, "record.json"),
	})
	if err != nil {
		return nil, err
	}
	err = p.working(ctx)
	return p, err
}

// working waits until the controller has read everything that its decisions need.
func (p *process) working(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		log, err := os.ReadFile(p.log)
		if err == nil && bytes.Contains(log, []byte("Starting workers")) {
			return nil
		}
		if err := errors.Join(p.child.Failure(), gauge.Pause(ctx, look)); err != nil {
			return fmt.Errorf("wait for csr-approver: %w; the end of its log:\n%s", err, child.Tail(p.log))
		}
	}
}

// requests returns how many it has sent so far.
func (p *process) requests(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", p.metrics), http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(string(page)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(series, "rest_client_requests_total{") {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("read metrics: %w", err)
			}
			sum += number
		}
	}
	return sum, nil
}

func (p *process) stop() error { return p.child.Stop(10 * time.Second) }
