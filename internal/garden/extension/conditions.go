package extension

import (
	"fmt"
	"slices"
	"strings"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/managedresources"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/garden/charts"
)

// verdict is the content of condition Installed after a run. The zero value leaves the condition as it is.
type verdict struct {
	status          corev1beta1.ConditionStatus
	reason, message string
}

// progress is the result of a run: the reasons why it waits, its failures, and the parts of charts without effect.
type progress struct {
	pending  []string
	failures []error
	dropped  []chart.Dropped
	resolved []operatorv1alpha1.ResolvedChart
	// again is true if the run waits for a change that no watch reports.
	again bool
}

func (p *progress) wait(format string, args ...any) {
	p.pending = append(p.pending, fmt.Sprintf(format, args...))
}

func (p *progress) fail(err error) {
	if err != nil {
		p.failures = append(p.failures, err)
	}
}

// isDone reports whether the run has nothing to wait for and no failure.
func (p *progress) isDone() bool { return len(p.pending) == 0 && len(p.failures) == 0 }

// installed returns the verdict after an installation.
func (p *progress) installed(e *operatorv1alpha1.Extension) verdict {
	switch {
	case len(p.failures) > 0:
		return verdict{corev1beta1.ConditionFalse, operatorv1alpha1.ReasonExtensionFailed, sentences(p.failures)}
	case len(p.pending) > 0:
		return verdict{corev1beta1.ConditionProgressing, operatorv1alpha1.ReasonExtensionPending, strings.Join(p.pending, "; ")}
	}
	message := fmt.Sprintf("Extension %q has been reconciled successfully", e.Name) + charts.NoEffect(p.dropped)
	return verdict{corev1beta1.ConditionTrue, operatorv1alpha1.ReasonExtensionReconciled, message}
}

// deleted returns the verdict after a deletion.
func (p *progress) deleted(e *operatorv1alpha1.Extension) verdict {
	switch {
	case len(p.failures) > 0:
		return verdict{corev1beta1.ConditionFalse, operatorv1alpha1.ReasonExtensionDeleteFailed, sentences(p.failures)}
	case len(p.pending) > 0:
		return verdict{corev1beta1.ConditionFalse, operatorv1alpha1.ReasonExtensionDeleting, strings.Join(p.pending, "; ")}
	}
	return verdict{
		corev1beta1.ConditionFalse, operatorv1alpha1.ReasonExtensionDeleted, fmt.Sprintf("Extension %q has been deleted successfully", e.Name),
	}
}

// sentences joins errors.
func sentences(errs []error) string {
	texts := make([]string, 0, len(errs))
	for _, each := range errs {
		texts = append(texts, each.Error())
	}
	return strings.Join(texts, "; ")
}

// notReady returns why a ManagedResource is not ready, or "".
func notReady(mr *resourcesv1alpha1.ManagedResource) string {
	err := managedresources.CheckAppliedAndHealthy(mr)
	if err == nil {
		err = managedresources.CheckNotProgressing(mr)
	}
	if err == nil {
		return ""
	}
	return fmt.Sprintf("waiting for ManagedResource %s/%s: %v", mr.Namespace, mr.Name, err)
}

// keepResolved keeps a resolved chart of the status if this run has not resolved the chart anew, and the Extension still has the field of
// the chart. So a tag is resolved only once, however a run ends.
func (p *progress) keepResolved(e *operatorv1alpha1.Extension) {
	for _, each := range e.Status.Charts {
		isNew := slices.ContainsFunc(p.resolved, func(c operatorv1alpha1.ResolvedChart) bool { return c.Name == each.Name })
		if !isNew && helmOf(e, each.Name) != nil {
			p.resolved = append(p.resolved, each)
		}
	}
}

// stage is the state of the Garden, as far as an Extension depends on it.
type stage int

const (
	// stageNone: there is no Garden.
	stageNone stage = iota
	// stageFirst: the Garden was never reconciled, or its last reconciliation failed.
	stageFirst
	// stageBusy: the Garden is being reconciled, and it already names the kubeconfig of its virtual cluster.
	stageBusy
	// stageReady: the Garden is reconciled.
	stageReady
	// stageDeleting: the Garden is being deleted.
	stageDeleting
)

func stageOf(g *operatorv1alpha1.Garden) stage {
	switch {
	case g == nil:
		return stageNone
	case g.DeletionTimestamp != nil:
		return stageDeleting
	case g.Annotations[operatorv1alpha1.AnnotationGenericTokenKubeconfig] == "" || g.Status.LastOperation == nil:
		return stageFirst
	}
	switch g.Status.LastOperation.State {
	case operatorv1alpha1.LastOperationSucceeded:
		return stageReady
	case operatorv1alpha1.LastOperationProcessing:
		return stageBusy
	case operatorv1alpha1.LastOperationError:
	}
	return stageFirst
}

// abandons reports whether there is no Garden (g is nil), or the user of the Garden gives up the virtual cluster. In both cases, no
// controller can delete objects in the virtual cluster. The annotation has no effect before the Garden is being deleted.
func abandons(g *operatorv1alpha1.Garden) bool {
	if g == nil {
		return true
	}
	identity := g.Spec.VirtualCluster.Gardener.ClusterIdentity
	return g.DeletionTimestamp != nil && identity != "" && g.Annotations[operatorv1alpha1.AnnotationAbandonVirtualCluster] == identity
}
