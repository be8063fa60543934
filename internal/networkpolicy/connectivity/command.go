// Package connectivity is the subcommand that prints which Pods may connect to which, according to the NetworkPolicies of a cluster. It
// only reads.
package connectivity

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
)

// page is the number of objects per list request.
const page = 500

// The formats of the output.
const (
	formatTable = "table"
	formatDot   = "dot"
)

// Command returns the subcommand of a program.
func Command(program process.Program) process.Subcommand {
	return process.Subcommand{
		Name:    "connectivity",
		Purpose: "print which Pods may talk to which, by the NetworkPolicies of the cluster",
		Run: func(ctx context.Context, args []string, out io.Writer) error {
			return run(ctx, program, args, out)
		},
	}
}

type flags struct{ namespace, config, output string }

func (f *flags) define(set *pflag.FlagSet) {
	set.StringVarP(&f.namespace, "namespace", "n", "", "only what concerns Pods of this `namespace`; without it, of all")
	set.StringVarP(&f.output, "output", "o", formatTable, "table, or dot for Graphviz")
	set.StringVar(&f.config, "config", "", "configuration `file` of the controller: its target cluster counts. Without it, the cluster "+
		"of your kubeconfig")
}

func (f *flags) check() error {
	if f.output != formatTable && f.output != formatDot {
		return fmt.Errorf("--output must be table or dot, not %q", f.output)
	}
	return nil
}

const usage = `Prints which Pods may talk to which, computed from all NetworkPolicies of a cluster, and the Pods that run
in it. Both sides count: what the policies of the sender let out and those of the receiver let in. Pods of one workload are
one line. Pairs that no policy restricts are not listed; workloads without a policy are named below the table. Address ranges
are printed as they are; whether Pods have addresses in them is not looked at. You need to be allowed to list namespaces,
pods and networkpolicies. Nothing is changed.

Usage:
  %s [-n NAMESPACE] [-o table|dot] [--config FILE]

Flags:
%s`

func run(ctx context.Context, program process.Program, args []string, out io.Writer) error {
	f := &flags{}
	line := process.CommandLine{Name: program.Name + " connectivity", Usage: usage, Define: f.define, Check: f.check}
	if proceed, err := line.Parse(args, out); err != nil || !proceed {
		return err
	}
	reader, err := connect(ctx, program, f.config)
	if err != nil {
		return err
	}
	cluster, err := read(ctx, reader)
	if err != nil {
		return err
	}
	if _, exists := cluster.Namespaces[f.namespace]; f.namespace != "" && !exists {
		return fmt.Errorf("namespace %q does not exist", f.namespace)
	}
	report, err := Evaluate(*cluster, f.namespace)
	if err != nil {
		return err
	}
	if f.output == formatDot {
		return report.Dot(out)
	}
	return report.Table(out)
}

func connect(ctx context.Context, program process.Program, file string) (client.Reader, error) {
	if file == "" {
		setup := &process.Setup{Program: program, Log: logr.Discard()}
		connections, err := setup.DialAsUser(clientgoscheme.Scheme)
		if err != nil {
			return nil, err
		}
		return connections.Target.Client, nil
	}
	_, setup, err := process.LoadFile(program, file, config.ResourceManager)
	if err != nil {
		return nil, err
	}
	connections, err := setup.Dial(ctx, clientgoscheme.Scheme)
	if err != nil {
		return nil, err
	}
	return connections.Target.Client, nil
}

// read lists the relevant objects, without a cache.
func read(ctx context.Context, reader client.Reader) (*Cluster, error) {
	cluster := &Cluster{Namespaces: map[string]labels.Set{}}
	return cluster, errors.Join(
		pages(ctx, reader, func(page *corev1.NamespaceList) {
			for i := range page.Items {
				cluster.Namespaces[page.Items[i].Name] = page.Items[i].Labels
			}
		}),
		pages(ctx, reader, func(page *networkingv1.NetworkPolicyList) { cluster.Policies = append(cluster.Policies, page.Items...) }),
		pages(ctx, reader, func(page *corev1.PodList) { cluster.Pods = append(cluster.Pods, page.Items...) }),
	)
}

// pages calls take for each page of a list. Each page is a separate object: the JSON decoder reuses existing items, so one object for all
// pages would overwrite the items of earlier pages, and keep the continue token after the last page.
func pages[T any, List interface {
	*T
	client.ObjectList
}](ctx context.Context, reader client.Reader, take func(List)) error {
	next := ""
	for {
		list := List(new(T))
		if err := reader.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			return fmt.Errorf("list what the cluster holds: %w", err)
		}
		take(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
