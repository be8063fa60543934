package kill_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
)

const binaryName = "managedresource-controller"

// controller is the real binary, as a process that is killed and restarted.
type controller struct {
	t *testing.T
	// dir is the folder with the configuration and the log of all processes. binary is the path of the program.
	dir, binary string
	// admin is an administrator's client configuration. With it, the test requests tokens for the controller's ServiceAccount, which is in the
	// served namespace.
	admin     *rest.Config
	namespace string

	process *child.Process
	starts  int
}

// newController builds the binary.
func newController(t *testing.T, admin *rest.Config, namespace string) *controller {
	t.Helper()
	g := NewWithT(t)
	c := &controller{t: t, dir: t.ArtifactDir(), binary: filepath.Join(t.TempDir(), binaryName), admin: admin, namespace: namespace}
	compile := local.Compile
	if os.Getenv("CRASH_RACE") == "1" {
		compile = local.CompileWithRace
	}
	g.Expect(compile(t.Context(), c.binary, "./cmd/"+binaryName)).To(Succeed())
	t.Cleanup(func() {
		if c.process != nil {
			_ = c.process.Stop(0)
		}
	})
	return c
}

func (c *controller) file(name string) string { return filepath.Join(c.dir, name) }

// start runs a new process. Its token is new, so that a long test does not outlast it, and so are its ports: another program may use the
// old ones now.
func (c *controller) start() {
	c.t.Helper()
	g := NewWithT(c.t)
	kubeconfig, err := local.ServiceAccountKubeconfig(c.t.Context(), c.admin, c.namespace, binaryName, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(c.file("kubeconfig"), kubeconfig, 0o600)).To(Succeed())
	ports := c.freePorts()
	config := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q, namespaces: [%s]}
leaderElection: {leaderElect: false}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
  webhooks: {bindAddress: 127.0.0.1, port: %d}
controllers:
  managedResource: {syncPeriod: 15s}
`, c.file("kubeconfig"), c.namespace, ports[0], ports[1], ports[2])
	g.Expect(os.WriteFile(c.file("config.yaml"), []byte(config), 0o600)).To(Succeed())
	c.starts++
	c.process, err = local.Binary{Name: binaryName, Path: c.binary, Dir: c.dir}.Start()
	g.Expect(err).NotTo(HaveOccurred())
}

// kill sends SIGKILL after some time, and reports the end of the process on the channel.
func (c *controller) kill(after time.Duration) <-chan error {
	done, process := make(chan error, 1), c.process
	time.AfterFunc(after, func() {
		if err := process.Failure(); err != nil { // the process must not have ended before the kill
			done <- err
			return
		}
		done <- process.Stop(0)
	})
	return done
}

// complaints returns the lines that must not appear in the log of any run.
func (c *controller) complaints() []string {
	c.t.Helper()
	log, err := os.ReadFile(c.file("log"))
	NewWithT(c.t).Expect(err).NotTo(HaveOccurred())
	var found []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "DATA RACE") || strings.Contains(strings.ToLower(line), "panic") {
			found = append(found, line)
		}
	}
	return found
}

func (c *controller) freePorts() (ports [3]int) {
	c.t.Helper()
	g := NewWithT(c.t)
	for i := range ports {
		port, release, err := local.FreePort()
		g.Expect(err).NotTo(HaveOccurred())
		c.t.Cleanup(release)
		ports[i] = port
	}
	return ports
}
