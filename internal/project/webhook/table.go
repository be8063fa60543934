// Package webhook is the admission of Projects. Handlers returns the table of the handlers, one row for each concern: the name and path of
// the handler, the requests that API servers send to it, and the function that answers. The server, the webhook configurations and the
// documentation follow from the table. To add a handler, write a file with the handler and a file with its tests, and add a row.
//
// Each handler is a webhook of its own, so that an administrator can switch off a handler by registering only the other handlers. Handlers
// allow or deny a request, or change its object in the response; handlers do not change objects by requests to API servers. Rules that the
// schema of the CRD can express are beside the types. The controllers do all work after a Project is stored.
package webhook

import (
	"context"
	"net/http"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Handler is one row of the table.
type Handler struct {
	// Name is the handler's name in metrics and logs.
	Name string
	// Webhook declares at which path and for which requests API servers call the handler.
	Webhook registration.Webhook
	// Does describes the work of the handler for the documentation, as a sentence without its subject.
	Does string

	// handle answers the reviews of the declared operations.
	handle func(Settings, context.Context, *review.Request) review.Response
}

// Settings are the values and clients that handlers need.
type Settings struct {
	// Live reads from the API server, and not from a cache.
	Live       client.Reader
	Authorizer Authorizer
	// AnyShoot asks the API server whether there is a Shoot in a namespace. It returns an error if that is unknown.
	AnyShoot func(ctx context.Context, namespace string) (bool, error)
	// MaxProjectsPerCreator is how many Projects a user may have created; 0 for any number, for which nothing is read.
	MaxProjectsPerCreator int
}

// Handlers returns the table, in the order in which API servers call the webhooks: handlers that change objects come first.
func Handlers() []Handler {
	const mutating, validating = registration.Mutating, registration.Validating
	written, created, deleted := registration.OnWrite(), registration.OnCreate(), registration.OnDelete()
	return []Handler{
		ofProjects("normalization", "/webhooks/normalize-project", mutating, written, Settings.normalize,
			"sets apiGroups and roles of members"),
		ofProjects("ownership", "/webhooks/default-project-owner", mutating, written, Settings.setOwner,
			"sets the creator, the owner and the membership of the owner"),
		ofProjects("validation", "/webhooks/validate-project", validating, written, Settings.validate,
			"refuses duplicate members and tolerations, which a schema cannot refuse. Duplicates that were stored before the "+
				"webhook existed may stay"),
		ofProjects("namespace-use", "/webhooks/validate-project-namespace", validating, written, Settings.checkNamespaceUse,
			"refuses a namespace that another project has"),
		ofProjects("permission", "/webhooks/validate-project-permission", validating, written, Settings.checkPermission,
			"requires the verbs [above](#who-may-do-what). To remove finalizer `gardener`, or to add `foregroundDeletion` or "+
				"`orphan`, it requires `update` of `projects/finalizers`, which no member has: without finalizer `gardener` a project would "+
				"be deleted at once, and then its namespace, with all Shoots"),
		ofProjects("creator-limit", "/webhooks/validate-project-creator", validating, created, Settings.checkCreatorLimit,
			"[limits](#projects-per-creator) how many projects a user may have created"),
		ofProjects("deletion-confirmation", "/webhooks/validate-project-deletion", validating, deleted, Settings.checkConfirmation,
			"refuses to delete a project without confirmation, or with a propagation policy other than `Background`, the default "+
				"of kubectl"),
		{
			Name: "namespace-deletion", handle: Settings.checkNamespaceDeletion, Does: "refuses to delete namespaces of projects",
			Webhook: registration.Webhook{
				// Gardener gives the webhook of namespaces this name.
				Type: validating, Name: "validate-namespace-deletion.gardener.cloud", Path: "/webhooks/validate-namespace-deletion",
				Rules:      registration.Rules(registration.Rule(deleted, "", registration.Versions("v1"), "namespaces")),
				Namespaces: registration.Selection{Labels: registration.Labelled(corev1beta1.LabelRole, corev1beta1.RoleProject)},
			},
		},
	}
}

func ofProjects(
	name, path string, kind registration.Type, on []admissionregistrationv1.OperationType,
	handle func(Settings, context.Context, *review.Request) review.Response, does string,
) Handler {
	versions := registration.Versions(corev1beta1.SchemeGroupVersion.Version)
	return Handler{Name: name, handle: handle, Does: does, Webhook: registration.Webhook{
		Type: kind, Name: name + ".project-controller.espalier.dev", Path: path,
		Rules: registration.Rules(registration.Rule(on, corev1beta1.GroupName, versions, "projects")),
		// API servers send Projects of every version, converted to the declared one
		MatchPolicy: admissionregistrationv1.Equivalent,
	}}
}

// Mutating reports whether the handler changes objects. Other handlers only allow or deny.
func (h Handler) Mutating() bool { return h.Webhook.Type == registration.Mutating }

// Review returns the review.Handler of the row. It allows operations that no rule of the row declares, and all requests for subresources.
func (h Handler) Review(s Settings) review.Handler {
	return review.HandlerFunc(func(ctx context.Context, request *review.Request) review.Response {
		declares := func(rule admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(rule.Operations, admissionregistrationv1.OperationType(request.Operation))
		}
		if request.SubResource != "" || !slices.ContainsFunc(h.Webhook.Rules, declares) {
			return review.Allowed("")
		}
		return h.handle(s, ctx, request)
	})
}

// respond is the response of a handler that only allows or denies. An empty refusal allows the request.
func respond(refusal string, err error) review.Response {
	switch {
	case err != nil:
		return review.Errored(http.StatusInternalServerError, err)
	case refusal != "":
		return review.Denied(refusal)
	}
	return review.Allowed("")
}

// Names in the configurations that deploy/ ships.
const (
	shippedName      = "espalier-project-controller"
	shippedNamespace = "espalier-system"
)

// Declared returns the webhooks of all handlers, in the order of the table.
func Declared() []registration.Webhook {
	handlers := Handlers()
	all := make([]registration.Webhook, 0, len(handlers))
	for _, each := range handlers {
		all = append(all, each.Webhook)
	}
	return all
}

// Configurations returns a function that builds the webhook configurations of all handlers. The argument of that function is the
// certificate authority in PEM; with nil, the configurations contain no authority.
func Configurations(own registration.Server) func(caBundle []byte) []client.Object {
	return own.Configurations(shippedName, Declared()...)
}

// Shipped returns the configurations as in deploy/, without a certificate authority.
func Shipped() []client.Object {
	return Configurations(registration.Server{Name: shippedName, Namespace: shippedNamespace, ServiceName: shippedName})(nil)
}
