package config

import (
	"maps"
	"slices"
)

// move moves the fields of a section to another section. from is the path of the section in other releases and documents, and to is its
// canonical path. If a field is set at both paths, the value at the canonical path stays. move also moves a value of a wrong type, so that
// the decoder reports it.
func (d *document) move(from, to string) []Warning {
	source, name := d.fieldOf(from, false)
	value, used := source[name]
	if !used {
		return nil
	}
	target, targetName := d.fieldOf(to, true)
	if target == nil {
		return nil // The decoder reports the field, and why there is no such section.
	}
	delete(source, name)
	if target[targetName] == nil {
		target[targetName] = value
		d.moved[to] = from
		return []Warning{{Path: from, Message: "read as " + to}}
	}
	fields, isMap := value.(map[string]any)
	canonical, isCanonicalMap := target[targetName].(map[string]any)
	if !isMap || !isCanonicalMap {
		return []Warning{{Path: from, Message: "ignored, " + to + " is set"}}
	}
	warnings := make([]Warning, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, set := canonical[name]; set {
			warnings = append(warnings, Warning{Path: child(from, name), Message: "ignored, " + child(to, name) + " is set"})
			continue
		}
		canonical[name] = fields[name]
		d.moved[child(to, name)] = child(from, name)
		warnings = append(warnings, Warning{Path: child(from, name), Message: "read as " + child(to, name)})
	}
	return warnings
}

// resolveNamespace converts the single namespace of older releases into a list. An empty list does not override a named namespace, so that
// the narrower setting applies.
func (d *document) resolveNamespace(at string) []Warning {
	connection := d.section(at, false)
	value, used := connection["namespace"]
	if !used {
		return nil
	}
	from, to := child(at, "namespace"), child(at, "namespaces")
	delete(connection, "namespace")
	if list, isList := connection["namespaces"].([]any); connection["namespaces"] != nil && (!isList || len(list) > 0) {
		return []Warning{{Path: from, Message: "ignored, " + to + " is set"}}
	}
	if value == nil || value == "" {
		return []Warning{{Path: from, Message: "empty, all namespaces are watched"}}
	}
	connection["namespaces"] = []any{value}
	d.moved[item(to, 0)] = from
	return []Warning{{Path: from, Message: "read as " + to}}
}
