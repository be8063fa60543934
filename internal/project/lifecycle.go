package project

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project/lifecycle"
	"github.com/espalier-dev/espalier/internal/project/served"
)

func lifecycleAccess(cfg *config.ControllerManagerConfiguration) []process.Requirement {
	writes := []string{"get", "list", "watch", "create", "patch", "delete"}
	access := []process.Requirement{
		{Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Verbs: writes},
		{Kind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Verbs: append([]string{"escalate", "bind"}, writes...)},
		{Kind: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), Verbs: writes},
		{Kind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), Verbs: writes},
	}
	if len(cfg.Controllers.Project.Quotas) > 0 {
		access = append(access, process.Requirement{
			Kind: corev1.SchemeGroupVersion.WithKind("ResourceQuota"), Verbs: []string{"get", "list", "watch", "create", "patch"},
		})
	}
	return access
}

// addLifecycle adds the main loop.
func addLifecycle(lifetime context.Context, p *parts) error {
	mgr := p.clusters.Source
	r := &lifecycle.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Shoots: p.served, Clock: p.clusters.Clock,
		Quotas: p.cfg.Controllers.Project.Quotas, MembershipExpiry: p.cfg.Espalier.Project.MembershipExpiry,
		// The Events must be core/v1 Events with a source, which the newer recorder does not send.
		Events:  &lifecycle.Events{Recorder: mgr.GetEventRecorderFor(lifecycle.EventSource)}, //nolint:staticcheck // see above
		Metrics: lifecycle.NewMetrics(p.registry, mgr.GetClient()),
	}
	if err := r.SetupWithManager(lifetime, mgr, ptr.Deref(p.cfg.Controllers.Project.ConcurrentSyncs, 0)); err != nil {
		return fmt.Errorf("add controller %s: %w", lifecycle.ControllerName, err)
	}
	p.served.Handle(served.Shoot, func(before, after *served.Object) {
		if after == nil {
			r.ShootDeleted(lifetime, before.Namespace)
		}
	})
	return nil
}
