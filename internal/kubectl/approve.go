package kubectl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

// approve returns the command "approve". Without the checksum as an argument, the command only shows the plan and approves nothing.
// Otherwise, the user would also approve a change that came after the plan that the user read.
func (p *program) approve() *cobra.Command {
	return &cobra.Command{
		Use: "approve SET [CHECKSUM]", Short: "Show the plan of a set; with its checksum, let exactly this content be applied",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: p.completeSet,
		RunE: func(c *cobra.Command, args []string) error {
			source, mr, err := p.find(c.Context(), args[0])
			if err != nil {
				return err
			}
			plan, err := source.requiredPlan(c.Context(), mr)
			if err != nil {
				return err
			}
			answer, err := view.ApprovalOf(mr, plan)
			switch {
			case err != nil:
				return err
			case len(args) == 1:
				return p.print(answer)
			case args[1] != answer.Checksum:
				return fmt.Errorf("checksum %q is not that of the plan of ManagedResource %s/%s: its sources may have changed; "+
					"kubectl espalier approve %s -n %s shows the present plan", args[1], mr.Namespace, mr.Name, mr.Name, mr.Namespace)
			}
			answer.Approved = true
			if err := source.writeApproval(c.Context(), mr, answer.Checksum); err != nil {
				return err
			}
			return p.print(answer)
		},
	}
}

// writeApproval approves the content that has the given checksum. It also removes the annotation because of which the controller only
// plans. It fails if the set has changed since the set was read, because the checksum does not cover the specification.
func (c *cluster) writeApproval(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, checksum string) error {
	next := mr.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, resourcesv1alpha1.Approved, checksum)
	delete(next.Annotations, resourcesv1alpha1.Plan)
	unchanged := client.MergeFromWithOptions(mr, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, next, unchanged, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("write annotation %s of ManagedResource %s/%s: %w; the verb patch on managedresources is required, and the set must "+
			"not change meanwhile", resourcesv1alpha1.Approved, mr.Namespace, mr.Name, err)
	}
	return nil
}
