package garden

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
	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
	"github.com/espalier-dev/espalier/internal/process"
)

// The exit codes of the subcommand plan. 0 means that nothing would change.
const (
	exitRefused = 1
	exitChanges = 2
)

// Planner returns the subcommand that prints the plan for a Garden. If the file is "-", it reads in, the standard input.
func Planner(program process.Program, in io.Reader) process.Subcommand {
	return process.Subcommand{
		Name:    "plan",
		Purpose: "print what a reconciliation of the Garden in a file would do; writes nothing",
		Run: func(ctx context.Context, args []string, out io.Writer) error {
			err := runPlan(ctx, program, args, in, out)
			if err != nil && !errors.Is(err, errChanges) {
				return process.Exit(exitRefused, err)
			}
			if err != nil {
				return process.Exit(exitChanges, nil)
			}
			return nil
		},
	}
}

var (
	errChanges = errors.New("something would change")
	errRefused = errors.New("the reconciliation would not succeed; see the plan")
)

// planFlags are the flags of the command line.
type planFlags struct {
	file, config, output, account string
	preflight                     bool
}

func (f *planFlags) define(set *pflag.FlagSet) {
	set.StringVarP(&f.file, "filename", "f", "", "`file` with the Garden, - for standard input (required)")
	set.StringVar(&f.config, "config", "", "configuration `file` of the operator: its images, settings and cluster count. Without it, the "+
		"defaults count, and the cluster of your kubeconfig")
	set.StringVarP(&f.output, "output", "o", "text", "text or json")
	set.BoolVar(&f.preflight, "preflight", false, "check what the runtime cluster needs, also if the Garden was reconciled before")
	set.StringVar(&f.account, "service-account", "espalier-system/espalier-garden-operator",
		"`namespace/name` of the ServiceAccount of the operator, whose rights the preflight checks; empty for your own rights")
}

func (f *planFlags) check() error {
	switch {
	case f.file == "":
		return errors.New("name a file with -f")
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("--output must be text or json, not %q", f.output)
	case f.account != "" && strings.Count(f.account, "/") != 1:
		return fmt.Errorf("--service-account must be like namespace/name, not %q", f.account)
	}
	return nil
}

const planUsage = `Prints what a reconciliation of the Garden in a file would do: the objects that change with their fields, the
workloads that restart and why, the tasks, what is refused, and what becomes unreadable or unreachable. For a Garden that was never
reconciled, it also prints what is missing. Nothing is written, no dry run is requested, and rights to read are enough.

Usage:
  %s -f FILE [--config FILE] [-o text|json] [--preflight] [--service-account NAMESPACE/NAME]

Flags:
%s
Exit codes:
  0   nothing would change
  1   there is an error, the Garden is refused, or something is missing
  2   something would change
`

func runPlan(ctx context.Context, program process.Program, args []string, in io.Reader, out io.Writer) error {
	f := &planFlags{}
	line := process.CommandLine{Name: program.Name + " plan", Usage: planUsage, Define: f.define, Check: f.check}
	if proceed, err := line.Parse(args, out); err != nil || !proceed {
		return err
	}
	input, err := newPlanInput(program, f, in)
	if err != nil {
		return err
	}
	p, err := plan.Make(ctx, *input)
	if err != nil {
		return err
	}
	if f.config == "" {
		p.Remarks = append(p.Remarks, "Without --config, the plan is for an operator with default settings: images and options may differ.")
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

// newPlanInput connects to the runtime cluster, and returns the input of a plan.
func newPlanInput(program process.Program, f *planFlags, in io.Reader) (*plan.Input, error) {
	file, err := readFile(f.file, in)
	if err != nil {
		return nil, err
	}
	cfg, cluster, live, err := connectReadOnly(program, f.config)
	if err != nil {
		return nil, err
	}
	programs, err := programsOfOthers(cluster.Config, cluster.HTTPClient)
	if err != nil {
		return nil, err
	}
	if _, err := skippedComponents(cfg); err != nil {
		return nil, err
	}
	now := clock.RealClock{}
	return &plan.Input{
		File: file, Always: f.preflight,
		Reconciler: lifecycle.Reconciler{
			Client: live, Clock: now, ServerTime: serverTime(cluster.Config, cluster.HTTPClient),
			Connection: &virtual.Connection{
				Reader: live, Namespace: deployable.GardenNamespace, Clock: now, Resolves: resolves,
				Tune: func(config *rest.Config) { config.QPS = -1; config.Wrap(readOnly) },
			},
			Identity: operatorv1alpha1.OperatorIdentity{ID: "plan", Name: "plan", Version: identity.GardenerVersion},
			Operator: operatorValues(cfg, programs), SyncPeriod: cfg.Controllers.Garden.SyncPeriod.Duration, Workers: 1,
			Schedule: schedule(cfg.Espalier.Garden.Rotation),
		},
		Preflight: plan.Preflight{
			Reader: live, Namespace: deployable.GardenNamespace, Namespaces: []string{deployable.GardenNamespace, deployable.IstioNamespace},
			Version: programs.RuntimeKubernetes, Allowed: rightsOf(live, f.account), Resolve: net.DefaultResolver.LookupHost,
		},
	}, nil
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

// nothingConfigured is the smallest valid configuration file: all fields have their defaults.
const nothingConfigured = "apiVersion: " + config.OperatorAPIVersion + "\nkind: " + config.OperatorKind + "\n"

// connectReadOnly returns a connection to the runtime cluster that refuses to write: the cluster of a configuration file or, if there is
// none, the cluster of the user.
func connectReadOnly(
	program process.Program, file string,
) (*config.OperatorConfiguration, *process.Connection, client.WithWatch, error) {
	scheme, err := lifecycle.Scheme()
	if err != nil {
		return nil, nil, nil, err
	}
	var cfg *config.OperatorConfiguration
	setup := &process.Setup{Program: program, Log: logr.Discard()}
	if file == "" {
		cfg, _, err = config.Operator([]byte(nothingConfigured))
	} else {
		cfg, setup, err = process.LoadFile(program, file, config.Operator)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	setup.WrapTransport = readOnly
	var cluster *process.Connection
	if file == "" {
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
