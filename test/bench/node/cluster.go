package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

const (
	binaryName = "node-controller"
	namespace  = "bench"
	stopGrace  = 30 * time.Second
	// auditPolicy records only the requests of node-controller, because the log costs time.
	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, users: ["system:serviceaccount:` + namespace + ":" + binaryName + `"]}
- {level: None}
`
)

func build(ctx context.Context, dir string, out io.Writer) (program, assets string, err error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return "", "", err
	}
	assets, err = local.Assets(ctx, out)
	if err != nil {
		return "", "", err
	}
	program = filepath.Join(dir, binaryName)
	command := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/"+binaryName)
	command.Dir, command.Stdout, command.Stderr = root, out, out
	if err := command.Run(); err != nil {
		return "", "", fmt.Errorf("build %s: %w", binaryName, err)
	}
	return program, assets, nil
}

// startController starts the real binary with its default settings, and waits until its caches are filled.
func startController(ctx context.Context, plane *local.ControlPlane, dir, program string) (*child.Process, error) {
	admin, err := client.New(plane.AdminConfig(), client.Options{})
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	if err = admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return nil, fmt.Errorf("create namespace: %w", err)
	}
	kubeconfig, err := binary.Identity(ctx, admin, plane.AdminConfig(), binaryName, namespace, binary.Source, binary.Target)
	if err != nil {
		return nil, err
	}
	ports, err := gauge.FreePorts(2)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
controllers: {node: {enabled: true}}
`, filepath.Join(dir, "kubeconfig"), ports[0], ports[1])
	for name, content := range map[string][]byte{"kubeconfig": kubeconfig, "config.yaml": []byte(config)} {
		if err = os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	process, err := child.Start(child.Spec{
		Name: binaryName, Path: program, Args: []string{"--config=" + filepath.Join(dir, "config.yaml")},
		Dir: dir, LogFile: filepath.Join(dir, "log"), RecordFile: filepath.Join(dir, "record.json"),
	})
	if err != nil {
		return nil, err
	}
	if err := awaitReady(ctx, process, ports[0]); err != nil {
		return nil, errors.Join(err, process.Failure(), process.Stop(stopGrace))
	}
	return process, nil
}

func awaitReady(ctx context.Context, process *child.Process, port int) error {
	url := fmt.Sprintf("http://127.0.0.1:%d/readyz", port)
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case <-process.Done():
			return false, errors.New("it has ended")
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return false, err // cannot happen
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil // it does not listen yet
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s to be ready: %w", binaryName, err)
	}
	return nil
}

// countRequests counts the requests of the audit log by "verb resource", without watches.
func countRequests(file string) (map[string]int, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(content)) {
		var event struct {
			Verb           string
			ObjectRef      struct{ Resource string }
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal([]byte(line), &event) != nil || event.Verb == "watch" {
			continue // the last line may be incomplete
		}
		name := event.Verb + " " + event.ObjectRef.Resource
		if event.ResponseStatus.Code >= http.StatusBadRequest {
			name += fmt.Sprintf(" (%d)", event.ResponseStatus.Code)
		}
		counts[name]++
	}
	return counts, nil
}

// peakMemory returns the maximum resident memory of the process, as the system formats it; "unknown" if it is not available.
func peakMemory(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
