package kubectl

import (
	"fmt"

	"github.com/spf13/cobra"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

// confirm returns the command "confirm". Without the checksum as an argument, the command only shows the suspended deletion and confirms
// nothing. Otherwise, the user would also confirm a change that came after the deletion that the user read about.
func (p *program) confirm() *cobra.Command {
	return &cobra.Command{
		Use: "confirm SET [CHECKSUM]", Short: "Show the suspended deletion of objects of a set; with its checksum, confirm it",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: p.completeSet,
		RunE: func(c *cobra.Command, args []string) error {
			source, mr, err := p.find(c.Context(), args[0])
			if err != nil {
				return err
			}
			answer, suspended := view.ConfirmationOf(mr)
			switch {
			case !suspended:
				return fmt.Errorf("ManagedResource %s/%s has no suspended deletion: its condition %s names no checksum to confirm",
					mr.Namespace, mr.Name, resourcesv1alpha1.ResourcesApplied)
			case len(args) == 1:
				return p.print(answer)
			case args[1] != answer.Checksum:
				return fmt.Errorf("checksum %q is not that of the suspended deletion of ManagedResource %s/%s: its sources may have changed; "+
					"kubectl espalier confirm %s -n %s shows the present deletion", args[1], mr.Namespace, mr.Name, mr.Name, mr.Namespace)
			}
			answer.Confirmed = true
			if err := source.annotate(c.Context(), mr, resourcesv1alpha1.ConfirmDeletion, answer.Checksum); err != nil {
				return err
			}
			return p.print(answer)
		},
	}
}
