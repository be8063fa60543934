package garden_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"filippo.io/age"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/gardenstatus"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// asked is the result of a subcommand.
type asked struct {
	out, errs string
	code      int
}

// command returns a command line of the built program.
func (p *program) command(args ...string) *exec.Cmd {
	command := exec.CommandContext(p.t.Context(), p.binary, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(p.dir, "administrator.kubeconfig"))
	return command
}

// ask runs a subcommand of the built program, with a standard input.
func (p *program) ask(in string, args ...string) asked {
	p.t.Helper()
	var out, errs bytes.Buffer
	command := p.command(args...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(in), &out, &errs
	err := command.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		p.Expect(err).NotTo(HaveOccurred())
	}
	return asked{out.String(), errs.String(), command.ProcessState.ExitCode()}
}

// file writes a file, and returns its name.
func (p *program) file(name, content string) string {
	p.t.Helper()
	name = filepath.Join(p.dir, name)
	p.Expect(os.WriteFile(name, []byte(content), 0o600)).To(Succeed())
	return name
}

// gardenFile writes a file with the Garden and changes, and returns its name.
func (p *program) gardenFile(changes ...string) string {
	p.t.Helper()
	content, err := yaml.Marshal(p.garden(changes...).Object)
	p.Expect(err).NotTo(HaveOccurred())
	return p.file("garden.yaml", string(content))
}

// keys returns a digest of each key and certificate authority that only a rotation replaces, by the names of their Secrets.
func (p *program) keys() map[string]string {
	p.t.Helper()
	list, keys := &corev1.SecretList{}, map[string]string{}
	p.Expect(p.admin.List(p.t.Context(), list, client.InNamespace("garden"), client.MatchingLabels{
		"managed-by": "secrets-manager", "manager-identity": "gardener-operator",
	})).To(Succeed())
	for i := range list.Items {
		if slices.Contains(components.RotatedSecrets().Kept(), list.Items[i].Labels["name"]) {
			keys[list.Items[i].Name] = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, list.Items[i].Data)))
		}
	}
	return keys
}

// The subcommands run as built programs beside the operator, which is another process of the same program.
func TestSubcommandsOfTheBuiltProgram(t *testing.T) {
	o := stoppedOperator(t, reconciling)
	o.playKubelet()
	p := newProgram(o)
	servers := binary.Servers(t)
	p.file("administrator.kubeconfig", string(servers.Source.Kubeconfig))
	storage, err := servers.Source.Storage(local.IsWrittenByClients)
	o.Expect(err).NotTo(HaveOccurred())
	empty, err := storage.Copy(t.Context())
	o.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		p.kill()
		o.Expect(storage.Restore(context.WithoutCancel(t.Context()), empty)).To(Succeed())
	})
	p.start()
	o.awaitWebhooks()
	own := *o.Config // the configuration file of the operator, with the rights of the administrator
	own.RuntimeClientConnection.Kubeconfig = ""
	content, err := yaml.Marshal(own)
	o.Expect(err).NotTo(HaveOccurred())
	config := "--config=" + p.file("own.yaml", string(content))

	first := p.ask("", "plan", "-f", p.gardenFile(), config, "--service-account=", "--skip-images")
	o.Expect(first.code).To(Equal(1), first.out)
	o.Expect(first.errs).To(Equal("Error: the reconciliation would not succeed; see the plan\n"))
	o.Expect(first.out).To(And(
		HavePrefix("Plan for Garden garden (new)\nrefused: see below\n"), ContainSubstring("\nPreflight\n! storage: "),
		ContainSubstring("\n- dns: api.example.com "),
		ContainSubstring("\ncreate druid.gardener.cloud/v1alpha1 Etcd garden/virtual-garden-etcd-main\n"),
	))
	p.create()
	o.Eventually(p.succeeded, patience).Should(BeTrue())

	p.plans(config)
	p.screens(config)
	identity, err := age.GenerateX25519Identity()
	o.Expect(err).NotTo(HaveOccurred())
	saved := filepath.Join(p.dir, "garden.age")
	backup := p.ask("", "backup", "-f", saved, "-r", identity.Recipient().String())
	o.Expect(backup.code).To(BeZero(), backup.errs)
	o.Expect(backup.out).To(HavePrefix("Wrote " + saved + ": Garden garden, "))
	again := p.ask("", "backup", "-f", saved, "-r", identity.Recipient().String())
	o.Expect(again).To(Equal(asked{errs: "Error: " + saved + " exists already, or cannot be written: name a new file\n", code: 2}))

	p.kill()
	keys := p.keys()
	o.Expect(storage.Restore(t.Context(), empty)).To(Succeed())
	o.Eventually(p.isGone, patience).Should(BeTrue())
	o.Expect(p.ask("", "status").errs).To(Equal("Error: the cluster has no Garden\n"))
	restore := []string{"restore", "-f", saved, "-i", p.file("identity", identity.String())}
	restored := p.ask("", restore...)
	o.Expect(restored.code).To(BeZero(), restored.errs)
	o.Expect(restored.out).To(HaveSuffix("Garden garden is complete. The operator reconciles it.\n"))
	o.Expect(p.ask("", restore...).out).To(HaveSuffix("Everything in the file exists already. Nothing was written.\n"))
	p.start()
	o.Eventually(func() int { return p.ask("", "plan", "-f", p.gardenFile(), config).code }, patience).Should(BeZero())
	o.Expect(keys).NotTo(BeEmpty())
	o.Expect(p.keys()).To(Equal(keys))
}

// plans asks for plans of a Garden that the operator has reconciled.
func (p *program) plans(config string) {
	p.t.Helper()
	p.Eventually(func() int { return p.ask("", "plan", "-f", p.gardenFile(), config).code }, patience).Should(BeZero())
	none := p.ask("", "plan", "-f", p.gardenFile(), config)
	p.Expect(none.out).To(HavePrefix("Plan for Garden garden\nnothing would change\n"))
	p.Expect(p.ask("", "plan", "-f", p.gardenFile(), config, "--preflight", "--skip-images").out).To(ContainSubstring("\nPreflight\n"))

	gate := p.gardenFile("{spec: {virtualCluster: {kubernetes: {kubeAPIServer: {featureGates: {ContextualLogging: false}}}}}}")
	content, err := os.ReadFile(gate)
	p.Expect(err).NotTo(HaveOccurred())
	changed := p.ask(string(content), "plan", "-f", "-", config, "-o", "json")
	p.Expect(changed.code).To(Equal(2), changed.errs)
	p.Expect(changed.errs).To(BeEmpty())
	foreseen := &plan.Plan{}
	p.Expect(json.Unmarshal([]byte(changed.out), foreseen)).To(Succeed())
	p.Expect(foreseen.Restarts).To(ConsistOf(And(
		HaveField("Name", "virtual-garden-kube-apiserver"),
		HaveField("Reasons", ContainElement(ContainSubstring("flag --feature-gates"))),
	)))

	taken := p.ask("", "plan", "-f", p.gardenFile(), config, "--take-over", "--virtual-kubeconfig=none", "--skip-images")
	p.Expect(taken.out).To(ContainSubstring("\nWould be lost\n- nothing\n\nMust be removed\n"), taken.errs)

	refused := p.ask("", "plan", "-f", p.gardenFile("{spec: {virtualCluster: {kubernetes: {version: 1.36.0}}}}"), config)
	p.Expect(refused.code).To(Equal(1))
	p.Expect(refused.out).To(ContainSubstring("\nRefused\n! spec.virtualCluster.kubernetes.version: "))
	p.kubectl(config)
	defaults := p.ask("", "plan", "-f", p.gardenFile())
	p.Expect(defaults.code).To(BeZero(), defaults.errs)
	p.Expect(defaults.out).To(ContainSubstring("Without --config, the plan is for an operator with the shipped configuration"))
	for mistake, args := range map[string][]string{
		"name a file with -f":                    {"plan"},
		"--output must be text or json":          {"plan", "-f", "x", "-o", "yaml"},
		"--virtual-kubeconfig needs --take-over": {"plan", "-f", "x", "--virtual-kubeconfig", "none"},
		"name the version to reach with --to":    {"upgrade"},
		"version 1.99 of Kubernetes is not":      {"upgrade", "--to", "1.99"},
		"read file: open nowhere.yaml":           {"plan", "-f", "nowhere.yaml"},
		"the Garden has unknown fields: spec.x":  {"plan", "-f", p.gardenFile("{spec: {x: 1}}")},
	} {
		wrong := p.ask("", args...)
		p.Expect(wrong.code).To(Equal(1), mistake)
		p.Expect(wrong.errs).To(ContainSubstring(mistake))
	}
}

// kubectl asks the plugin of kubectl for plans.
func (p *program) kubectl(config string) {
	p.t.Helper()
	plugin := program{operator: p.operator, dir: p.dir, binary: filepath.Join(p.t.TempDir(), "kubectl-espalier")}
	p.Expect(local.Compile(p.t.Context(), plugin.binary, "./cmd/kubectl-espalier")).To(Succeed())
	none := plugin.ask("", "garden", "plan", "-f", p.gardenFile(), config)
	p.Expect(none.code).To(BeZero(), none.errs)
	p.Expect(none.out).To(HavePrefix("Plan for Garden garden\nnothing would change\n"))
	content, err := os.ReadFile(p.gardenFile("{spec: {virtualCluster: {dns: {domains: [{name: example.com}]}}}}"))
	p.Expect(err).NotTo(HaveOccurred())
	changed := plugin.ask(string(content), "garden", "plan", "-f", "-", config)
	p.Expect(changed.code).To(Equal(2), changed.errs)
	p.Expect(changed.errs).To(BeEmpty())
	p.Expect(changed.out).To(ContainSubstring("! api.example.org and gardener.example.org: clients with these addresses"))
	nowhere := plugin.ask("", "garden", "plan", "-f", p.gardenFile(), config, "--context", "nowhere")
	p.Expect(nowhere.code).To(Equal(1))
	p.Expect(nowhere.errs).To(ContainSubstring(`context "nowhere" does not exist`))
}

// screens asks for the state of the Garden, without and with a terminal.
func (p *program) screens(config string) {
	p.t.Helper()
	text := p.ask("", "status", config)
	p.Expect(text.code).To(BeZero(), text.errs)
	p.Expect(text.out).To(And(HavePrefix("Garden garden\n"), ContainSubstring("Reconcile Succeeded"), Not(ContainSubstring("\x1b"))))
	for line := range strings.Lines(text.out) {
		p.Expect(len([]rune(strings.TrimSuffix(line, "\n")))).To(BeNumerically("<=", 80), line)
	}
	screen := &gardenstatus.Screen{}
	p.Expect(json.Unmarshal([]byte(p.ask("", "status", "-o", "json").out), screen)).To(Succeed())
	p.Expect(screen.Versions.Kubernetes).To(Equal("1.34.1"))
	p.Expect(screen.Etcds).NotTo(BeEmpty())

	var lines writer
	watching := p.command("status", "--watch")
	watching.Stdout = &lines
	p.Expect(watching.Start()).To(Succeed())
	p.Eventually(lines.String, patience).Should(ContainSubstring("Garden garden\n"))
	p.Expect(p.change(p.garden(), "{metadata: {annotations: {espalier.dev/paused-until: 'true'}}}")).To(Succeed())
	p.Eventually(lines.String, patience).Should(MatchRegexp("(?s)Garden garden\n.*Garden garden\n.*paused until"))
	p.Expect(watching.Process.Signal(syscall.SIGINT)).To(Succeed())
	p.Expect(watching.Wait()).To(Succeed())
	p.Expect(lines.String()).NotTo(ContainSubstring("\x1b"))

	p.Expect(p.onTerminal("status")).To(ContainSubstring("\x1b[33m"))
	p.Expect(p.onTerminal("status", "NO_COLOR=1")).NotTo(ContainSubstring("\x1b"))
	p.Expect(p.change(p.garden(), "{metadata: {annotations: {espalier.dev/paused-until: null}}}")).To(Succeed())
}

// onTerminal returns the output of a subcommand whose standard output is a terminal.
func (p *program) onTerminal(subcommand string, environment ...string) string {
	p.t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	p.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = terminal.Close() }()
	p.Expect(unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)).To(Succeed())
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	p.Expect(err).NotTo(HaveOccurred())
	other, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	p.Expect(err).NotTo(HaveOccurred())
	command := p.command(subcommand)
	command.Env = slices.DeleteFunc(command.Env, func(each string) bool { return strings.HasPrefix(each, "NO_COLOR=") })
	command.Env = append(command.Env, environment...)
	command.Stdout = other
	p.Expect(command.Run()).To(Succeed())
	buffer := make([]byte, 1<<16)
	read, err := terminal.Read(buffer)
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(other.Close()).To(Succeed())
	return string(buffer[:read])
}

// writer collects the output of a process that runs.
type writer struct {
	mu      sync.Mutex
	content bytes.Buffer
}

// Write implements io.Writer.
func (w *writer) Write(content []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.content.Write(content)
}

// String returns the output so far.
func (w *writer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.content.String()
}
