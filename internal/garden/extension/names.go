package extension

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// RuntimeSet returns the name of the ManagedResource of the extension itself in the runtime cluster.
func RuntimeSet(e *operatorv1alpha1.Extension) string { return "extension-" + e.Name + "-garden" }

// Names of the other ManagedResources of an Extension.
func registrationSet(e *operatorv1alpha1.Extension) string { return "extension-registration-" + e.Name }

func admissionRuntimeSet(e *operatorv1alpha1.Extension) string {
	return "extension-admission-runtime-" + e.Name
}

func admissionVirtualSet(e *operatorv1alpha1.Extension) string {
	return "extension-admission-virtual-" + e.Name
}

// AdmissionSets returns the names of the ManagedResources of the admission controllers that the Extension has.
func AdmissionSets(e *operatorv1alpha1.Extension) []string {
	var names []string
	if admissionVirtual(e) != nil {
		names = append(names, admissionVirtualSet(e))
	}
	if admissionRuntime(e) != nil {
		names = append(names, admissionRuntimeSet(e))
	}
	return names
}

// runtimeNamespace is the namespace of the extension itself in the runtime cluster.
func runtimeNamespace(e *operatorv1alpha1.Extension) string { return "runtime-extension-" + e.Name }

// virtualNamespace is the namespace of the admission controllers in the virtual cluster.
func virtualNamespace(e *operatorv1alpha1.Extension) string { return "extension-" + e.Name }

// admissionAccount is the ServiceAccount of the admission controllers in the virtual cluster, in accountNamespace.
func admissionAccount(e *operatorv1alpha1.Extension) string { return "extension-admission-" + e.Name }

const accountNamespace = metav1.NamespaceSystem

// accessSecret is the Secret with the token of admissionAccount.
func accessSecret(e *operatorv1alpha1.Extension) string { return "shoot-access-" + admissionAccount(e) }

// admissionRuntime returns the chart of the admission controllers for the runtime cluster, or nil.
func admissionRuntime(e *operatorv1alpha1.Extension) *operatorv1alpha1.ExtensionHelm {
	if d := e.Spec.Deployment; d != nil && d.AdmissionDeployment != nil && d.AdmissionDeployment.RuntimeCluster != nil {
		return d.AdmissionDeployment.RuntimeCluster.Helm
	}
	return nil
}

// admissionVirtual returns the chart of the admission controllers for the virtual cluster, or nil.
func admissionVirtual(e *operatorv1alpha1.Extension) *operatorv1alpha1.ExtensionHelm {
	if d := e.Spec.Deployment; d != nil && d.AdmissionDeployment != nil && d.AdmissionDeployment.VirtualCluster != nil {
		return d.AdmissionDeployment.VirtualCluster.Helm
	}
	return nil
}

// own returns the deployment of the extension itself, or nil if it has no chart.
func own(e *operatorv1alpha1.Extension) *operatorv1alpha1.ExtensionDeploymentSpec {
	if e.Spec.Deployment == nil || e.Spec.Deployment.ExtensionDeployment == nil || e.Spec.Deployment.ExtensionDeployment.Helm == nil {
		return nil
	}
	return e.Spec.Deployment.ExtensionDeployment
}

// helmOf returns a chart of an Extension, or nil.
func helmOf(e *operatorv1alpha1.Extension, name operatorv1alpha1.ChartName) *operatorv1alpha1.ExtensionHelm {
	switch name {
	case operatorv1alpha1.ChartAdmissionRuntime:
		return admissionRuntime(e)
	case operatorv1alpha1.ChartAdmissionVirtual:
		return admissionVirtual(e)
	case operatorv1alpha1.ChartRuntime:
		if deployment := own(e); deployment != nil {
			return deployment.Helm
		}
	}
	return nil
}

// copyName returns the name of the copy of a Secret or ConfigMap in the virtual cluster.
func copyName(e *operatorv1alpha1.Extension, name string) string {
	return e.Name + "-" + name
}
