package config

import (
	"maps"
	"slices"
)

// alias is another spelling of a section that a file may use. If both are set, the canonical spelling takes precedence, field by field.
type alias struct{ spelling, canonical path }

// resourceManagerAliases are the sections that other releases and documents spell differently.
func resourceManagerAliases() []alias {
	return []alias{
		{spelling: path{"controllers", "managedResources"}, canonical: path{"controllers", "managedResource"}},
		{spelling: path{"controllers", "csrApprover"}, canonical: path{"controllers", "kubeletCSRApprover"}},
		{spelling: path{"controllers", "nodeCriticalComponents"}, canonical: path{"controllers", "node"}},
	}
}

// controllerManagerAliases are the sections of older releases: one HTTP server for probes, and one HTTPS server for webhooks.
func controllerManagerAliases() []alias {
	return []alias{
		{spelling: path{"server", "http"}, canonical: path{"server", "healthProbes"}},
		{spelling: path{"server", "https"}, canonical: path{"espalier", "project", "webhooks"}},
	}
}

// resolveAliases rewrites the tree to canonical names, and returns a warning for each change.
func (d *document) resolveAliases(aliases []alias) []Warning {
	warnings := make([]Warning, 0, len(aliases))
	for _, a := range aliases {
		warnings = append(warnings, d.move(a.spelling, a.canonical)...)
	}
	return warnings
}

// move moves the fields of one section to another. Fields that the target sets take precedence. It also moves a value of a wrong type, so
// that the decoder reports it.
func (d *document) move(from, to path) []Warning {
	source, name := d.section(from.parent(), false), from.last()
	value, used := source[name]
	if !used {
		return nil
	}
	target := d.section(to.parent(), true)
	if target == nil {
		return nil // The decoder reports the field, and why there is no such section.
	}
	delete(source, name)
	if target[to.last()] == nil {
		target[to.last()] = value
		d.moved[to.String()] = from
		return []Warning{d.warn(from, "read as "+to.String())}
	}
	fields, isMap := value.(map[string]any)
	canonical, isCanonicalMap := target[to.last()].(map[string]any)
	if !isMap || !isCanonicalMap {
		return []Warning{d.warn(from, "ignored, "+to.String()+" is set")}
	}
	warnings := make([]Warning, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, set := canonical[name]; set {
			warnings = append(warnings, d.warn(from.child(name), "ignored, "+to.child(name).String()+" is set"))
			continue
		}
		canonical[name] = fields[name]
		d.moved[to.child(name).String()] = from.child(name)
		warnings = append(warnings, d.warn(from.child(name), "read as "+to.child(name).String()))
	}
	return warnings
}

// resolveNamespace converts the single namespace of older releases into a list. An empty list does not override a named namespace, so that
// the narrower setting applies.
func (d *document) resolveNamespace(at path) []Warning {
	connection := d.section(at, false)
	value, used := connection["namespace"]
	if !used {
		return nil
	}
	from, to := at.child("namespace"), at.child("namespaces")
	delete(connection, "namespace")
	if list, isList := connection["namespaces"].([]any); connection["namespaces"] != nil && (!isList || len(list) > 0) {
		return []Warning{d.warn(from, "ignored, "+to.String()+" is set")}
	}
	if value == nil || value == "" {
		return []Warning{d.warn(from, "empty, all namespaces are watched")}
	}
	connection["namespaces"] = []any{value}
	d.moved[to.item(0).String()] = from
	return []Warning{d.warn(from, "read as "+to.String())}
}
