package kubectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

func (p *program) garden() *cobra.Command {
	garden := &cobra.Command{Use: "garden", Short: "Answer questions about Gardens"}
	garden.AddCommand(
		&cobra.Command{
			Use: "status [GARDEN]", Short: "Print the operation and the conditions of Gardens", Args: cobra.MaximumNArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				gardens, err := p.gardens(c.Context(), args)
				if err != nil {
					return err
				}
				answer := view.Gardens{Gardens: make([]view.Garden, 0, len(gardens))}
				for i := range gardens {
					answer.Gardens = append(answer.Gardens, view.GardenOf(&gardens[i]))
				}
				return p.print(answer)
			},
		},
		&cobra.Command{
			Use: "tasks [GARDEN]", Short: "List the tasks of a Garden that are not done; with -o wide, all tasks", Args: cobra.MaximumNArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				gardens, err := p.gardens(c.Context(), args)
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
	return garden
}

// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=get;list

// gardens reads the Garden that the arguments name, or all Gardens.
func (p *program) gardens(ctx context.Context, args []string) ([]operatorv1alpha1.Garden, error) {
	source, err := p.source()
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		garden := &operatorv1alpha1.Garden{}
		err = source.Get(ctx, client.ObjectKey{Name: args[0]}, garden)
		return []operatorv1alpha1.Garden{*garden}, explain("read Garden "+args[0], err)
	}
	list := &operatorv1alpha1.GardenList{}
	err = source.List(ctx, list)
	return list.Items, explain("list Gardens", err)
}
