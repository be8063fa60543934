package virtual

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// extensionsTimeout is the longest wait for the deletion of the parts of Extensions.
const extensionsTimeout = 5 * time.Minute

// ensureDestroyable fails if ensureUnused fails. Otherwise it waits until the parts that Extensions have deployed are gone, because only
// the resource managers can delete these parts. If the user abandons the virtual cluster, ensureDestroyable does not wait: no resource
// manager deletes the parts in the virtual cluster. Another step waits for the parts in the runtime cluster, before the resource manager
// of the runtime cluster is destroyed.
func (c checks) ensureDestroyable(ctx context.Context, abandons bool) error {
	if err := c.ensureUnused(ctx); err != nil || abandons {
		return err
	}
	watched := rollout.Watched{Kind: operatorv1alpha1.SchemeGroupVersion.WithKind(operatorv1alpha1.KindExtension)}
	return c.Until(ctx, extensionsTimeout, c.checkExtensions, watched)
}

// checkExtensions returns an error that names an Extension with parts in the clusters. It leaves out Extensions whose only part is in the
// runtime cluster: objects that are deleted later, with the Garden, need this part.
func (n namespace) checkExtensions(ctx context.Context) error {
	list := &operatorv1alpha1.ExtensionList{}
	if err := n.Client.List(ctx, list); err != nil && !rollout.IsGone(err) {
		return fmt.Errorf("list Extensions: %w", err)
	}
	for i := range list.Items {
		each := &list.Items[i]
		installed := corev1beta1.GetCondition(each.Status.Conditions, operatorv1alpha1.ExtensionInstalled)
		if !slices.Contains(each.Finalizers, operatorv1alpha1.FinalizerOperator) ||
			installed != nil && installed.Reason == operatorv1alpha1.ReasonExtensionInRuntime {
			continue
		}
		return fmt.Errorf("parts of Extension %q are still in the clusters (see kubectl describe extop %s)", each.Name, each.Name)
	}
	return nil
}
