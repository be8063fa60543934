// Package webhook is the admission of Projects. Handlers returns the table of its handlers, one for each concern: name and
// path, the requests that API servers send, and how it answers. The server, the webhook configurations and the tests of the
// documentation read the table. To add a handler, write a file with it and a file with its tests, and add a row.
//
// Each handler is a webhook of its own, so that an administrator can switch it off by registering the others only. Handlers
// allow, deny or change the object of a request, and write nothing themselves. Rules that the schema of the CRD can express are
// beside the types. Everything that happens after a Project is stored is done by the controllers.
package webhook

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

const (
	// suffix ends the names of all webhooks but one.
	suffix = ".project-controller.espalier.dev"
	// gardenersNamespaceDeletion is the name that Gardener gives the webhook of namespaces.
	gardenersNamespaceDeletion = "validate-namespace-deletion.gardener.cloud"
)

// Handler is one row of the table.
type Handler struct {
	// Name is the handler's name in metrics and logs.
	Name string
	// Path is the path at which the server serves the handler.
	Path string
	// Webhook declares for which requests API servers call the handler. Declared fills in its path, and its name unless the
	// row has set one.
	Webhook registration.Webhook
	// Review returns what answers reviews.
	Review func(Settings) review.Handler
}

// Settings are what handlers depend on.
type Settings struct {
	// Live reads from the API server, and not from a cache.
	Live       client.Reader
	Authorizer Authorizer
	Shoots     Shoots
	// MaxProjectsPerCreator is how many Projects a user may create; 0 for any number.
	MaxProjectsPerCreator int
}

// Handlers returns the table, in the order in which API servers call the webhooks: handlers that change objects come first.
func Handlers() []Handler {
	written, created, deleted := registration.OnWrite(), registration.OnCreate(), registration.OnDelete()
	return []Handler{
		{
			Name: "normalization", Path: "/webhooks/normalize-project", Webhook: ofProjects(registration.Mutating, written),
			Review: func(Settings) review.Handler { return Normalization{} },
		},
		{
			Name: "ownership", Path: "/webhooks/default-project-owner", Webhook: ofProjects(registration.Mutating, written),
			Review: func(Settings) review.Handler { return Ownership{} },
		},
		{
			Name: "validation", Path: "/webhooks/validate-project", Webhook: ofProjects(registration.Validating, written),
			Review: func(Settings) review.Handler { return Validation{} },
		},
		{
			Name: "namespace-use", Path: "/webhooks/validate-project-namespace", Webhook: ofProjects(registration.Validating, written),
			Review: func(s Settings) review.Handler { return &NamespaceUse{Projects: s.Live} },
		},
		{
			Name: "permission", Path: "/webhooks/validate-project-permission", Webhook: ofProjects(registration.Validating, written),
			Review: func(s Settings) review.Handler { return &Permission{Authorizer: s.Authorizer} },
		},
		{
			Name: "creator-limit", Path: "/webhooks/validate-project-creator", Webhook: ofProjects(registration.Validating, created),
			Review: func(s Settings) review.Handler {
				return &CreatorLimit{Projects: s.Live, Limit: s.MaxProjectsPerCreator}
			},
		},
		{
			Name: "deletion-confirmation", Path: "/webhooks/validate-project-deletion", Webhook: ofProjects(registration.Validating, deleted),
			Review: func(Settings) review.Handler { return Confirmation{} },
		},
		{
			Name: "namespace-deletion", Path: "/webhooks/validate-namespace-deletion", Webhook: ofNamespaces(deleted),
			Review: func(s Settings) review.Handler { return &NamespaceDeletion{Live: s.Live, Shoots: s.Shoots} },
		},
	}
}

// Mutating reports whether the handler changes objects. Other handlers only allow or deny.
func (h Handler) Mutating() bool { return h.Webhook.Type == registration.Mutating }

// Declared returns the webhooks of all handlers, in the order of the table.
func Declared() []registration.Webhook {
	handlers := Handlers()
	all := make([]registration.Webhook, 0, len(handlers))
	for _, each := range handlers {
		declared := each.Webhook
		declared.Path = each.Path
		if declared.Name == "" {
			declared.Name = each.Name + suffix
		}
		all = append(all, declared)
	}
	return all
}

func ofProjects(kind registration.Type, on []admissionregistrationv1.OperationType) registration.Webhook {
	return registration.Webhook{
		Type: kind,
		Rules: registration.Rules(registration.Rule(on, corev1beta1.GroupName, registration.Versions(corev1beta1.SchemeGroupVersion.Version),
			"projects")),
		// API servers send Projects of every version, converted to the declared one
		MatchPolicy: admissionregistrationv1.Equivalent,
	}
}

func ofNamespaces(on []admissionregistrationv1.OperationType) registration.Webhook {
	return registration.Webhook{
		Type: registration.Validating, Name: gardenersNamespaceDeletion,
		Rules:      registration.Rules(registration.Rule(on, "", registration.Versions("v1"), "namespaces")),
		Namespaces: registration.Selection{Labels: registration.Labelled(corev1beta1.LabelRole, corev1beta1.RoleProject)},
	}
}
