// Command upgarden implements `make up-garden`: it turns the node of `make up-node` into a runtime cluster, with DNS, volumes, load
// balancers and images of third-party programs, deploys garden-operator, creates a Garden, and prints its tasks until it is reconciled.
// With -seed it then makes the runtime cluster a Seed: it registers an extension and deploys gardenlet. With -observability the operator
// also deploys components of monitoring and logs. A further call continues where an earlier one stopped, with newly built images.
// `make down` removes everything.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/child"
	"github.com/espalier-dev/espalier/test/local/garden/cloud"
	"github.com/espalier-dev/espalier/test/local/garden/prometheus"
	"github.com/espalier-dev/espalier/test/local/node"
)

// The arguments with which this program runs package cloud and package prometheus in background processes.
const (
	provider   = "cloud"
	monitoring = "prometheus"
)

func main() { os.Exit(local.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 && (args[0] == provider || args[0] == monitoring) {
		return background(ctx, args[0], args[1])
	}
	flags := flag.NewFlagSet("upgarden", flag.ContinueOnError)
	o := options{}
	flags.StringVar(&o.version, "version", "", "the tag of the images of `make images`")
	flags.StringVar(&o.kubernetes, "kubernetes", defaultKubernetes, "the version of the virtual cluster")
	flags.BoolVar(&o.seed, "seed", false, "make the runtime cluster a Seed")
	flags.BoolVar(&o.highlyAvailable, "ha", false, "create a highly available Garden")
	flags.BoolVar(&o.observability, "observability", false, "deploy the components of monitoring and logs that can be built")
	flags.StringVar(&o.resourceManager, "resource-manager", gardener, "the resource manager of Shoots: gardener or espalier")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.version == "" || flags.NArg() > 0 || o.resourceManager != gardener && o.resourceManager != espalier {
		return errors.New("usage: upgarden -version VERSION [-kubernetes VERSION] [-seed] [-ha] [-observability] " +
			"[-resource-manager gardener|espalier]")
	}
	u, err := newUp(ctx, o, out)
	if err != nil {
		return err
	}
	return u.run(ctx)
}

// background runs a process that belongs to the node with this state folder, until the context ends.
func background(ctx context.Context, name, node string) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(node, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	if name == monitoring {
		return prometheus.Run(ctx, config)
	}
	return cloud.Run(ctx, config, cloud.Files{Volumes: filepath.Join(node, "volumes"), Kubeconfig: virtualKubeconfig(node)})
}

// defaultKubernetes is the default version of the virtual cluster. The version of the node is newer; Gardener does not support it yet.
const defaultKubernetes = "1.36.3"

// gardener and espalier are the projects whose resource manager Shoots can have.
const (
	gardener = "gardener"
	espalier = "espalier"
)

// options are the values of the flags.
type options struct {
	version, kubernetes string
	seed, observability bool
	// highlyAvailable is true for a Garden whose etcds have three members. It stays highly available.
	highlyAvailable bool
	// resourceManager is the project whose resource manager gardenlet gives to Shoots.
	resourceManager string
}

// controlPlane returns the settings of the control plane of the Garden.
func (o options) controlPlane() string {
	if o.highlyAvailable {
		return "{highAvailability: {}}"
	}
	return "{}"
}

// requested returns the groups of programs that hack/garden.sh builds only on request, and that this call needs.
func (o options) requested() []string {
	minor := func(version string) string { return version[:max(0, strings.LastIndex(version, "."))] }
	groups := slices.Compact([]string{"kubernetes-" + minor(defaultKubernetes), "kubernetes-" + minor(o.kubernetes)})
	if o.seed {
		groups = append(groups, seedGroup)
	}
	if o.observability {
		groups = append(groups, observabilityGroup)
	}
	return groups
}

// up contains the settings of one call. It is immutable.
type up struct {
	options

	root string
	// node is the state folder of the node. state is the folder of the garden in it.
	node, state string
	// assets is the folder that contains kubectl.
	assets string
	// out is the terminal, which shows the report and the output of programs.
	out    io.Writer
	report *local.Report
	begin  time.Time
}

func newUp(ctx context.Context, o options, out io.Writer) (up, error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return up{}, err
	}
	assets, err := local.Assets(ctx, out)
	if err != nil {
		return up{}, err
	}
	dir := filepath.Join(root, ".local", "node")
	u := up{
		options: o, root: root, node: dir, state: stateOf(dir), assets: assets, out: out,
		report: local.NewReport(out, clock.RealClock{}), begin: time.Now(),
	}
	return u, os.MkdirAll(u.state, 0o700)
}

func (u up) run(ctx context.Context) error {
	images, err := u.images(ctx)
	if err != nil {
		return err
	}
	u.report.Step("preparing the node: names, volumes, load balancers")
	err = u.startBackground(provider)
	if err != nil {
		return err
	}
	err = u.applyAddOns(ctx, images)
	if err != nil {
		return err
	}
	u.report.Step("deploying garden-operator %s", u.version)
	err = u.deployOperator(ctx, images)
	if err != nil {
		return err
	}
	err = u.garden(ctx)
	if err == nil && u.seed {
		err = u.makeSeed(ctx, images)
	}
	if err != nil {
		return fmt.Errorf("%w\nEverything keeps running: KUBECONFIG=%s; `make up-garden` tries again, `make down` removes it",
			err, u.kubeconfig())
	}
	return nil
}

// garden creates the Garden, waits until it is complete, and prints a summary.
func (u up) garden(ctx context.Context) error {
	c, err := u.newClient()
	if err != nil {
		return err
	}
	applied := time.Now()
	u.report.Step("creating Garden %s of hack/upgarden/garden.yaml", gardenName)
	err = u.script(ctx, "garden", u.kubernetes, filepath.Join(u.node, "backups"), u.controlPlane())
	if err != nil {
		return err
	}
	observed, err := u.awaitGarden(ctx, c, applied)
	if err != nil {
		return err
	}
	err = u.awaitConditions(ctx, c)
	if err != nil {
		return err
	}
	namespaces, err := u.enterVirtual(ctx)
	if err != nil {
		return err
	}
	return u.summary(ctx, namespaces, observed)
}

// startBackground starts this program, with an argument, as a process that belongs to the node.
func (u up) startBackground(name string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return node.Launch(u.node, child.Spec{Name: name, Path: self, Args: []string{name, u.node}}, io.Discard)
}

func (u up) kubeconfig() string { return filepath.Join(u.node, "kubeconfig") }

func (u up) kubectlPath() string { return filepath.Join(u.assets, "kubectl") }

// stateOf returns the state folder of the garden, which is inside of the node's state folder. virtualKubeconfig returns the kubeconfig of
// the virtual cluster in it.
func stateOf(node string) string { return filepath.Join(node, "garden") }

func virtualKubeconfig(node string) string { return filepath.Join(stateOf(node), "kubeconfig") }

// command runs a program in the root of the repository, and returns its standard output. Its standard error goes to out.
func (u up) command(ctx context.Context, stdin, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Stdin, c.Stderr = u.root, strings.NewReader(stdin), u.out
	c.Env = append(os.Environ(), "KUBECONFIG="+u.kubeconfig(), "KUBECTL="+u.kubectlPath(), "VIRTUAL="+virtualKubeconfig(u.node))
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", filepath.Base(program), strings.Join(args, " "), err)
	}
	return string(out), nil
}

func (u up) kubectl(ctx context.Context, args ...string) (string, error) {
	return u.command(ctx, "", u.kubectlPath(), args...)
}

// script calls a function of cluster.sh.
func (u up) script(ctx context.Context, args ...string) error {
	_, err := u.command(ctx, "", "hack/upgarden/cluster.sh", args...)
	return err
}
