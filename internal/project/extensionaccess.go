package project

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project/extensionaccess"
)

// extensionAccess needs no shared caches: the controller keeps less of its kinds than the shared cache would.
func extensionAccess() []process.Requirement {
	return []process.Requirement{
		{Kind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Verbs: []string{"get", "list", "watch", "bind"}},
		{Kind: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{Kind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Verbs: []string{"list", "watch"}},
	}
}

// addExtensionAccess adds the controller that binds labelled ClusterRoles to the ServiceAccounts of extensions.
func addExtensionAccess(p *parts) error {
	source := p.clusters.Source
	live, err := client.NewWithWatch(source.GetConfig(), client.Options{
		HTTPClient: source.GetHTTPClient(), Scheme: source.GetScheme(), Mapper: source.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("create client for controller %s: %w", extensionaccess.ControllerName, err)
	}
	r := &extensionaccess.Reconciler{
		Client: live, Metrics: extensionaccess.NewMetrics(p.registry),
		Events: &extensionaccess.Events{Recorder: source.GetEventRecorder(extensionaccess.ControllerName)},
	}
	if err := r.SetupWithManager(source); err != nil {
		return fmt.Errorf("add controller %s: %w", extensionaccess.ControllerName, err)
	}
	return nil
}
