package merge

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// maxUnapplied is the maximum number of fields that Unapplied lists. The list is the part of a message about one object.
const maxUnapplied = 10

// Unapplied lists the fields of a manifest that Merge deliberately does not apply to an existing object, although they differ: at most ten,
// and how many more there are. Fields that an autoscaler sets, or that the manifest asks to preserve, are not among them.
func Unapplied(live, manifest *unstructured.Unstructured) []string {
	kept, lacksAddress := keptInstead(manifest), keepsHeadless(live, manifest)
	if len(kept) == 0 && !lacksAddress {
		return nil
	}
	rules := kindRules{live: runtime.DeepCopyJSON(live.Object), result: runtime.DeepCopyJSON(manifest.Object)}
	if err := rules.apply(manifest.GroupVersionKind()); err != nil {
		return nil // Merge returns this error
	}
	rules.result["metadata"] = rules.live["metadata"]
	found := missing(withData(&unstructured.Unstructured{Object: rules.result}), withData(manifest), kept)
	if lacksAddress {
		found = append(found, "spec.clusterIP")
	}
	if len(found) > maxUnapplied {
		found = append(found[:maxUnapplied], fmt.Sprintf("and %d more", len(found)-maxUnapplied))
	}
	return found
}

// MayBeUnapplied reports whether a manifest has a field that Unapplied may list. It does not consider spec.clusterIP, which Unapplied may
// list for a manifest without a cluster IP: see keepsHeadless.
func MayBeUnapplied(manifest *unstructured.Unstructured) bool { return len(keptInstead(manifest)) > 0 }

// keptInstead returns the paths at which a manifest has values that Merge may replace by the live ones.
func keptInstead(manifest *unstructured.Unstructured) [][]string {
	paths := [][]string{{"metadata", "finalizers"}, {"metadata", "ownerReferences"}}
	for _, each := range (kindRules{result: manifest.Object}).rules(manifest.GroupVersionKind().GroupKind()) {
		paths = append(paths, each.instead...)
	}
	object := withData(manifest)
	return slices.DeleteFunc(paths, func(path []string) bool { return isEmpty(valueAt(object, path)) })
}

// missing returns the fields at or below the paths that wanted has, and that the merged object lacks or has with another value.
func missing(merged, wanted map[string]any, paths [][]string) []string {
	mergedTyped, mergedKnown := throughType(merged)
	wantedTyped, wantedKnown := throughType(wanted)
	known := mergedKnown && wantedKnown
	different := comparison{contained: true}
	for _, path := range paths {
		has, wants := side{raw: merged, typed: mergedTyped, known: known}, side{raw: wanted, typed: wantedTyped, known: known}
		var at fieldpath.Path
		for _, name := range path {
			has, wants, at = has.field(name), wants.field(name), below(at, fieldpath.FieldNameElement(name))
		}
		different.values(at, has, wants)
	}
	if len(different.found) == 0 {
		return nil
	}
	texts := make([]string, 0, len(different.found))
	for _, path := range different.found {
		texts = append(texts, PathText(path))
	}
	return slices.Compact(texts)
}

// keepsHeadless reports whether a Service has no cluster IP although its manifest wants one. The API server does not allocate a cluster IP
// after the creation.
func keepsHeadless(live, manifest *unstructured.Unstructured) bool {
	at := func(object *unstructured.Unstructured, field string) any {
		return valueAt(object.Object, []string{"spec", field})
	}
	isExternal := func(object *unstructured.Unstructured) bool {
		return at(object, "type") == string(corev1.ServiceTypeExternalName)
	}
	return manifest.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Service"} && !isExternal(live) && !isExternal(manifest) &&
		at(live, "clusterIP") == corev1.ClusterIPNone && isEmpty(at(manifest, "clusterIP"))
}

// valueAt returns the value at a path, nil if there is none.
func valueAt(object map[string]any, path []string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	return value
}
