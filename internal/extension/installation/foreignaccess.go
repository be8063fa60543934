package installation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
)

// foreignAccess returns the breaches of a chart that asks for the identity of another extension in the garden. A Secret for a token may
// name any ServiceAccount, and any labels for the ServiceAccount. Both the name and the labels give rights: the API server of the garden
// gives the rights of the Seed to the ServiceAccounts with the prefix of installations.
func foreignAccess(ci *corev1beta1.ControllerInstallation, manifests chart.Manifests) []chart.Breach {
	var found []chart.Breach
	for _, manifest := range manifests {
		for _, each := range manifest.Objects {
			o := &unstructured.Unstructured{Object: each}
			if o.GetKind() != "Secret" || o.GetLabels()[resourcesv1alpha1.ResourceClass] != "garden" {
				continue
			}
			breach := chart.Breach{Template: manifest.Template, Object: fmt.Sprintf("Secret %s/%s", o.GetNamespace(), o.GetName())}
			account := o.GetAnnotations()[resourcesv1alpha1.ServiceAccountName]
			if strings.HasPrefix(account, corev1beta1.InstallationNamespacePrefix) && account != namespaceOf(ci.Name) {
				breach.Field, breach.Reason = resourcesv1alpha1.ServiceAccountName, "names the ServiceAccount of another extension"
				found = append(found, breach)
			}
			if registration := registrationIn(o); registration != "" && registration != ci.Spec.RegistrationRef.Name {
				breach.Field, breach.Reason = resourcesv1alpha1.ServiceAccountLabels, "gives the rights of another extension"
				found = append(found, breach)
			}
		}
	}
	return found
}

// registrationIn returns the name of the ControllerRegistration in the labels that a Secret asks for; "" for none.
func registrationIn(secret *unstructured.Unstructured) string {
	var labels map[string]string
	if json.Unmarshal([]byte(secret.GetAnnotations()[resourcesv1alpha1.ServiceAccountLabels]), &labels) != nil {
		return "" // token-controllers refuse it, too
	}
	return labels[corev1beta1.LabelControllerRegistrationName]
}
