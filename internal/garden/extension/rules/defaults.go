// Package rules contains the defaults and rules of Extensions that the schema of their CRD cannot express. Its functions only compute. The
// webhook applies the rules to requests. The reconciler applies them to the stored Extension, because the webhook may have been
// unavailable when the Extension was stored.
package rules

import (
	"slices"

	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Default sets defaults in the spec. Fields that are set keep their values, and a second call changes nothing.
func Default(e *operatorv1alpha1.Extension) {
	for i := range e.Spec.Resources {
		resource := &e.Spec.Resources[i]
		if resource.Primary == nil {
			resource.Primary = ptr.To(true)
		}
		if len(resource.ClusterCompatibility) == 0 && slices.Contains(resource.AutoEnable, operatorv1alpha1.ClusterTypeShoot) {
			resource.ClusterCompatibility = []operatorv1alpha1.ClusterType{operatorv1alpha1.ClusterTypeShoot}
		}
	}
	if e.Spec.Deployment == nil || e.Spec.Deployment.ExtensionDeployment == nil {
		return
	}
	hasWorkers := slices.ContainsFunc(e.Spec.Resources, func(r operatorv1alpha1.ExtensionResource) bool { return r.Kind == "Worker" })
	if deployment := e.Spec.Deployment.ExtensionDeployment; deployment.InjectGardenKubeconfig == nil && hasWorkers {
		deployment.InjectGardenKubeconfig = ptr.To(true)
	}
}
