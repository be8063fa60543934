package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

const (
	binaryName = "token-controllers"
	ownSpace   = "espalier-system"
	bareSpace  = "bare-system"
	// patience is how long a step may take.
	patience = 5 * time.Minute
)

// policy makes the audit log contain only the requests of the controller and the bare clients.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["system:serviceaccount:espalier-system:token-controllers", "system:serviceaccount:bare-system:token-controllers"]}
- {level: None}
`

// bench is a control plane and the measured process.
type bench struct {
	dir   string
	plane *local.ControlPlane
	admin *kubernetes.Clientset
	port  int
	// bareConfig is for another ServiceAccount with the rights of the controller: the API server does the same work for both.
	bareConfig *rest.Config
	process    *child.Process
}

func newBench(ctx context.Context) (*bench, error) {
	assets, err := local.Assets(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "espalier-bench-token-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir}
	if err := b.prepare(ctx, assets); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) prepare(ctx context.Context, assets string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(b.dir, binaryName), "github.com/espalier-dev/espalier/cmd/"+binaryName)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", binaryName, err, out)
	}
	var err error
	if b.plane, err = local.Start(ctx, local.Options{Dir: filepath.Join(b.dir, "plane"), Assets: assets, AuditPolicy: []byte(policy)}); err != nil {
		return err
	}
	cfg := b.plane.AdminConfig()
	cfg.QPS = -1
	if b.admin, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	err = b.namespace(ctx, ownSpace)
	if err != nil {
		return err
	}
	if b.bareConfig, err = b.bare(ctx, c); err != nil {
		return err
	}
	kubeconfig, err := binary.Identity(ctx, c, cfg, binaryName, ownSpace, binary.Source, binary.Target)
	if err != nil {
		return err
	}
	return b.configure(kubeconfig)
}

func (b *bench) bare(ctx context.Context, c client.Client) (*rest.Config, error) {
	if err := b.namespace(ctx, bareSpace); err != nil {
		return nil, err
	}
	kubeconfig, err := binary.Identity(ctx, c, b.plane.AdminConfig(), binaryName, bareSpace, binary.Source, binary.Target)
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return cfg, nil
}

func (b *bench) configure(kubeconfig []byte) error {
	ports, err := gauge.FreePorts(2)
	if err != nil {
		return err
	}
	b.port = ports[0]
	config := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false, resourceNamespace: %q}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
controllers: {tokenRequestor: {enabled: true}}
espalier: {token: {sameCluster: {scope: SecretNamespace}}}
`, b.file("kubeconfig"), ownSpace, ports[0], ports[1])
	return errors.Join(os.WriteFile(b.file("kubeconfig"), kubeconfig, 0o600), os.WriteFile(b.file("config.yaml"), []byte(config), 0o600))
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }

// close stops everything and removes all files.
func (b *bench) close() error {
	err := b.stopController()
	if b.plane != nil {
		err = errors.Join(err, b.plane.Stop())
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func (b *bench) startController(ctx context.Context) error {
	var err error
	b.process, err = child.Start(child.Spec{
		Name: binaryName, Path: b.file(binaryName), Args: []string{"--config=" + b.file("config.yaml")},
		Dir: b.dir, LogFile: b.file("log"), RecordFile: b.file("record.json"),
	})
	if err != nil {
		return err
	}
	return gauge.Await(ctx, patience, binaryName+" to be ready", func() (bool, error) {
		if err := b.process.Failure(); err != nil {
			return false, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", b.port), http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it is not ready yet
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
}

func (b *bench) stopController() error {
	if b.process == nil {
		return nil
	}
	defer func() { b.process = nil }()
	return b.process.Stop(10 * time.Second)
}

func (b *bench) namespace(ctx context.Context, name string) error {
	_, err := b.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}
