// Package diff is the subcommand that prints the plan of the ManagedResource controller for the sets of a file. It changes nothing: it only
// reads, and sends dry-run requests to the target.
package diff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource"
	"github.com/espalier-dev/espalier/internal/managedresource/applier"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/process"
)

// The exit codes of the subcommand, as of kubectl diff. 0 means that nothing would change.
const (
	exitChanges = 1
	exitFailure = 2
)

// Command returns the subcommand of a program. If the file is "-", the subcommand reads in, the standard input.
func Command(program process.Program, in io.Reader) process.Subcommand {
	return process.Subcommand{
		Name:    "diff",
		Purpose: "print what would be done with ManagedResources, or plain manifests, of a file",
		Run: func(ctx context.Context, args []string, out io.Writer) error {
			return run(ctx, program, args, in, out)
		},
	}
}

// flags are the flags of the command line.
type flags struct {
	file, config, output, name string
	// set is the name of the set that plain manifests belong to.
	set types.NamespacedName
}

func (f *flags) define(set *pflag.FlagSet) {
	set.StringVarP(&f.file, "filename", "f", "", "`file` to read, - for standard input (required)")
	set.StringVar(&f.config, "config", "",
		"configuration `file` of the controller: its clusters and settings count. Without it, the cluster of your kubeconfig is source and "+
			"target")
	set.StringVar(&f.name, "name", "default/diff", "`namespace/name` of the set that plain manifests would belong to")
	set.StringVarP(&f.output, "output", "o", "text", "text or json")
}

func (f *flags) check() error {
	namespace, short, found := strings.Cut(f.name, "/")
	f.set = types.NamespacedName{Namespace: namespace, Name: short}
	switch {
	case f.file == "":
		return errors.New("name a file with -f")
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("--output must be text or json, not %q", f.output)
	case !found || namespace == "" || short == "" || strings.Contains(short, "/"):
		return fmt.Errorf("--name must be like namespace/name, not %q", f.name)
	}
	return nil
}

const usage = `Prints what the controller would do with the ManagedResources of a file, read together with their Secrets, from the same
file or, where they are not in it, from the source cluster; or with plain manifests, taken as the whole content of one set.
Nothing is changed: the target is read and asked for dry runs.

Usage:
  %s -f FILE [--config FILE] [--name NAMESPACE/NAME] [--output text|json]

Flags:
%s
Exit codes:
  0   nothing would change
  1   something would
  2   there is an error, or something would fail or is unknown; what could be found out is printed
`

func run(ctx context.Context, program process.Program, args []string, in io.Reader, out io.Writer) error {
	f := &flags{}
	line := process.CommandLine{Name: program.Name + " diff", Usage: usage, Define: f.define, Check: f.check}
	if proceed, err := line.Parse(args, out); err != nil || !proceed {
		return err
	}
	content, file, err := open(f.file, in)
	if err != nil {
		return err
	}
	sets, err := read(file, content, f.set)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	plans, failure := planSets(ctx, program, f, sets)
	if err := show(out, f.output, plans); err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	return verdict(plans)
}

func open(name string, in io.Reader) (content []byte, shown string, err error) {
	if name == "-" {
		content, err = io.ReadAll(in)
		if err != nil {
			return nil, "", fmt.Errorf("read standard input: %w", err)
		}
		return content, "standard input", nil
	}
	content, err = os.ReadFile(name)
	if err != nil {
		return nil, "", fmt.Errorf("read file: %w", err)
	}
	return content, name, nil
}

// planSets plans the sets of the file. If some sets fail, it returns the plans of the others.
func planSets(ctx context.Context, program process.Program, f *flags, sets *input) ([]*plan.Plan, error) {
	cfg, setup, err := configure(program, f.config)
	if err != nil {
		return nil, err
	}
	needs, err := managedresource.Needs(cfg)
	if err != nil {
		return nil, err
	}
	var connections *process.Connections
	if f.config == "" {
		connections, err = setup.DialAsUser(needs.Scheme)
	} else {
		connections, err = setup.Dial(ctx, needs.Scheme)
	}
	if err != nil {
		return nil, err
	}
	reader := &overlay{Reader: connections.Source.Client, secrets: sets.secrets}
	planner, err := managedresource.NewPlanner(ctx, connections, reader, cfg)
	if err != nil {
		return nil, err
	}
	var (
		plans    []*plan.Plan
		failures []error
	)
	for _, mr := range sets.sets {
		computed, err := planSet(ctx, planner, connections.Source.Client, sets, mr)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		plans = append(plans, computed)
	}
	if len(plans) > 0 {
		plans[0].Remarks = append(plans[0].Remarks, sets.remarks...)
	}
	return plans, errors.Join(failures...)
}

// planSet computes the plan of one set of the file.
func planSet(ctx context.Context, planner *applier.Planner, source client.Reader, sets *input,
	mr *resourcesv1alpha1.ManagedResource,
) (*plan.Plan, error) {
	live, remark, err := lookUp(ctx, source, mr)
	if err != nil {
		return nil, err
	}
	sets.settle(mr, live)
	computed, err := planner.Plan(ctx, mr)
	if err != nil {
		return nil, fmt.Errorf("plan ManagedResource %s/%s: %w", mr.Namespace, mr.Name, err)
	}
	if remark != "" {
		computed.Remarks = append(computed.Remarks, remark)
	}
	return computed, nil
}

// nothingConfigured is the smallest valid configuration file: all fields have their defaults.
const nothingConfigured = "apiVersion: " + config.ResourceManagerAPIVersion + "\nkind: " + config.ResourceManagerKind + "\n"

func configure(program process.Program, file string) (*config.ResourceManagerConfiguration, *process.Setup, error) {
	if file != "" {
		return process.LoadFile(program, file, config.ResourceManager)
	}
	cfg, _, err := config.ResourceManager([]byte(nothingConfigured))
	if err != nil {
		return nil, nil, fmt.Errorf("fill in defaults: %w", err)
	}
	return cfg, &process.Setup{Program: program, Config: cfg.Process(), Log: logr.Discard()}, nil
}

// overlay reads the Secrets that the file contains from the file, and all other Secrets from the source.
type overlay struct {
	client.Reader
	secrets map[types.NamespacedName]*corev1.Secret
}

// Get implements client.Reader.
func (o *overlay) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if secret, ok := object.(*corev1.Secret); ok {
		if found := o.secrets[key]; found != nil {
			found.DeepCopyInto(secret)
			return nil
		}
	}
	return o.Reader.Get(ctx, key, object, options...)
}

// lookUp returns the existing set with the name of a set in the file; nil if there is none. If the source does not serve the kind, lookUp
// returns no error. If the source does not allow the user to read the set, remark says so.
func lookUp(ctx context.Context, source client.Reader, mr *resourcesv1alpha1.ManagedResource) (live *resourcesv1alpha1.ManagedResource,
	remark string, err error,
) {
	live = &resourcesv1alpha1.ManagedResource{}
	err = source.Get(ctx, client.ObjectKeyFromObject(mr), live)
	switch {
	case err == nil:
		return live, "", nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, "", nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("cannot see whether the set exists, so it is taken for a new one, and nothing can be said of what it would "+
			"delete: %v", err), nil
	}
	return nil, "", fmt.Errorf("look up ManagedResource %s/%s: %w", mr.Namespace, mr.Name, err)
}

func show(out io.Writer, format string, plans []*plan.Plan) error {
	for i, each := range plans {
		text := each.Text(plan.Unbounded)
		if format == "json" {
			var err error
			if text, err = each.JSON(plan.Unbounded); err != nil {
				return err
			}
		} else if i > 0 {
			text = "\n" + text
		}
		if _, err := io.WriteString(out, text); err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
	}
	return nil
}

// verdict turns the plans into the exit code.
func verdict(plans []*plan.Plan) error {
	changes := false
	for _, each := range plans {
		if each.Faulty() {
			return process.Exit(exitFailure, errors.New("something would fail or is unknown; see the plan"))
		}
		changes = changes || each.Changes()
	}
	if changes {
		return process.Exit(exitChanges, nil)
	}
	return nil
}
