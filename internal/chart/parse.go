package chart

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

const notes = "NOTES.txt"

// parse returns the objects in the output of the templates, and separately the hooks.
func parse(chart string, files map[string]string) (Manifests, []Dropped, error) {
	var manifests Manifests
	var hooks []Dropped
	for _, template := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(template, notes) {
			continue
		}
		documents := releaseutil.SplitManifests(files[template])
		keys := slices.Collect(maps.Keys(documents))
		sort.Sort(releaseutil.BySplitManifestsOrder(keys))
		manifest := Manifest{Template: template}
		for i, key := range keys {
			objects, err := decode(documents[key])
			if err != nil {
				return nil, nil, &RenderError{Chart: chart, Template: template, Cause: fmt.Sprintf("document %d of the output: %v", i+1, err)}
			}
			for _, object := range objects {
				if hook := hookOf(template, object); hook != nil {
					hooks = append(hooks, *hook)
				} else {
					manifest.Objects = append(manifest.Objects, object)
				}
			}
		}
		if len(manifest.Objects) > 0 {
			manifests = append(manifests, manifest)
		}
	}
	return manifests, hooks, nil
}

// decode returns the objects of a document: none if it is empty, the items of a list. Its errors quote nothing.
func decode(document string) ([]map[string]any, error) {
	converted, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		return nil, fmt.Errorf("not YAML%s", lineOf(err))
	}
	if bytes.Equal(converted, []byte("null")) {
		return nil, nil
	}
	var object map[string]any
	if err := json.Unmarshal(converted, &object); err != nil {
		return nil, fmt.Errorf("not an object")
	}
	return flatten(object)
}

func flatten(object map[string]any) ([]map[string]any, error) {
	kind, version := text(object, "kind"), text(object, "apiVersion")
	if kind == "" || version == "" {
		return nil, fmt.Errorf("no kind or apiVersion")
	}
	items, isList := object["items"].([]any)
	if !isList || !strings.HasSuffix(kind, "List") {
		return []map[string]any{object}, nil
	}
	var objects []map[string]any
	for _, item := range items {
		inner, isObject := item.(map[string]any)
		if !isObject {
			return nil, fmt.Errorf("an item of a list is not an object")
		}
		more, err := flatten(inner)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

// hookOf returns the entry for an object that is a hook: Helm would not apply it together with the other objects. For any other object it
// returns nil.
func hookOf(template string, object map[string]any) *Dropped {
	events, isHook := child(object, "metadata", "annotations")[helmrelease.HookAnnotation].(string)
	if !isHook {
		return nil
	}
	part := PartHook
	if strings.HasPrefix(strings.TrimSpace(events), string(helmrelease.HookTest)) {
		part = PartTest
	}
	name := text(child(object, "metadata"), "name")
	return &Dropped{Part: part, Name: fmt.Sprintf("%s %s in %s (%s)", text(object, "kind"), name, template, events)}
}

// child returns a nested map; nil if there is none.
func child(object map[string]any, fields ...string) map[string]any {
	for _, field := range fields {
		object, _ = object[field].(map[string]any)
	}
	return object
}

// text returns a string field; "" if it is absent or no string.
func text(object map[string]any, field string) string {
	value, _ := object[field].(string)
	return value
}
