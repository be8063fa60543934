// Package merge makes the object that is written out of a manifest and the live object (spec 2.11 to 2.13), and tells
// whether writing it would change anything.
//
// Objects are merged as they came over the wire, not as Go types, so that no field gets lost that the libraries do not
// know yet. No function changes its inputs, and results share nothing with them that could be changed. Manifests and live
// objects of any shape are taken: what has the wrong type where a rule reads it is an error that names the place.
package merge

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Options says how a manifest is merged.
type Options struct {
	// Origin is the value of the annotation that names the set of the object.
	Origin string
	// InjectLabels are the labels that every object of the set gets; see InjectedLabels.
	InjectLabels map[string]string
	// ForceLabels removes the labels of the live object that the manifest does not want.
	ForceLabels bool
	// ForceAnnotations removes the annotations of the live object that the manifest does not want.
	ForceAnnotations bool
	// Previous is what the status says about the object: the labels and annotations of the last apply, of which those are
	// removed that the manifest dropped. Nil on the first apply.
	Previous *resourcesv1alpha1.ObjectReference
	// PreserveReplicas keeps the live number of replicas, because an autoscaler owns it. The annotation of the manifest
	// that asks for the same is found here.
	PreserveReplicas bool
	// PreserveResources keeps the live CPU and memory of containers, for the same reasons.
	PreserveResources bool
}

// ForCreate returns the object to create. It is merged as if the manifest were the live object, so finalizers, owners and
// whatever else is in the metadata of the manifest count here, and only here.
func ForCreate(manifest *unstructured.Unstructured, o Options) (*unstructured.Unstructured, error) {
	return merge(manifest.Object, manifest.Object, o, true)
}

// Merge returns the object that live has to become. Metadata is live's except for labels and annotations, status is live's,
// everything else is the manifest's except for what the rules of its kind keep from live. Errors name the place in the
// object, but not the object, except those of InjectLabels.
func Merge(live, manifest *unstructured.Unstructured, o Options) (*unstructured.Unstructured, error) {
	return merge(live.Object, manifest.Object, o, false)
}

func merge(live, manifest map[string]any, o Options, creating bool) (*unstructured.Unstructured, error) {
	live = copyMap(live)
	result := &unstructured.Unstructured{Object: copyMap(manifest)}
	if err := InjectLabels(result, o.InjectLabels); err != nil {
		return nil, err
	}
	desiredAnnotations, err := textsAt(result.Object, "metadata", "annotations")
	if err != nil {
		return nil, err
	}
	metadata, err := mergeMetadata(live, result.Object, o)
	if err != nil {
		return nil, err
	}
	result.Object["metadata"] = metadata
	delete(result.Object, "status")
	if status := live["status"]; !isEmpty(status) {
		result.Object["status"] = status
	}
	rules := kindRules{
		live:              live,
		result:            result.Object,
		creating:          creating,
		preserveReplicas:  o.PreserveReplicas || desiredAnnotations[resourcesv1alpha1.PreserveReplicas] == literalTrue,
		preserveResources: o.PreserveResources || desiredAnnotations[resourcesv1alpha1.PreserveResources] == literalTrue,
	}
	if err := rules.apply(result.GroupVersionKind()); err != nil {
		return nil, err
	}
	return result, nil
}

// ForCreateIgnored returns the object to create for a manifest that is ignored afterwards: the manifest itself without the
// description annotation.
func ForCreateIgnored(manifest *unstructured.Unstructured) *unstructured.Unstructured {
	result, _ := MergeIgnored(manifest)
	return result
}

// MergeIgnored returns what a live object has to become whose manifest is ignored, and whether that changes anything: only
// a description annotation, which would not be true, is removed.
func MergeIgnored(live *unstructured.Unstructured) (result *unstructured.Unstructured, changed bool) { //nolint:revive // Beside Merge and ForCreateIgnored, this is the name that a caller looks for.
	result = &unstructured.Unstructured{Object: copyMap(live.Object)}
	annotations, err := mapAt(result.Object, "metadata", "annotations")
	if err != nil {
		// The API server says what is wrong with it.
		return result, false
	}
	if _, found := annotations[resourcesv1alpha1.DescriptionAnnotation]; !found {
		return result, false
	}
	delete(annotations, resourcesv1alpha1.DescriptionAnnotation)
	return result, true
}

// literalTrue is the only value of some annotations that switches them on.
const literalTrue = "true"

// Truthy tells whether the value of an annotation or label means yes: 1, t, T, TRUE, true or True.
func Truthy(value string) bool {
	truth, err := strconv.ParseBool(value)
	return err == nil && truth
}

// IsIgnored tells whether a manifest asks to be created once and left alone afterwards.
func IsIgnored(manifest *unstructured.Unstructured) bool {
	return Truthy(manifest.GetAnnotations()[resourcesv1alpha1.Ignore])
}

// describe names an object in errors: "<apiVersion>/<Kind>/<namespace or default>/<name>".
func describe(obj *unstructured.Unstructured) string {
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return fmt.Sprintf("%s/%s/%s/%s", obj.GetAPIVersion(), obj.GetKind(), namespace, obj.GetName())
}

// errUnsupportedVersion is the fault of versions whose pod template is not where it is in the others.
func errUnsupportedVersion(gvk schema.GroupVersionKind) error {
	return fmt.Errorf("cannot merge objects with gvk: %s", gvk)
}
