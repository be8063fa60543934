package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// ControllerManager decodes a configuration file of project-controller and sets the defaults. See ResourceManager for the difference
// between warnings and errors. A section of Gardener's controller-manager for another controller causes a warning, and is not a mistake.
func ControllerManager(data []byte) (*ControllerManagerConfiguration, []Warning, error) {
	doc, warnings, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(warnings, doc.resolveControllerManager()...)
	doc.resolveOff()
	warnings = append(warnings, doc.dropForeign(foreignControllerManagerSections())...)
	c := &ControllerManagerConfiguration{}
	errs := doc.checkQuotas()
	unknown, wrong := decode(doc, c)
	errs = append(errs, wrong...)
	errs = append(errs, checkType(doc, c.TypeMeta, ControllerManagerAPIVersion, ControllerManagerKind)...)
	if len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	c.Default()
	return c, append(warnings, unknown...), nil
}

// resolveControllerManager converts the format of older releases: one HTTP server for probes, and one HTTPS server for webhooks.
func (d *document) resolveControllerManager() []Warning {
	server, ok := mapping(d.tree, path{"server"})
	if !ok {
		return nil
	}
	warnings := d.resolveSection(server, alias{section: path{"server"}, spelling: "http", canonical: "healthProbes"})
	at := path{"espalier", "project"}
	if _, used := server["https"]; !used {
		return warnings
	}
	if project, ok := d.ensure(at); ok {
		warnings = append(warnings, d.move(place{server, path{"server"}, "https"}, place{project, at, "webhooks"})...)
	}
	return warnings
}

// ensure returns the map at a path, and creates it if it does not exist. It returns false if there is another value.
func (d *document) ensure(at path) (map[string]any, bool) {
	current, ok := d.tree.(map[string]any)
	for _, step := range at {
		if !ok {
			return nil, false
		}
		if current[step] == nil {
			current[step] = map[string]any{}
		}
		current, ok = current[step].(map[string]any)
	}
	return current, ok
}

// resolveOff accepts the unquoted word Off, which YAML reads as false, as a value of staleDeletion.
func (d *document) resolveOff() {
	const field = "staleDeletion"
	project, ok := mapping(d.tree, path{"espalier", "project"})
	if !ok {
		return
	}
	if word, isBool := project[field].(bool); isBool && !word {
		project[field] = StaleDeletionOff
	}
}

// foreignSection lists fields of a section that are for other programs.
type foreignSection struct {
	at    path
	names []string
}

// foreignControllerManagerSections are those of Gardener's controller-manager in all its releases.
func foreignControllerManagerSections() []foreignSection {
	return []foreignSection{
		{path{}, []string{"discovery", "kubernetesLogLevel"}},
		{path{"controllers"}, []string{
			"backupInfrastructure", "bastion", "certificateSigningRequest", "cloudProfile", "controllerDeployment", "controllerRegistration",
			"credentialsBinding", "event", "exposureClass", "managedSeedSet", "namespacedCloudProfile", "plant", "quota", "secretBinding",
			"seed", "seedBackupBucketsCheck", "seedExtensionsCheck", "seedReference", "shoot", "shootCare", "shootConditions",
			"shootHibernation", "shootMaintenance", "shootMigration", "shootQuota", "shootReference", "shootRetry", "shootState",
			"shootStatusLabel",
		}},
	}
}

// dropForeign removes sections that are for other programs, with one warning for each.
func (d *document) dropForeign(sections []foreignSection) []Warning {
	var warnings []Warning
	for _, section := range sections {
		parent, ok := mapping(d.tree, section.at)
		if !ok {
			continue
		}
		for _, name := range section.names {
			if _, used := parent[name]; used {
				delete(parent, name)
				warnings = append(warnings, d.warn(section.at.child(name), "ignored, this process does nothing about it"))
			}
		}
	}
	return warnings
}

// quotaKind returns the only kind that is allowed for a quota of projects.
func quotaKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}
}

// checkQuotas returns an error for every quota whose manifest is of another kind. It removes that manifest, so that its fields are not
// checked as those of a ResourceQuota.
func (d *document) checkQuotas() []error {
	at := path{"controllers", "project"}
	project, _ := mapping(d.tree, at)
	quotas, _ := project["quotas"].([]any)
	var errs []error
	for i := range quotas {
		entry, ok := quotas[i].(map[string]any)
		if !ok {
			continue
		}
		manifest, ok := entry["config"].(map[string]any)
		if !ok {
			continue
		}
		problem := judgeQuota(manifest)
		if problem == "" {
			continue
		}
		where := at.child("quotas").item(i).child("config")
		errs = append(errs, &FieldError{Path: where.String(), Line: d.line(where), Message: problem})
		delete(entry, "config")
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
	if got := schema.FromAPIVersionAndKind(apiVersion, kind); got != quotaKind() {
		return fmt.Sprintf("%s is not a supported ResourceQuota configuration", got)
	}
	return ""
}
