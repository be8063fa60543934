package registrations

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
)

// deletionPath serves both webhooks that ask for confirmed deletions.
const deletionPath = "/webhooks/validate-crd-deletion"

// validating declares the enabled handlers that judge, in the order of their configuration. Gardener has none in shoots,
// where the kinds do not exist.
func (d declarer) validating(cfg config.Webhooks) []registration.Webhook {
	if d.flavor == config.FlavorGardenerShoot {
		return nil
	}
	var all []registration.Webhook
	if cfg.CRDDeletionProtection.Enabled {
		all = append(all, d.definitionDeletion(), d.resourceDeletion())
	}
	if cfg.ExtensionValidation.Enabled {
		for _, kind := range Kinds() {
			all = append(all, d.validation(kind))
		}
	}
	return all
}

func (d declarer) definitionDeletion() registration.Webhook {
	return registration.Webhook{
		Type: registration.Validating,
		Name: "crd-deletion-protection" + suffix, Path: deletionPath,
		Rules:      rules(rule(onDelete(), "apiextensions.k8s.io", version("v1beta1", "v1"), "customresourcedefinitions")),
		Namespaces: registration.Selection{Standard: d.plain()},
		Objects:    registration.Selection{Labels: metav1.LabelSelector{MatchLabels: map[string]string{deletionProtected: "true"}}},
	}
}

func (d declarer) resourceDeletion() registration.Webhook {
	var extensions []string
	for _, kind := range Kinds() {
		// Bastions live for minutes: the handler lets them go unconfirmed. Gardener registers them nevertheless.
		exempt := kind.Kind == "Bastion" && d.plain()
		if kind.Group == groupExtensions && !exempt {
			extensions = append(extensions, kind.Plural)
		}
	}
	return registration.Webhook{
		Type: registration.Validating,
		Name: "cr-deletion-protection" + suffix, Path: deletionPath,
		Rules: rules(
			rule(onDelete(), groupDruid, version(versionV1alpha1), "etcds"),
			rule(onDelete(), groupExtensions, version(versionV1alpha1), extensions...),
		),
		Namespaces: registration.Selection{Standard: d.plain()},
	}
}

func (d declarer) validation(kind Kind) registration.Webhook {
	return registration.Webhook{
		Type: registration.Validating,
		Name: "validation.extensions." + kind.Plural + suffix, Path: kind.Path(),
		Rules:      rules(rule(onWrite(), kind.Group, version(kind.Version), kind.Plural)),
		Namespaces: registration.Selection{Standard: d.plain()},
	}
}
