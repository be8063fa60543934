package registrations

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/deletionprotection"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
)

// The groups whose objects are validated and protected. Each is served in one version.
const (
	groupExtensions = "extensions.gardener.cloud"
	groupDruid      = "druid.gardener.cloud"
	versionV1alpha1 = "v1alpha1"
)

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
		for _, kind := range extensionvalidation.Kinds() {
			all = append(all, d.validation(kind))
		}
	}
	return all
}

func (d declarer) definitionDeletion() registration.Webhook {
	return registration.Webhook{
		Type: registration.Validating,
		Name: deletionprotection.Name + suffix, Path: deletionprotection.Path,
		Rules:      rules(rule(onDelete(), "apiextensions.k8s.io", version("v1beta1", "v1"), "customresourcedefinitions")),
		Namespaces: registration.Selection{Standard: d.plain()},
		Objects:    registration.Selection{Labels: metav1.LabelSelector{MatchLabels: map[string]string{deletionProtected: "true"}}},
	}
}

func (d declarer) resourceDeletion() registration.Webhook {
	var extensions []string
	for _, kind := range extensionvalidation.Kinds() {
		// Bastions live for minutes: the handler lets them go unconfirmed. Gardener registers them nevertheless.
		exempt := kind.Kind == "Bastion" && d.plain()
		if kind.Group == groupExtensions && !exempt {
			extensions = append(extensions, kind.Plural)
		}
	}
	return registration.Webhook{
		Type: registration.Validating,
		Name: "cr-deletion-protection" + suffix, Path: deletionprotection.Path,
		Rules: rules(
			rule(onDelete(), groupDruid, version(versionV1alpha1), "etcds"),
			rule(onDelete(), groupExtensions, version(versionV1alpha1), extensions...),
		),
		Namespaces: registration.Selection{Standard: d.plain()},
	}
}

func (d declarer) validation(kind extensionvalidation.Kind) registration.Webhook {
	return registration.Webhook{
		Type: registration.Validating,
		Name: kind.Name + suffix, Path: kind.Path,
		Rules:      rules(rule(onWrite(), kind.Group, version(versionV1alpha1), kind.Plural)),
		Namespaces: registration.Selection{Standard: d.plain()},
	}
}
