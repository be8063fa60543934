package kubectl

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/gardenstatus"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

func (p *program) garden() *cobra.Command {
	garden := &cobra.Command{Use: "garden", Short: "Answer questions about Gardens"}
	garden.AddCommand(
		p.gardenStatus(),
		&cobra.Command{
			Use: "tasks [GARDEN]", Short: "List the tasks of a Garden that are not done; with -o wide, all tasks", Args: cobra.MaximumNArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				source, err := p.source()
				if err != nil {
					return err
				}
				gardens, err := source.gardens(c.Context(), args)
				if err != nil {
					return err
				}
				if len(gardens) != 1 {
					names := make([]string, 0, len(gardens))
					for i := range gardens {
						names = append(names, gardens[i].Name)
					}
					return fmt.Errorf("name one Garden; the cluster has: %s", strings.Join(names, ", "))
				}
				return p.print(view.TasksOf(&gardens[0]))
			},
		})
	garden.AddCommand(p.GardenCommands(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(p.rules, p.overrides))...)
	return garden
}

// gardenStatus prints the screen of package gardenstatus. The target is the virtual cluster, whose metrics have the size of the etcds.
func (p *program) gardenStatus() *cobra.Command {
	watched := false
	command := &cobra.Command{
		Use: "status [GARDEN]", Short: "Print the state of Gardens", Args: cobra.MaximumNArgs(1),
		Long: `Prints the state of Gardens: operation, tasks and what they wait for, conditions, versions, etcds and their backups, rotations, and
the credentials that end first. The size of the etcds is known if --target-context or --target-kubeconfig names the virtual cluster.`,
		RunE: func(c *cobra.Command, args []string) error {
			source, err := p.source()
			if err != nil {
				return err
			}
			metrics, err := p.virtualMetrics(source)
			if err != nil {
				return err
			}
			paint := func(ctx context.Context) (string, error) {
				gardens, failure := source.gardens(ctx, args)
				if failure != nil {
					return "", failure
				}
				answer := view.Gardens{Gardens: make([]gardenstatus.Screen, 0, len(gardens))}
				for i := range gardens {
					answer.Gardens = append(answer.Gardens, gardenstatus.Of(&gardens[i], gardenstatus.Gather(ctx, source, metrics)))
				}
				return p.render(answer)
			}
			if watched {
				return gardenstatus.Watch(c.Context(), source, p.Out, p.Terminal, paint)
			}
			text, err := paint(c.Context())
			if err != nil {
				return err
			}
			_, err = io.WriteString(p.Out, text)
			return err
		},
	}
	command.Flags().BoolVarP(&watched, "watch", "w", false, "paint the screen again when something changes")
	return command
}

// virtualMetrics returns a function that reads the metrics of the virtual cluster; nil if the command line does not select the virtual
// cluster as the target.
func (p *program) virtualMetrics(source *cluster) (func(ctx context.Context) ([]byte, error), error) {
	target, err := p.target(source)
	if err != nil || target == source {
		return nil, err
	}
	return func(ctx context.Context) ([]byte, error) { return target.rest.Get().AbsPath("/metrics").DoRaw(ctx) }, nil
}

// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=get;list

// gardens reads the Garden that the arguments name, or all Gardens.
func (c *cluster) gardens(ctx context.Context, args []string) ([]operatorv1alpha1.Garden, error) {
	name, request := strings.Join(args, ""), "list Gardens"
	if name != "" {
		request = "read Garden " + name
	}
	gardens, err := gardenstatus.Find(ctx, c, name)
	return gardens, explain(request, err)
}
