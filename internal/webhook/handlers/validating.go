package handlers

import (
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/deletionprotection"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
)

const deletionProtected = "gardener.cloud/deletion-protected"

// deletionProtection returns the row of package deletionprotection. Two webhooks call the handler of this row; in the flavour for shoots,
// no webhook calls it.
func deletionProtection() Handler {
	return Handler{
		Name: "crd-deletion-protection", Path: "/webhooks/validate-crd-deletion",
		Section: "crdDeletionProtection", Switch: func(w *config.Webhooks) *bool { return &w.CRDDeletionProtection.Enabled }, Registered: true,
		Webhooks: func(in Cluster) []registration.Webhook {
			if in.Shoot() {
				return nil // Gardener's kinds do not exist there
			}
			return []registration.Webhook{definitionDeletion(in), resourceDeletion(in)}
		},
		Review: func(s Settings) review.Handler { return &deletionprotection.Handler{Source: s.Source} },
	}
}

// extensionValidation returns the rows of package extensionvalidation, one for each kind.
func extensionValidation() []Handler {
	kinds := extensionvalidation.Kinds()
	all := make([]Handler, 0, len(kinds))
	for _, kind := range kinds {
		all = append(all, Handler{
			Name: kind.Name, Path: kind.Path,
			Section: "extensionValidation", Switch: func(w *config.Webhooks) *bool { return &w.ExtensionValidation.Enabled },
			Webhooks: func(in Cluster) []registration.Webhook {
				if in.Shoot() {
					return nil
				}
				rule := registration.Rule(registration.OnWrite(), kind.Group, registration.Versions(extensionvalidation.Version), kind.Plural)
				return []registration.Webhook{{Rules: registration.Rules(rule), Namespaces: registration.Selection{Standard: in.Plain()}}}
			},
			Review: func(Settings) review.Handler { return kind.Handler },
		})
	}
	return all
}

func definitionDeletion(in Cluster) registration.Webhook {
	return registration.Webhook{
		Rules: registration.Rules(
			registration.Rule(registration.OnDelete(), "apiextensions.k8s.io", registration.Versions("v1beta1", "v1"), "customresourcedefinitions"),
		),
		Namespaces: registration.Selection{Standard: in.Plain()},
		Objects:    registration.Selection{Labels: registration.Labelled(deletionProtected, "true")},
	}
}

func resourceDeletion(in Cluster) registration.Webhook {
	var extensions []string
	for _, kind := range extensionvalidation.Kinds() {
		// The handler allows the deletion of Bastions without a confirmation. Gardener registers the webhook for them too.
		exempt := !kind.ConfirmDeletion && in.Plain()
		if kind.Group == extensionvalidation.GroupExtensions && !exempt {
			extensions = append(extensions, kind.Plural)
		}
	}
	version := registration.Versions(extensionvalidation.Version)
	return registration.Webhook{
		Name: "cr-deletion-protection",
		Rules: registration.Rules(
			registration.Rule(registration.OnDelete(), extensionvalidation.GroupDruid, version, "etcds"),
			registration.Rule(registration.OnDelete(), extensionvalidation.GroupExtensions, version, extensions...),
		),
		Namespaces: registration.Selection{Standard: in.Plain()},
	}
}
