package runtime

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/vali"
	"github.com/espalier-dev/espalier/internal/garden/component/victorialogs"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// withVali returns the values. If vali exists and has to stay, the returned values do not have feature gate RemoveVali, so that all
// components continue to use vali. Vali stays until VictoriaLogs has run long enough, or until the user confirms the loss of logs. The age
// of the ManagedResource of VictoriaLogs decides, because it survives a restart. If vali is going to be removed, withVali writes an Event.
func (p *Platform) withVali(ctx context.Context, v values.Values) (values.Values, error) {
	if !v.RemoveVali || v.Skips(vali.Name) {
		return v, nil
	}
	old, err := rollout.Find(ctx, p.Cluster.Client, v.Namespace, vali.Name, &resourcesv1alpha1.ManagedResource{})
	if err != nil || old == nil || old.DeletionTimestamp != nil {
		return v, err
	}
	successor, err := p.successorOfVali(ctx, v)
	if err != nil {
		return v, err
	}
	confirmed := p.Garden.Annotations[operatorv1alpha1.AnnotationConfirmLostLogs] == vali.Name
	if reason := vali.Stays(successor, confirmed, p.Clock.Now()); reason != "" {
		log.FromContext(ctx).Info("Keeping vali", "reason", reason)
		v.RemoveVali = false
		return v, nil
	}
	p.Recorder.Eventf(p.Garden, nil, "Warning", reasonValiRemoved, "Reconcile", "Removing vali: its log lines cannot be searched any more. "+
		"PersistentVolumeClaim %s in namespace %s keeps them until you delete it.", vali.Claim, v.Namespace)
	return v, nil
}

func (p *Platform) successorOfVali(ctx context.Context, v values.Values) (vali.Successor, error) {
	set, err := rollout.Find(ctx, p.Cluster.Client, v.Namespace, victorialogs.Name, &resourcesv1alpha1.ManagedResource{})
	if err != nil || set == nil {
		return vali.Successor{}, err
	}
	successor := vali.Successor{Since: set.CreationTimestamp.Time}
	workload, err := rollout.Find(ctx, p.Cluster.Client, v.Namespace, victorialogs.Workload, &appsv1.Deployment{})
	switch {
	case err != nil:
		return successor, err
	case workload == nil:
		successor.Problem = "there is no Deployment " + victorialogs.Workload
	default:
		successor.Problem = health.Judge(workload).Unhealthy
	}
	return successor, nil
}
