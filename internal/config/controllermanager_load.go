package config

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ControllerManager decodes a configuration file of project-controller and sets the defaults. See ResourceManager for the difference
// between warnings and errors. A section of Gardener's controller-manager for another controller causes a warning, and is not a mistake.
func ControllerManager(data []byte) (*ControllerManagerConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	// In files of older releases, server.http configures the server of probes, and server.https the server of webhooks.
	warnings = slices.Concat(warnings,
		doc.move("server.http", "server.healthProbes"),
		doc.move("server.https", "espalier.project.webhooks"),
		doc.dropForeign("", "discovery", "kubernetesLogLevel"),
		doc.dropForeign("controllers", foreignControllers()...),
	)
	doc.resolveChoices()
	return loadDocument[ControllerManagerConfiguration](doc, ControllerManagerAPIVersion, ControllerManagerKind, warnings, doc.checkQuotas())
}

// resolveChoices accepts the unquoted word Off, which YAML reads as false, as a value of staleDeletion. In the fields that choices lists,
// it reads an empty text as null, which the decoder refuses.
func (d *document) resolveChoices() {
	for _, at := range choices() {
		section, name := d.fieldOf(at, false)
		switch value := section[name].(type) {
		case string:
			if value == "" {
				section[name] = nil
			}
		case bool:
			if !value && name == "staleDeletion" {
				section[name] = StaleDeletionOff
			}
		}
	}
}

// foreignControllers returns the names of the sections of the other controllers of Gardener's controller-manager in all its releases.
func foreignControllers() []string {
	return []string{
		"backupInfrastructure", "bastion", "certificateSigningRequest", "cloudProfile", "controllerDeployment", "controllerRegistration",
		"credentialsBinding", "event", "exposureClass", "managedSeedSet", "namespacedCloudProfile", "plant", "quota", "secretBinding",
		"seed", "seedBackupBucketsCheck", "seedExtensionsCheck", "seedReference", "shoot", "shootCare", "shootConditions",
		"shootHibernation", "shootMaintenance", "shootMigration", "shootQuota", "shootReference", "shootRetry", "shootState",
		"shootStatusLabel",
	}
}

// dropForeign removes fields of a section that belong to other programs. It returns one warning for each.
func (d *document) dropForeign(at string, names ...string) []Warning {
	var warnings []Warning
	section := d.section(at, false)
	for _, name := range names {
		if _, used := section[name]; used {
			delete(section, name)
			warnings = append(warnings, Warning{Path: child(at, name), Message: "ignored, this process does nothing about it"})
		}
	}
	return warnings
}

// checkQuotas returns an error for every quota whose manifest lacks apiVersion or kind, or is not a v1 ResourceQuota. It removes that
// manifest, so that its fields are not checked as fields of a ResourceQuota.
func (d *document) checkQuotas() []error {
	const at = "controllers.project"
	quotas, _ := d.section(at, false)["quotas"].([]any)
	var errs []error
	for i := range quotas {
		entry, _ := quotas[i].(map[string]any)
		manifest, ok := entry["config"].(map[string]any)
		if !ok {
			continue
		}
		if problem := judgeQuota(manifest); problem != "" {
			errs = append(errs, d.mistake(child(item(at+".quotas", i), "config"), problem))
			delete(entry, "config")
		}
	}
	return errs
}

// judgeQuota describes the mistake in a manifest's version or kind; empty if they are valid.
func judgeQuota(manifest map[string]any) string {
	apiVersion, _ := manifest["apiVersion"].(string)
	kind, _ := manifest["kind"].(string)
	if apiVersion == "" || kind == "" {
		return "has no apiVersion or no kind: write apiVersion: v1 and kind: ResourceQuota"
	}
	want := schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}
	if got := schema.FromAPIVersionAndKind(apiVersion, kind); got != want {
		return fmt.Sprintf("%s is not a supported ResourceQuota configuration", got)
	}
	return ""
}
