package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ControllerManager decodes a configuration file of project-controller and sets the defaults. See ResourceManager for the difference
// between warnings and errors. A section of Gardener's controller-manager for another controller causes a warning, and is not a mistake.
func ControllerManager(data []byte) (*ControllerManagerConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(warnings, doc.resolveAliases(controllerManagerAliases())...)
	doc.resolveOff()
	warnings = append(warnings, doc.dropForeign(path{}, "discovery", "kubernetesLogLevel")...)
	warnings = append(warnings, doc.dropForeign(path{"controllers"}, foreignControllers()...)...)
	c := &ControllerManagerConfiguration{}
	unknown, err := doc.load(c, ControllerManagerAPIVersion, ControllerManagerKind, doc.checkQuotas()...)
	if err != nil {
		return nil, nil, err
	}
	return c, append(warnings, unknown...), nil
}

// resolveOff accepts the unquoted word Off, which YAML reads as false, as a value of staleDeletion.
func (d *document) resolveOff() {
	const field = "staleDeletion"
	project := d.section(path{"espalier", "project"}, false)
	if word, isBool := project[field].(bool); isBool && !word {
		project[field] = StaleDeletionOff
	}
}

// foreignControllers are the sections of the other controllers of Gardener's controller-manager in all its releases.
func foreignControllers() []string {
	return []string{
		"backupInfrastructure", "bastion", "certificateSigningRequest", "cloudProfile", "controllerDeployment", "controllerRegistration",
		"credentialsBinding", "event", "exposureClass", "managedSeedSet", "namespacedCloudProfile", "plant", "quota", "secretBinding",
		"seed", "seedBackupBucketsCheck", "seedExtensionsCheck", "seedReference", "shoot", "shootCare", "shootConditions",
		"shootHibernation", "shootMaintenance", "shootMigration", "shootQuota", "shootReference", "shootRetry", "shootState",
		"shootStatusLabel",
	}
}

// dropForeign removes fields of a section that are for other programs, with one warning for each.
func (d *document) dropForeign(at path, names ...string) []Warning {
	var warnings []Warning
	section := d.section(at, false)
	for _, name := range names {
		if _, used := section[name]; used {
			delete(section, name)
			warnings = append(warnings, d.warn(at.child(name), "ignored, this process does nothing about it"))
		}
	}
	return warnings
}

// checkQuotas returns an error for every quota whose manifest is of another kind. It removes that manifest, so that its fields are not
// checked as those of a ResourceQuota.
func (d *document) checkQuotas() []error {
	at := path{"controllers", "project"}
	quotas, _ := d.section(at, false)["quotas"].([]any)
	var errs []error
	for i := range quotas {
		entry, _ := quotas[i].(map[string]any)
		manifest, ok := entry["config"].(map[string]any)
		if !ok {
			continue
		}
		if problem := judgeQuota(manifest); problem != "" {
			errs = append(errs, d.mistake(at.child("quotas").item(i).child("config"), problem))
			delete(entry, "config")
		}
	}
	return errs
}

// judgeQuota returns what is wrong with a manifest's version and kind; empty if they are valid.
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
