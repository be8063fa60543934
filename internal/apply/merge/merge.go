// Package merge computes, from a manifest and the live object, the object with which to replace the live one, and reports whether that
// write would change anything. A set is a ManagedResource.
//
// It merges untyped objects, not Go types, so that no field is lost that the libraries do not know yet. No function changes its inputs, and
// results share no mutable value with them. The functions accept manifests and live objects of any shape: if a rule reads a value of the
// wrong type, it returns an error that names the place.
package merge

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Options configures how a manifest is merged.
type Options struct {
	// Origin is the value of the origin annotation, which names the ManagedResource of the object.
	Origin string
	// InjectLabels are the labels that every object of the set gets; see InjectedLabels.
	InjectLabels map[string]string
	// ForceLabels removes the labels of the live object that the manifest lacks, except the labels in which Kubernetes stores state.
	ForceLabels bool
	// ForceAnnotations removes the annotations of the live object that the manifest lacks, except the annotations in which Kubernetes, or the
	// load balancer controller of OpenStack, stores state.
	ForceAnnotations bool
	// Previous is the entry of the status for the object, with the labels and annotations of the last apply. If the manifest lacks one of
	// these labels or annotations, Merge removes it, unless its live value has changed since. Nil on the first apply.
	Previous *resourcesv1alpha1.ObjectReference
	// PreserveReplicas keeps the live number of replicas, because an autoscaler owns it. Merge itself reads the annotation of the manifest
	// that requests the same.
	PreserveReplicas bool
	// Ignored are the fields of the objects of the set that stay as they are in the live object.
	Ignored Ignored
	// ReplicasPath is the path of the number of replicas in objects of a kind that the Kubernetes libraries do not know. Nil if the kind has
	// no scale subresource.
	ReplicasPath []string
	// PreserveResources keeps the live CPU and memory of containers, because an autoscaler owns them. Merge itself reads the annotation of the
	// manifest that requests the same.
	PreserveResources bool
}

// ForCreate returns the object to create. It merges as if the manifest were the live object. So, unlike Merge, it uses the finalizers,
// owner references and other metadata of the manifest.
func ForCreate(manifest *unstructured.Unstructured, o Options) (*unstructured.Unstructured, error) {
	return merge(manifest.Object, manifest.Object, o, true)
}

// Merge returns the object with which to replace live. Its metadata, except for labels and annotations, and its status come from live. All
// other fields come from the manifest, except for fields that the rules of its kind or the annotations KeepFields and IgnoreFields keep
// from live. Errors name the place in the object. Only errors of InjectLabels also name the object itself.
func Merge(live, manifest *unstructured.Unstructured, o Options) (*unstructured.Unstructured, error) {
	return merge(live.Object, manifest.Object, o, false)
}

func merge(live, manifest map[string]any, o Options, creating bool) (*unstructured.Unstructured, error) {
	live = runtime.DeepCopyJSON(live)
	result := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(manifest)}
	if err := InjectLabels(result, o.InjectLabels); err != nil {
		return nil, err
	}
	desiredAnnotations, err := textsAt(result.Object, "metadata", "annotations")
	if err != nil {
		return nil, err
	}
	kept, err := keptPaths(desiredAnnotations)
	if err != nil {
		return nil, err
	}
	kept = append(kept, o.Ignored.of(result)...)
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
		replicasPath:      o.ReplicasPath,
		preserveResources: o.PreserveResources || desiredAnnotations[resourcesv1alpha1.PreserveResources] == literalTrue,
	}
	if err := rules.apply(result.GroupVersionKind()); err != nil {
		return nil, err
	}
	if !creating {
		for _, path := range kept {
			keepPath(live, result.Object, path)
		}
	}
	return result, nil
}

// ForCreateIgnored returns the object to create for a manifest whose object is not updated after its creation (see IsIgnored): the manifest
// itself without the description annotation.
func ForCreateIgnored(manifest *unstructured.Unstructured) *unstructured.Unstructured {
	result, _ := MergeIgnored(manifest)
	return result
}

// MergeIgnored returns the object with which to replace a live object whose manifest is ignored (see IsIgnored), and reports whether it
// changed anything. It only removes the description annotation, because that text says that Espalier reverts changes.
//
//nolint:revive // Beside Merge and ForCreateIgnored, this is the name that a caller looks for.
func MergeIgnored(live *unstructured.Unstructured) (result *unstructured.Unstructured, changed bool) {
	result = live.DeepCopy()
	annotations, err := mapAt(result.Object, "metadata", "annotations")
	if err != nil {
		// The API server refuses such an object with an error.
		return result, false
	}
	if _, found := annotations[resourcesv1alpha1.DescriptionAnnotation]; !found {
		return result, false
	}
	delete(annotations, resourcesv1alpha1.DescriptionAnnotation)
	return result, true
}

// literalTrue is the only value that enables the annotations which are not read with Truthy.
const literalTrue = "true"

// Truthy reports whether the value of an annotation or label means true: 1, t, T, TRUE, true or True.
func Truthy(value string) bool {
	truth, err := strconv.ParseBool(value)
	return err == nil && truth
}

// AsksForPlan reports whether the annotations of a set ask the controller to plan and not to apply it, and whether the value is invalid. An
// invalid value requests a plan, because the user wanted to see the plan first.
func AsksForPlan(annotations map[string]string) (only, malformed bool) {
	value, found := annotations[resourcesv1alpha1.Plan]
	if !found {
		return false, false
	}
	truth, err := strconv.ParseBool(value)
	return truth || err != nil, err != nil
}

// IsIgnored reports whether a manifest requests that its object is created once and not updated afterwards.
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
