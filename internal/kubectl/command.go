// Package kubectl contains the commands of kubectl espalier. The commands read with the rights of the user. Only the commands pause,
// resume, confirm, approve and garden upgrade write.
//
// Each command reads objects, turns them into an answer of package view, and prints the answer. No command of this package reads the data
// of a Secret. The commands that Options.GardenCommands returns do.
package kubectl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kubectl/view"
	"github.com/espalier-dev/espalier/internal/process"
)

// Options are the surroundings of the program.
type Options struct {
	// Out receives answers, Err the progress of wait.
	Out, Err io.Writer
	// Clock is the time that ages refer to.
	Clock clock.PassiveClock
	// Terminal is true if Out is a terminal, and Colours if it shows colours.
	Terminal, Colours bool
	// GardenCommands returns the commands that foresee or start reconciliations of a Garden in a cluster.
	GardenCommands func(cluster clientcmd.ClientConfig) []*cobra.Command
	// Version is the version of the program.
	Version string
}

// The exit codes of the program, except for the commands garden plan and garden upgrade, which have exit codes of their own. The code 0
// means that the program has answered the question. For the command wait, it means that the set has reached the state.
const (
	exitError    = 1
	exitTimedOut = 2
)

// errTimedOut says that wait ended before the state was reached.
var errTimedOut = errors.New("time limit reached")

// ExitCode returns the exit code for the error of a command.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTimedOut):
		return exitTimedOut
	}
	code, _ := process.ExitOf(err, exitError)
	return code
}

// program contains the values of the flags that all commands share.
type program struct {
	Options

	rules     *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
	// targetKubeconfig and targetContext select the target cluster; if both are empty, it is the source cluster.
	targetKubeconfig, targetContext string
	output                          string
	allNamespaces                   bool
}

// formats are the values of the flag --output; "" is text.
var formats = []string{"", "wide", "json", "yaml"}

// Command returns the command line of the program. The caller prints the error.
func Command(options Options) *cobra.Command {
	p := &program{Options: options, rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}}
	root := &cobra.Command{
		Use: "kubectl-espalier", Version: options.Version, SilenceErrors: true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl espalier"},
		Short:       "Answers questions about ManagedResources and Gardens",
		Long: `Answers questions about ManagedResources (sets) and Gardens. It reads with your rights; only pause, resume, confirm,
approve and garden upgrade write.

Exit codes: 0 the question was answered; 1 an error, which names the remedy; 2 wait reached its time limit. The help of garden
plan and garden upgrade has theirs.`,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(formats, p.output) {
				return fmt.Errorf("--output %q: want %s", p.output, strings.Join(formats[1:], ", "))
			}
			return nil
		},
	}
	root.SetOut(options.Out)
	root.SetErr(options.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return fmt.Errorf("%w; see %s --help", err, c.CommandPath()) })
	flags := root.PersistentFlags()
	flags.StringVar(&p.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "",
		"the kubeconfig of the cluster with the ManagedResources (source)")
	clientcmd.BindOverrideFlags(p.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	flags.StringVar(&p.targetKubeconfig, "target-kubeconfig", "",
		"the kubeconfig of the cluster with their objects (target), if it is another one")
	flags.StringVar(&p.targetContext, "target-context", "", "the context of the target in its kubeconfig")
	flags.StringVarP(&p.output, "output", "o", "", "wide, json or yaml; text if it is not set")
	root.AddCommand(p.status(), p.tree(), p.why(), p.plan(), p.events(), p.wait(), p.history(), p.pause(), p.resume(), p.confirm(),
		p.approve(), p.garden())
	return root
}

// print prints an answer in the format that the user wants.
func (p *program) print(answer view.Answer) error {
	text, err := p.render(answer)
	if err != nil {
		return err
	}
	_, err = io.WriteString(p.Out, text)
	return err
}

// render returns an answer in the format that the user wants.
func (p *program) render(answer view.Answer) (string, error) {
	if p.output == "" || p.output == "wide" {
		printer := &view.Printer{Wide: p.output == "wide", Colours: p.Colours, Now: p.Clock.Now()}
		answer.Text(printer)
		return printer.String(), nil
	}
	document, err := json.MarshalIndent(answer, "", "  ")
	if err == nil && p.output == "yaml" {
		document, err = yaml.JSONToYAML(document)
	} else {
		document = append(document, '\n')
	}
	if err != nil {
		return "", fmt.Errorf("encode answer: %w", err)
	}
	return string(document), nil
}
