package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

const minimalConfig = `apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
leaderElection: {resourceNamespace: garden}
`

func gardener() Program { return Program{Name: "gardener", Purpose: "Tends espaliers"} }

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	NewWithT(t).Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	return file
}

// runMain loads the configuration like a binary, and returns the exit code and the output.
func runMain(args ...string) (code int, out string) {
	var buffer bytes.Buffer
	code = supervise(func(_ context.Context, args []string, out io.Writer) error {
		_, _, err := Load(gardener(), args, out, config.ResourceManager)
		return err
	}, args, &buffer, nil, Grace)
	return code, buffer.String()
}

func TestMistakesOnTheCommandLineAndInTheFile(t *testing.T) {
	invalid := writeFile(t, "invalid.yaml", strings.ReplaceAll(minimalConfig, "garden}", `"", retryPeriod: -1s}`)+"logLevel: loud\n")
	for name, tc := range map[string]struct {
		args []string
		want string // the first line of the output
	}{
		"no config": {want: "Error: missing config file"},
		"a file that does not exist": {
			args: []string{"--config=/does/not/exist"},
			want: "Error: error reading config file: open /does/not/exist: no such file or directory",
		},
		"a file of another kind": {
			args: []string{"--config", writeFile(t, "c.yaml", "apiVersion: v1\nkind: ConfigMap")},
			want: `Error: error decoding config: [apiVersion: must be "resourcemanager.config.gardener.cloud/v1alpha1", not "v1", ` +
				`kind: must be "ResourceManagerConfiguration", not "ConfigMap"]`,
		},
		"invalid values, all together": {
			args: []string{"--config", invalid},
			want: `Error: error validating config: [leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero, ` +
				`leaderElection.resourceNamespace: Required value: must name the namespace of the lease, or leaderElect must be false, logLevel: ` +
				`Unsupported value: "loud": supported values: "debug", "info", "error"]`,
		},
		"an argument": {
			args: []string{"serve"}, want: `Error: parse command line: unexpected argument "serve"; only flags are taken`,
		},
		"an unknown flag": {args: []string{"--kubeconfig=x"}, want: "Error: parse command line: unknown flag: --kubeconfig"},
		"a version that is not known": {
			args: []string{"--version=short"},
			want: `Error: parse command line: invalid argument "short" for "--version" flag: must be true, false or raw, not "short"`,
		},
		"strict, with unknown and repeated fields": {
			args: []string{
				"--strict-config", "--config",
				writeFile(t, "c.yaml", minimalConfig+"foo: 1\nsourceClientConnection: {namespace: a}\nlogLevel: info\nlogLevel: debug\n"),
			},
			want: `Error: error decoding config: --strict-config refuses: [logLevel: set twice, the last one counts, foo: ` +
				`unknown field, ignored]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, out := runMain(tc.args...)
			g.Expect(code).To(Equal(1))
			first, rest, _ := strings.Cut(out, "\n")
			g.Expect(first).To(Equal(tc.want))
			g.Expect(rest).To(HavePrefix("\nTends espaliers.\n\nUsage:\n  gardener --config=FILE"))
		})
	}
}

func TestHelpExplainsItself(t *testing.T) {
	g := NewWithT(t)
	code, out := runMain("--help", "--config=/does/not/exist")
	g.Expect(code).To(Equal(0))
	g.Expect(out).To(Equal(`Tends espaliers.

Usage:
  gardener --config=FILE [--strict-config]

Flags:
      --config file                     path of the configuration file (required)
      --strict-config                   refuse a configuration file with unknown or repeated fields instead of warning of them
      --version true|false|raw[=true]   print the version and exit; raw prints it as JSON
  -h, --help                            print this text and exit

Environment:
  KUBECONFIG          path of a kubeconfig file; used instead of sourceClientConnection.kubeconfig
  TARGET_KUBECONFIG   path of a kubeconfig file; used instead of targetClientConnection.kubeconfig,
                      only if the configuration has a targetClientConnection
  POD_NAMESPACE       the namespace this process runs in, if its ServiceAccount does not contain it

Without a kubeconfig the process connects to the cluster that it runs in.
Every field of the configuration file is explained in docs/configuration.md.
`))
}

func TestVersionComesBeforeEverything(t *testing.T) {
	g := NewWithT(t)
	code, out := runMain("--version", "--config=/does/not/exist")
	g.Expect(code).To(Equal(0))
	g.Expect(out).To(Equal("gardener v0.0.0-dev\n"))

	code, out = runMain("--version=raw")
	g.Expect(code).To(Equal(0))
	var raw map[string]string
	g.Expect(json.Unmarshal([]byte(out), &raw)).To(Succeed())
	g.Expect(raw).To(And(HaveLen(4), HaveKeyWithValue("name", "gardener"), HaveKeyWithValue("version", "v0.0.0-dev"), HaveKey("goVersion"),
		HaveKey("platform")))

	code, out = runMain("--version=false")
	g.Expect(code).To(Equal(1))
	g.Expect(out).To(HavePrefix("Error: missing config file\n"))
}

func TestLoadTellsVersionFlagsAndWarnings(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBECONFIG", "")
	file := writeFile(t, "c.yaml", minimalConfig+"foo: 1\n")
	var out bytes.Buffer
	cfg, setup, err := Load(gardener(), []string{"--config", file}, &out, config.ResourceManager)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(setup.Program).To(Equal(gardener()))
	g.Expect(setup.Config).To(BeComparableTo(cfg.Process()))

	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var entry map[string]any
		g.Expect(json.Unmarshal([]byte(line), &entry)).To(Succeed())
		g.Expect(entry).To(HaveKey("ts"))
		delete(entry, "ts")
		lines = append(lines, entry)
	}
	g.Expect(lines).To(Equal([]map[string]any{
		{"level": "info", "msg": "Starting", "binary": "gardener", "version": "v0.0.0-dev"},
		{"level": "info", "msg": "Flag", "name": "config", "value": file},
		{"level": "info", "msg": "Flag", "name": "strict-config", "value": "false"},
		{"level": "info", "msg": "Flag", "name": "version", "value": "false"},
		{"level": "info", "msg": "Flag", "name": "help", "value": "false"},
		{"level": "info", "msg": "Configuration warning", "field": "foo", "warning": "unknown field, ignored"},
	}))
}

func TestLogLevelsAndFormats(t *testing.T) {
	for name, tc := range map[string]struct {
		level, format string
		want          []string
	}{
		"debug shows why nothing happened": {
			level: "debug", format: "json", want: []string{`"msg":"detail"`, `"msg":"change"`, `"msg":"failure"`},
		},
		"info":  {level: "info", format: "json", want: []string{`"msg":"change"`, `"msg":"failure"`}},
		"error": {level: "error", format: "json", want: []string{`"msg":"failure"`}},
		"text": {
			level: "info", format: "text", want: []string{"\tinfo\tchange\t{\"key\": \"value\"}", "\terror\tfailure"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			log := newLogger(&out, tc.level, tc.format, &end{})
			log.V(2).Info("trace")
			log.V(1).Info("detail")
			log.Info("change", "key", "value")
			log.Error(nil, "failure")
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			g.Expect(lines).To(HaveLen(len(tc.want)))
			for i, line := range lines {
				g.Expect(line).To(ContainSubstring(tc.want[i]))
			}
		})
	}
}

func TestOnlyInterruptionsAtTheEndAreNoErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		err         error
		level       string
		before, end string // the level of the log line; empty if there is no line
	}{
		"cancelled":     {err: fmt.Errorf("list: %w", context.Canceled), level: "info", before: "error", end: "info"},
		"left out":      {err: context.Canceled, level: "error", before: "error"},
		"an informer":   {err: errors.New("Timeout: failed waiting for *v1.Pod Informer to sync"), level: "info", before: "error", end: "info"},
		"a lease":       {err: errors.New("leader election lost"), level: "info", before: "error", end: "info"},
		"too slow":      {err: context.DeadlineExceeded, level: "info", before: "error", end: "error"},
		"another fault": {err: errors.New("no water"), level: "info", before: "error", end: "error"},
		"no error":      {level: "info", before: "error", end: "error"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stopping end
			log := newLogger(&out, tc.level, "text", &stopping)
			levelOf := func() string {
				out.Reset()
				log.WithValues("key", "value").Error(tc.err, "failure")
				if out.Len() == 0 {
					return ""
				}
				return strings.Split(out.String(), "\t")[1]
			}
			g.Expect(levelOf()).To(Equal(tc.before), "not connected")
			stopping.beginsWith(ctx)
			g.Expect(levelOf()).To(Equal(tc.before))
			cancel()
			g.Expect(levelOf()).To(Equal(tc.end))
		})
	}
}

func TestEnvironmentOverridesTheFile(t *testing.T) {
	file := func() config.Process {
		return config.Process{Source: config.ClientConnection{Kubeconfig: "s", QPS: 1}, Target: &config.ClientConnection{Kubeconfig: "t", QPS: 2}}
	}
	for name, tc := range map[string]struct {
		config config.Process
		env    map[string]string
		want   config.Process
	}{
		"nothing set":  {config: file(), want: file()},
		"empty values": {config: file(), env: map[string]string{"KUBECONFIG": "", "TARGET_KUBECONFIG": ""}, want: file()},
		"the source": {
			config: file(), env: map[string]string{"KUBECONFIG": "x"},
			want: config.Process{
				Source: config.ClientConnection{Kubeconfig: "x", QPS: 1}, Target: &config.ClientConnection{Kubeconfig: "t", QPS: 2},
			},
		},
		"the target": {
			config: file(), env: map[string]string{"TARGET_KUBECONFIG": "x"},
			want: config.Process{
				Source: config.ClientConnection{Kubeconfig: "s", QPS: 1}, Target: &config.ClientConnection{Kubeconfig: "x", QPS: 2},
			},
		},
		"no target set": {env: map[string]string{"TARGET_KUBECONFIG": "x"}, want: config.Process{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := file()
			g.Expect(withEnvironment(Program{}, tc.config, func(name string) string { return tc.env[name] })).To(BeComparableTo(tc.want))
			if tc.config.Target != nil {
				g.Expect(tc.config).To(BeComparableTo(before), "what was handed in must not change")
			}
		})
	}
}

func TestNamesThatOthersSee(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gardener().UserAgent()).To(Equal("espalier-gardener/gardener/v0.0.0-dev"))
	g.Expect(gardener().FieldManager()).To(Equal("espalier-gardener"))
	g.Expect(Program{Name: "x", SharesLease: true}.UserAgent()).To(Equal("espalier/x/v0.0.0-dev"))
	g.Expect(Program{Name: "x", SharesLease: true}.FieldManager()).To(Equal("espalier"))
	g.Expect(gardener().LeaseName("gardener-resource-manager")).To(Equal("gardener-resource-manager-gardener"))
	g.Expect(Program{Name: "x", SharesLease: true}.LeaseName("gardener-resource-manager")).To(Equal("gardener-resource-manager"))
	g.Expect(Program{Name: "x", KeepsLeaseName: true}.LeaseName("gardener-operator")).To(Equal("gardener-operator"))
	g.Expect(Program{Name: "x", KeepsLeaseName: true}.FieldManager()).To(Equal("espalier-x"))
}

func TestOwnNamespace(t *testing.T) {
	none := func(string) ([]byte, error) { return nil, os.ErrNotExist }
	file := func(name string) ([]byte, error) {
		if name != "/var/run/secrets/kubernetes.io/serviceaccount/namespace" {
			return nil, os.ErrNotExist
		}
		return []byte("from-file\n"), nil
	}
	unset := func(string) string { return "" }
	set := func(name string) string { return map[string]string{"POD_NAMESPACE": "from-env"}[name] }
	for name, tc := range map[string]struct {
		getenv func(string) string
		file   func(string) ([]byte, error)
		want   string
	}{
		"the variable comes first":       {getenv: set, file: file, want: "from-env"},
		"then the ServiceAccount's file": {getenv: unset, file: file, want: "from-file"},
		"then the lease's namespace":     {getenv: unset, file: none, want: "from-lease"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ownNamespace(tc.getenv, tc.file, "from-lease")).To(Equal(tc.want))
		})
	}
}

// A subcommand runs in the shell of a user, whose KUBECONFIG may name any cluster.
func TestTheShellOfASubcommandOnlyFillsGaps(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"KUBECONFIG": "x", "TARGET_KUBECONFIG": "y"}[name]
	}
	for name, tc := range map[string]struct{ file, want config.Process }{
		"both are named": {
			file: config.Process{Source: config.ClientConnection{Kubeconfig: "s"}, Target: &config.ClientConnection{Kubeconfig: "t"}},
			want: config.Process{Source: config.ClientConnection{Kubeconfig: "s"}, Target: &config.ClientConnection{Kubeconfig: "t"}},
		},
		"none is named": {
			file: config.Process{Source: config.ClientConnection{QPS: 1}, Target: &config.ClientConnection{QPS: 2}},
			want: config.Process{
				Source: config.ClientConnection{Kubeconfig: "x", QPS: 1}, Target: &config.ClientConnection{Kubeconfig: "y", QPS: 2},
			},
		},
		"there is no target": {
			file: config.Process{Source: config.ClientConnection{Kubeconfig: "s"}},
			want: config.Process{Source: config.ClientConnection{Kubeconfig: "s"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(unlessNamed(Program{}, tc.file, env)).To(BeComparableTo(tc.want))
		})
	}
}
