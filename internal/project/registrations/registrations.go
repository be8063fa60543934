// Package registrations declares the webhooks of project-controller, with the requests for which each is called. Each concern is a separate
// webhook, in the order in which mutating webhooks must be called. A configuration may omit any of them.
package registrations

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/project/webhook/confirmation"
	"github.com/espalier-dev/espalier/internal/project/webhook/creatorlimit"
	"github.com/espalier-dev/espalier/internal/project/webhook/namespacedeletion"
	"github.com/espalier-dev/espalier/internal/project/webhook/namespaceuse"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalization"
	"github.com/espalier-dev/espalier/internal/project/webhook/ownership"
	"github.com/espalier-dev/espalier/internal/project/webhook/permission"
	"github.com/espalier-dev/espalier/internal/project/webhook/validation"
)

const (
	// suffix is the end of all webhooks' names except one.
	suffix = ".project-controller.espalier.dev"
	// namespaceDeletion is the name that Gardener gives the webhook of namespaces.
	namespaceDeletion = "validate-namespace-deletion.gardener.cloud"
)

// Names in the configurations that deploy/ ships.
const (
	shippedName      = "espalier-project-controller"
	shippedNamespace = "espalier-system"
)

// Own says how API servers reach the webhooks.
type Own struct {
	// Name is the name of the webhook configurations.
	Name string
	// Namespace and ServiceName are the Service whose port 443 leads to the server. They are not used if URL is set.
	Namespace, ServiceName string
	// URL is the address of the server: https://host:port, without a path.
	URL string
}

// Configurations returns a function that builds both webhook configurations. Its argument is the certificate authority in PEM that API
// servers shall trust; with nil, the configurations have none.
func Configurations(own Own) func(caBundle []byte) []client.Object {
	return func(caBundle []byte) []client.Object {
		reach := registration.Service(own.Namespace, own.ServiceName, caBundle)
		if own.URL != "" {
			reach = registration.URL(own.URL, caBundle)
		}
		built := registration.Configuration{Name: own.Name, Labels: map[string]string{"app": shippedName}, Client: reach}
		return built.Both(Declared()...)
	}
}

// Shipped returns the configurations as in deploy/, without a certificate authority.
func Shipped() []client.Object {
	return Configurations(Own{Name: shippedName, Namespace: shippedNamespace, ServiceName: shippedName})(nil)
}

// Declared returns all webhooks, the mutating ones first, in the order in which they are called.
func Declared() []registration.Webhook {
	create, update, remove := admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete
	return []registration.Webhook{
		ofProjects(registration.Mutating, normalization.Name, normalization.Path, create, update),
		ofProjects(registration.Mutating, ownership.Name, ownership.Path, create, update),
		ofProjects(registration.Validating, validation.Name, validation.Path, create, update),
		ofProjects(registration.Validating, namespaceuse.Name, namespaceuse.Path, create, update),
		ofProjects(registration.Validating, permission.Name, permission.Path, create, update),
		ofProjects(registration.Validating, creatorlimit.Name, creatorlimit.Path, create),
		ofProjects(registration.Validating, confirmation.Name, confirmation.Path, remove),
		{
			Type: registration.Validating, Name: namespaceDeletion, Path: namespacedeletion.Path,
			Rules:      rules("", "v1", "namespaces", remove),
			Namespaces: registration.Selection{Labels: metav1.LabelSelector{MatchLabels: map[string]string{corev1beta1.LabelRole: corev1beta1.RoleProject}}},
		},
	}
}

func ofProjects(kind registration.Type, name, path string, on ...admissionregistrationv1.OperationType) registration.Webhook {
	return registration.Webhook{
		Type: kind, Name: name + suffix, Path: path,
		Rules: rules(corev1beta1.GroupName, corev1beta1.SchemeGroupVersion.Version, "projects", on...),
		// whichever version of a Project is written, the webhook gets it in the declared version
		MatchPolicy: admissionregistrationv1.Equivalent,
	}
}

// rules select a resource without its subresources: no webhook is called for writes to status.
func rules(group, version, resource string, on ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: on,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
	}}
}
