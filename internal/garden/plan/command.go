package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart/registry"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/settings"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/process"
)

// The exit codes of the command. 0 means that nothing would change.
const (
	exitRefused = 1
	exitChanges = 2
)

// Command returns the subcommand that prints the plan for a Garden. If the file is "-", it reads in, the standard input.
func Command(program process.Program, in io.Reader) process.Subcommand {
	return process.Subcommand{
		Name:    "plan",
		Purpose: "print what a reconciliation of the Garden in a file would do; writes nothing",
		Run: func(ctx context.Context, args []string, out io.Writer) error {
			f := &flags{}
			line := process.CommandLine{Name: program.Name + " plan", Usage: usage, Define: f.define, Check: f.check}
			if proceed, err := line.Parse(args, out); err != nil || !proceed {
				return exit(err)
			}
			return exit(f.run(ctx, program, nil, in, out))
		},
	}
}

// KubectlCommand returns the same command for kubectl espalier, which has flags of its own for the cluster of the user.
func KubectlCommand(program process.Program, cluster clientcmd.ClientConfig, in io.Reader) *cobra.Command {
	f := &flags{}
	command := &cobra.Command{
		Use: "plan -f FILE", Short: "Print what a reconciliation of the Garden in a file would do", Args: cobra.NoArgs, Long: purpose + exitCodes,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return exit(fmt.Errorf("%w; see %s --help", err, c.CommandPath()))
			}
			return exit(f.run(c.Context(), program, cluster, in, c.OutOrStdout()))
		},
	}
	f.define(command.Flags())
	return command
}

// exit returns the error that ends the command with the exit code for err.
func exit(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errChanges):
		return process.Exit(exitChanges, nil)
	}
	return process.Exit(exitRefused, err)
}

var (
	errChanges = errors.New("something would change")
	errRefused = errors.New("the reconciliation would not succeed; see the plan")
)

// Settings are the flags of commands that make plans.
type Settings struct {
	config, account string
	skipImages      bool
}

// Define adds the flags.
func (f *Settings) Define(set *pflag.FlagSet) {
	set.StringVar(&f.config, "config", "", "configuration `file` of the operator: its images, settings and cluster count. Without it, the "+
		"shipped configuration counts, and the cluster of your kubeconfig")
	set.BoolVar(&f.skipImages, "skip-images", false, "do not ask registries for images that no workload has yet: the preflight then "+
		"needs no network beside the cluster and DNS")
	set.StringVar(&f.account, "service-account", "espalier-system/espalier-garden-operator",
		"`namespace/name` of the ServiceAccount of the operator, whose rights the preflight checks; empty for your own rights")
}

// Check returns the first mistake in the flags.
func (f *Settings) Check() error {
	if f.account != "" && strings.Count(f.account, "/") != 1 {
		return fmt.Errorf("--service-account must be like namespace/name, not %q", f.account)
	}
	return nil
}

// flags are the flags of both command lines.
type flags struct {
	Settings
	file, output, virtualKubeconfig string
	preflight, takeOver             bool
}

func (f *flags) define(set *pflag.FlagSet) {
	set.StringVarP(&f.file, "filename", "f", "", "`file` with the Garden, - for standard input (required)")
	set.StringVarP(&f.output, "output", "o", "text", "text or json")
	set.BoolVar(&f.preflight, "preflight", false, "check what the runtime cluster needs, also if the Garden was reconciled before")
	set.BoolVar(&f.takeOver, "take-over", false, "also say what to know before garden-operator takes over a garden of other programs: what "+
		"would be lost, what must be removed, and what stays unmanaged")
	set.StringVar(&f.virtualKubeconfig, "virtual-kubeconfig", "", "with --take-over, `file` with a kubeconfig for the virtual cluster; none: "+
		"it has no API server. Without it, the kubeconfig of the operator counts")
	f.Settings.Define(set)
}

func (f *flags) check() error {
	switch {
	case f.file == "":
		return errors.New("name a file with -f")
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("--output must be text or json, not %q", f.output)
	case f.virtualKubeconfig != "" && !f.takeOver:
		return errors.New("--virtual-kubeconfig needs --take-over")
	}
	return f.Settings.Check()
}

const (
	purpose = `Prints what a reconciliation of the Garden in a file would do: the objects that change with their fields, the
workloads that restart and why, the tasks, what is refused, and what becomes unreadable or unreachable. For a Garden that was never
reconciled, it also prints what is missing. Nothing is written, no dry run is requested, and rights to read are enough.
`
	exitCodes = `
Exit codes:
  0   nothing would change
  1   there is an error, the Garden or the take-over is refused, or something is missing
  2   something would change
`
	usage = purpose + `
Usage:
  %s -f FILE [--config FILE] [-o text|json] [--preflight] [--skip-images] [--service-account NAMESPACE/NAME]
    [--take-over [--virtual-kubeconfig FILE|none]]

Flags:
%s` + exitCodes
)

// run prints the plan. Cluster is the kubeconfig of the user. If it is nil, run uses the cluster that the configuration file names or,
// without such a file, the cluster of the default kubeconfig.
func (f *flags) run(ctx context.Context, program process.Program, cluster clientcmd.ClientConfig, in io.Reader, out io.Writer) error {
	file, err := readFile(f.file, in)
	if err != nil {
		return err
	}
	input, err := f.input(program, cluster)
	if err != nil {
		return err
	}
	input.File = file
	p, err := Make(ctx, *input)
	if err != nil {
		return err
	}
	if f.config == "" {
		p.Remarks = append(p.Remarks,
			"Without --config, the plan is for an operator with the shipped configuration: images and options may differ.")
	}
	text := p.Text()
	if f.output == "json" {
		if text, err = p.JSON(); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	switch {
	case p.IsRefused():
		return errRefused
	case p.Changes():
		return errChanges
	}
	return nil
}

// input connects to the runtime cluster, and returns the input of the plan without the file.
func (f *flags) input(program process.Program, user clientcmd.ClientConfig) (*Input, error) {
	input, connection, err := f.Settings.input(program, user)
	if err != nil {
		return nil, err
	}
	input.Always, input.TakeOver, input.Virtual = f.preflight, f.takeOver, f.virtual(connection)
	return input, nil
}

// Input connects to the runtime cluster, and returns the input of a plan, except the file with the Garden. The parameter user is the
// kubeconfig of the user. If it is nil, Input uses the cluster that the configuration file names or, without such a file, the cluster of
// the default kubeconfig.
func (f *Settings) Input(program process.Program, user clientcmd.ClientConfig) (*Input, error) {
	input, _, err := f.input(program, user)
	return input, err
}

func (f *Settings) input(program process.Program, user clientcmd.ClientConfig) (*Input, *virtual.Connection, error) {
	cfg, cluster, live, err := ConnectReadOnly(program, f.config, user)
	if err != nil {
		return nil, nil, err
	}
	programs, err := settings.ProgramsOfOthers(cluster.Config, cluster.HTTPClient)
	if err != nil {
		return nil, nil, err
	}
	if _, err := settings.SkippedComponents(cfg); err != nil {
		return nil, nil, err
	}
	hasImage := func(ctx context.Context, image string) (bool, error) {
		return registry.Source{Reference: image}.Exists(ctx)
	}
	if f.skipImages {
		hasImage = nil
	}
	now, operator := clock.RealClock{}, settings.Values(cfg, programs)
	connection := VirtualReadOnly(live, now)
	return &Input{
		Reconciler: lifecycle.Reconciler{
			Client: live, Clock: now, ServerTime: settings.ServerTime(cluster.Config, cluster.HTTPClient),
			Connection: connection,
			Identity:   operatorv1alpha1.OperatorIdentity{ID: "plan", Name: "plan", Version: identity.GardenerVersion},
			Operator:   operator, SyncPeriod: cfg.Controllers.Garden.SyncPeriod.Duration, Workers: 1,
			Schedule: settings.Schedule(cfg.Espalier.Garden.Rotation),
		},
		Preflight: Preflight{
			Reader: live, Namespace: deployable.GardenNamespace, Namespaces: namespacesOf(cfg.Espalier.Garden.Backup),
			Operator: operator, Version: programs.RuntimeKubernetes, Allowed: rightsOf(live, f.account), Resolve: net.DefaultResolver.LookupHost,
			HasImage: hasImage,
		},
	}, connection, nil
}

// namespacesOf returns the namespaces that must exist before the operator runs.
func namespacesOf(b config.EspalierGardenBackup) []string {
	namespaces := []string{deployable.GardenNamespace, deployable.IstioNamespace}
	if b.RestoreData {
		namespaces = append(namespaces, deployable.RestoreDrillNamespace)
	}
	return namespaces
}

// noVirtualCluster is the value of --virtual-kubeconfig for a virtual cluster without an API server.
const noVirtualCluster = "none"

// virtual returns a function that connects to the virtual cluster of a garden to take over; nil: it is not read.
func (f *flags) virtual(connection *virtual.Connection) func(context.Context) (client.Reader, error) {
	switch f.virtualKubeconfig {
	case noVirtualCluster:
		return nil
	case "":
		return func(ctx context.Context) (client.Reader, error) {
			clients, err := connection.Clients(ctx)
			if err != nil {
				return nil, err
			}
			return clients.Client, nil
		}
	}
	return func(context.Context) (client.Reader, error) {
		config, err := clientcmd.BuildConfigFromFlags("", f.virtualKubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig: %w", err)
		}
		config.Wrap(readOnly)
		reader, err := client.New(config, client.Options{})
		if err != nil {
			return nil, fmt.Errorf("create client: %w", err)
		}
		return reader, nil
	}
}

func readFile(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return content, nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return content, nil
}

// shipped returns the configuration file of the operator in this release.
func shipped() (*config.OperatorConfiguration, error) {
	operator, known := deployable.Named("garden-operator")
	if !known {
		return nil, errors.New("this release has no configuration of garden-operator")
	}
	cfg, _, err := config.Operator([]byte(operator.Config))
	return cfg, err
}

// ConnectReadOnly returns a connection to the runtime cluster that refuses to write. If user is not nil, the runtime cluster is the
// cluster of this kubeconfig. Otherwise it is the cluster that the configuration file names or, without such a file, the cluster of the
// default kubeconfig.
func ConnectReadOnly(
	program process.Program, file string, user clientcmd.ClientConfig,
) (*config.OperatorConfiguration, *process.Connection, client.WithWatch, error) {
	return connect(program, file, user, readOnly)
}

// Connect returns a client for the same cluster that can write.
func (f *Settings) Connect(program process.Program, user clientcmd.ClientConfig) (client.WithWatch, error) {
	_, _, live, err := connect(program, f.config, user, nil)
	return live, err
}

func connect(
	program process.Program, file string, user clientcmd.ClientConfig, wrap func(http.RoundTripper) http.RoundTripper,
) (*config.OperatorConfiguration, *process.Connection, client.WithWatch, error) {
	scheme, err := lifecycle.Scheme()
	if err != nil {
		return nil, nil, nil, err
	}
	var cfg *config.OperatorConfiguration
	setup := &process.Setup{Program: program, Log: logr.Discard()}
	if file == "" {
		cfg, err = shipped()
	} else {
		cfg, setup, err = process.LoadFile(program, file, config.Operator)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	setup.WrapTransport, setup.UserConfig = wrap, user
	var cluster *process.Connection
	if file == "" || user != nil {
		var connections *process.Connections
		if connections, err = setup.DialAsUser(scheme); err == nil {
			cluster = connections.Source
		}
	} else {
		cluster, err = setup.ConnectSource(scheme)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	live, err := client.NewWithWatch(cluster.Config, client.Options{HTTPClient: cluster.HTTPClient, Scheme: scheme})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("create client: %w", err)
	}
	return cfg, cluster, live, nil
}

// VirtualReadOnly returns a connection to the virtual cluster that refuses to write.
func VirtualReadOnly(runtime client.Reader, now clock.PassiveClock) *virtual.Connection {
	return &virtual.Connection{
		Reader: runtime, Namespace: deployable.GardenNamespace, Clock: now, Resolves: settings.Resolves,
		Tune: func(config *rest.Config) { config.QPS = -1; config.Wrap(readOnly) },
	}
}

// readOnly returns a transport that refuses every request that could write.
func readOnly(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		// Reviews of rights are created, but no API server stores them.
		review := request.Method == http.MethodPost && strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/")
		if request.Method == http.MethodGet || review {
			return next.RoundTrip(request)
		}
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: this connection only reads", request.Method, request.URL.Path)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// rightsOf returns a function that reports whether a ServiceAccount has a right, or the user if there is no account.
func rightsOf(c client.Client, account string) func(context.Context, authorizationv1.ResourceAttributes) (bool, error) {
	return func(ctx context.Context, right authorizationv1.ResourceAttributes) (bool, error) {
		if account == "" {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
			err := c.Create(ctx, review)
			return review.Status.Allowed, err
		}
		namespace, name, _ := strings.Cut(account, "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &right, User: "system:serviceaccount:" + namespace + ":" + name,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		}}
		err := c.Create(ctx, review)
		return review.Status.Allowed, err
	}
}
