package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/chart/charttest"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// TestMain makes the test binary the program of the sandbox of charts, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == chart.ChildArgument {
		main()
	}
	os.Exit(binary.WithOwnServer(m))
}

func TestChildProcessesRenderCharts(t *testing.T) {
	g := NewWithT(t)
	sandbox := chart.NewSandbox()
	charttest.Ease(&sandbox.Memory, &sandbox.Time)
	archive := charttest.Archive(t, charttest.Files{
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}",
	})
	result, err := sandbox.Render(t.Context(), archive, nil, chart.Release{Name: "shop", Namespace: "a", KubernetesVersion: "1.36.1"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Manifests).To(HaveLen(1))
	g.Expect(result.Manifests[0].Objects).To(ConsistOf(HaveKeyWithValue("metadata", map[string]any{"name": "shop"})))
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	NewWithT(t).Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	return file
}

func TestConfigurationWithoutWorkersForNetworkPoliciesEndsTheProcess(t *testing.T) {
	file := write(t, "config.yaml", "apiVersion: operator.config.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\n")
	NewWithT(t).Expect(run(t.Context(), []string{"--config", file}, io.Discard)).
		To(MatchError("error validating config: controllers.networkPolicy.concurrentSyncs: Invalid value: 0: must be at least 1"))
}

func TestConnectionsAreNamedAfterTheRuntimeCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	file := write(t, "config.yaml", shipped())
	NewWithT(t).Expect(run(t.Context(), []string{"--config", file}, io.Discard)).
		To(MatchError("connect to runtime cluster: no kubeconfig is named and this process does not run in a cluster; " +
			"check the in-cluster configuration, or name a kubeconfig in runtimeClientConnection.kubeconfig or KUBECONFIG"))
}

func shipped() string {
	all := deployable.All()
	return all[slices.IndexFunc(all, func(b deployable.Binary) bool { return b.Name == "garden-operator" })].Config
}

// The process runs with the shipped roles and the shipped configuration. Only addresses differ.
func TestProcessBecomesReadyAsShipped(t *testing.T) {
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	admin, err := client.New(servers.Source.Config, client.Options{Scheme: scheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(t.Context(), admin, "deploy/namespace/*.yaml", "deploy/garden-operator/namespace/*.yaml",
		"deploy/garden-operator/crds/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := binary.Identity(t.Context(), admin, servers.Source.Config, "garden-operator", "espalier-system", binary.Source)
	g.Expect(err).NotTo(HaveOccurred())
	webhooks, probes, metrics := admissiontest.FreePort(t), admissiontest.FreePort(t), admissiontest.FreePort(t)
	config := strings.Replace(shipped(), "selfManaged: {}", fmt.Sprintf(`selfManaged: {url: "https://127.0.0.1:%d"}`, webhooks), 1) +
		fmt.Sprintf(`
server:
  webhooks: {bindAddress: 127.0.0.1, port: %d}
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
`, webhooks, probes, metrics)
	t.Setenv("KUBECONFIG", write(t, "kubeconfig", string(kubeconfig)))
	t.Setenv("POD_NAMESPACE", "espalier-system")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"--config", write(t, "config.yaml", config), "--strict-config"}, io.Discard)
	}()
	g.Eventually(func() (int, error) {
		select {
		case err := <-done:
			return 0, StopTrying("the process ended").Wrap(err)
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(probes))+"/readyz",
			http.NoBody)
		if err != nil {
			return 0, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}, binary.Patience).Should(Equal(http.StatusOK))
	stop()
	g.Eventually(done, binary.Patience).Should(Receive(BeNil()))
}
