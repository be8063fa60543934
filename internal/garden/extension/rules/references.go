package rules

import (
	"fmt"
	"slices"
	"strings"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// Reference is a Secret or ConfigMap in the namespace of the Garden that an Extension refers to.
type Reference struct {
	Kind, Name string
	// Role is the role of the object; see operatorv1alpha1.RolePullSecret.
	Role string
	// Field is the path of the field with the name.
	Field string
}

// References returns all references of an Extension. An object may occur several times.
func References(e *operatorv1alpha1.Extension) []Reference {
	deployment := e.Spec.Deployment
	if deployment == nil {
		return nil
	}
	all := NamedReferences(e)
	if own := deployment.ExtensionDeployment; own != nil {
		all = append(all, ChartReferences(own.Helm, "spec.deployment.extension.helm")...)
	}
	if admission := deployment.AdmissionDeployment; admission != nil {
		if admission.RuntimeCluster != nil {
			all = append(all, ChartReferences(admission.RuntimeCluster.Helm, "spec.deployment.admission.runtimeCluster.helm")...)
		}
		if admission.VirtualCluster != nil {
			all = append(all, ChartReferences(admission.VirtualCluster.Helm, "spec.deployment.admission.virtualCluster.helm")...)
		}
	}
	return all
}

// ChartReferences returns the references of a chart, which is at a path of the Extension.
func ChartReferences(helm *operatorv1alpha1.ExtensionHelm, at string) []Reference {
	var all []Reference
	if helm == nil || helm.OCIRepository == nil {
		return nil
	}
	at += ".ociRepository"
	if ref := helm.OCIRepository.PullSecretRef; ref != nil {
		all = append(all, Reference{Kind: "Secret", Name: ref.Name, Role: operatorv1alpha1.RolePullSecret, Field: at + ".pullSecretRef"})
	}
	if ref := helm.OCIRepository.CABundleSecretRef; ref != nil {
		all = append(all, Reference{Kind: "Secret", Name: ref.Name, Role: operatorv1alpha1.RoleCABundle, Field: at + ".caBundleSecretRef"})
	}
	return all
}

// NamedReferences returns the references of spec.deployment.resources, in their order.
func NamedReferences(e *operatorv1alpha1.Extension) []Reference {
	all := make([]Reference, 0, len(e.Spec.Deployment.Resources))
	for i, each := range e.Spec.Deployment.Resources {
		all = append(all, Reference{
			Kind: each.ResourceRef.Kind, Name: each.ResourceRef.Name, Role: operatorv1alpha1.RoleResourceReference,
			Field: fmt.Sprintf("spec.deployment.resources[%d].resourceRef", i),
		})
	}
	return all
}

// credentialLabels are the labels of Secrets in which programs of the Garden keep credentials of their own. An empty value matches every
// value of the label.
var credentialLabels = []struct{ key, value string }{
	{secrets.LabelManagedBy, secrets.ManagedBy},
	{secrets.LabelKeptCredential, ""},
	{resourcesv1alpha1.ResourcePurpose, resourcesv1alpha1.PurposeTokenRequestor},
	{operatorv1alpha1.LabelRole, "kubeconfig"},
}

// encryptionRole is the end of the label role of Secrets with encryption configurations, which contain keys.
const encryptionRole = "-etcd-encryption-configuration"

// IsCredential reports whether a Secret with these labels contains a key, a token or a kubeconfig of the Garden itself. Extensions must
// not refer to such a Secret, because the operator would copy its data into the virtual cluster, or into the values of a chart.
func IsCredential(labels map[string]string) bool {
	return strings.HasSuffix(labels["role"], encryptionRole) ||
		slices.ContainsFunc(credentialLabels, func(l struct{ key, value string }) bool {
			value, is := labels[l.key]
			return is && (l.value == "" || value == l.value)
		})
}
