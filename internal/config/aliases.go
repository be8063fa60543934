package config

import (
	"maps"
	"slices"
)

// alias is another spelling of a section that a file may use. If both are set, the canonical spelling takes precedence, field by field.
type alias struct {
	section   path // The section that contains both.
	spelling  string
	canonical string
}

// resourceManagerAliases are the sections that other releases and documents spell differently.
func resourceManagerAliases() []alias {
	return []alias{
		{section: path{"controllers"}, spelling: "managedResources", canonical: "managedResource"},
		{section: path{"controllers"}, spelling: "csrApprover", canonical: "kubeletCSRApprover"},
		{section: path{"controllers"}, spelling: "nodeCriticalComponents", canonical: "node"},
	}
}

// resolveAliases rewrites the tree of doc to canonical names, and returns a warning for each change.
func resolveAliases(doc *document, aliases []alias) []Warning {
	var warnings []Warning
	for _, a := range aliases {
		if section, ok := mapping(doc.tree, a.section); ok {
			warnings = append(warnings, doc.resolveSection(section, a)...)
		}
	}
	for _, connection := range []path{{"sourceClientConnection"}, {"targetClientConnection"}} {
		if section, ok := mapping(doc.tree, connection); ok {
			warnings = append(warnings, doc.resolveNamespace(section, connection)...)
		}
	}
	return warnings
}

// resolveSection moves the fields of one alias to the canonical section. It also moves a value of a wrong type, so that the decoder reports
// it.
func (d *document) resolveSection(parent map[string]any, a alias) []Warning {
	return d.move(place{parent, a.section, a.spelling}, place{parent, a.section, a.canonical})
}

// place is a key of a map, and the path of that map.
type place struct {
	parent map[string]any
	at     path
	key    string
}

func (p place) path() path { return p.at.child(p.key) }

// move moves the fields of one section to another. Fields that the target sets take precedence.
func (d *document) move(source, target place) []Warning {
	value, used := source.parent[source.key]
	if !used {
		return nil
	}
	delete(source.parent, source.key)
	from, to := source.path(), target.path()
	if target.parent[target.key] == nil {
		target.parent[target.key] = value
		d.moved[to.String()] = from
		return []Warning{d.warn(from, "read as "+to.String())}
	}
	fields, isMap := value.(map[string]any)
	canonical, isCanonicalMap := target.parent[target.key].(map[string]any)
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
func (d *document) resolveNamespace(connection map[string]any, at path) []Warning {
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

func (d *document) warn(at path, message string) Warning {
	return Warning{Path: at.String(), Line: lineOf(d.node, at), Message: message}
}

// mapping returns the map at the path.
func mapping(tree any, at path) (map[string]any, bool) {
	current, ok := tree.(map[string]any)
	for _, step := range at {
		if !ok {
			return nil, false
		}
		current, ok = current[step].(map[string]any)
	}
	return current, ok
}
