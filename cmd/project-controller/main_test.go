package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/process"
)

// asBinary is the variable that makes this test binary run as project-controller, so that tests use real exit codes and output.
const asBinary = "ESPALIER_PROJECT_CONTROLLER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		os.Exit(process.Main(run))
	}
	os.Exit(m.Run())
}

// start runs the binary until it ends, and returns its exit code and its output.
func start(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{asBinary + "=1"}, &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func configuration(t *testing.T, sections string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: controllermanager.config.gardener.cloud/v1alpha1\nkind: ControllerManagerConfiguration\n" + sections
	NewWithT(t).Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	return file
}

func TestProcessExitsWithTheFieldThatIsInvalid(t *testing.T) {
	for name, tc := range map[string]struct{ sections, want string }{
		"a quota without config": {
			"controllers: {project: {quotas: [{projectSelector: {}}]}}",
			"Error: error validating config: controllers.project.quotas[0].config: Required value: must provide a quota config\n",
		},
		"a quota of another kind": {
			"controllers: {project: {quotas: [{config: {apiVersion: v1, kind: ConfigMap}}]}}",
			"Error: error decoding config: controllers.project.quotas[0].config: /v1, Kind=ConfigMap is not a supported ResourceQuota " +
				"configuration\n",
		},
		"a negative number of days": {
			"controllers: {project: {minimumLifetimeDays: -1}}",
			"Error: error validating config: controllers.project.minimumLifetimeDays: Invalid value: -1: must be at least 0 and at most 100000\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, said := start(t, "--config", configuration(t, tc.sections))
			g.Expect(code).To(Equal(1))
			g.Expect(said).To(HavePrefix(tc.want))
			g.Expect(said).To(ContainSubstring("Usage:\n  project-controller --config=FILE"))
		})
	}
}

func TestProcessExitsWithoutAConfigFile(t *testing.T) {
	g := NewWithT(t)
	code, said := start(t)
	g.Expect(code).To(Equal(1))
	g.Expect(said).To(HavePrefix("Error: missing config file\n"))
	g.Expect(said).To(ContainSubstring("used instead of gardenClientConnection.kubeconfig\n  POD_NAMESPACE"), "there is no target")
}

// With an empty section, the process tries to reach the API server, which does not exist in this test.
func TestEmptyProjectSectionIsValid(t *testing.T) {
	for name, sections := range map[string]string{"empty": "controllers: {project: {}}", "absent": ""} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, said := start(t, "--config", configuration(t, sections))
			g.Expect(code).To(Equal(1))
			lines := strings.Split(strings.TrimSpace(said), "\n")
			g.Expect(lines[len(lines)-1]).
				To(Equal("Error: connect to garden cluster: no kubeconfig is named and this process does not run in a cluster; " +
					"check the in-cluster configuration, or name a kubeconfig in gardenClientConnection.kubeconfig or KUBECONFIG"))
		})
	}
}

func TestVersion(t *testing.T) {
	g := NewWithT(t)
	code, said := start(t, "--version")
	g.Expect(code).To(Equal(0))
	g.Expect(said).To(HavePrefix("project-controller "))
}

// A webhook server without a certificate could not answer any request.
func TestWebhooksWithoutTheirCertificateEndTheProcess(t *testing.T) {
	file := configuration(t, "espalier: {project: {webhooks: {tls: {serverCertPath: /does/not/exist}}}}")
	NewWithT(t).Expect(run(t.Context(), []string{"--config", file}, io.Discard)).
		To(MatchError("error validating config: espalier.project.webhooks.tls.serverKeyPath: Required value: must name the key of " +
			"serverCertPath"))
}
