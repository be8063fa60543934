package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
)

// Unstructured returns typed objects, which must have their apiVersion and kind, in the form in which they are written.
func Unstructured(objects ...client.Object) ([]*unstructured.Unstructured, error) {
	all := make([]*unstructured.Unstructured, 0, len(objects))
	for _, each := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(each)
		if err != nil {
			return nil, fmt.Errorf("convert %s: %w", each.GetName(), err)
		}
		o := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(o.Object, "status")
		unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "creationTimestamp")
		all = append(all, o)
	}
	return all, nil
}

// YAML returns an object as a text in which all keys are sorted by their bytes.
func YAML(o *unstructured.Unstructured) ([]byte, error) {
	text, err := manifest.Encode(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", describe(o), err)
	}
	return text, nil
}

// forCreation returns the object to create: the desired object with the label of objects that this program creates.
func (c Cluster) forCreation(desired *unstructured.Unstructured) *unstructured.Unstructured {
	o := desired.DeepCopy()
	o.SetResourceVersion("")
	c.markAsOurs(o)
	return o
}

// forUpdate returns a copy of the live object with the changes that make it the desired object. It adds the labels and annotations of the
// desired object to the existing ones, replaces the other fields that the desired object sets, and keeps all other fields. It removes
// annotations for references that the desired object does not have: the garbage collector would keep the objects to which these
// annotations refer. If the predecessor wrote the live object, forUpdate adds the label of objects that this program created.
func (c Cluster) forUpdate(live, desired *unstructured.Unstructured) *unstructured.Unstructured {
	o := live.DeepCopy()
	for field, value := range desired.DeepCopy().Object {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, field) {
			o.Object[field] = value
		}
	}
	o.SetLabels(overlaid(o.GetLabels(), desired.GetLabels()))
	annotations := o.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, resourcesv1alpha1.ReferencePrefix) })
	o.SetAnnotations(overlaid(annotations, desired.GetAnnotations()))
	for _, entry := range live.GetManagedFields() {
		if c.Predecessor != "" && entry.Manager == c.Predecessor {
			c.markAsOurs(o)
		}
	}
	if version := desired.GetResourceVersion(); version != "" {
		o.SetResourceVersion(version)
	}
	return o
}

func overlaid(base, top map[string]string) map[string]string {
	if base == nil && len(top) > 0 {
		base = map[string]string{}
	}
	maps.Copy(base, top)
	return base
}

func (c Cluster) markAsOurs(o client.Object) {
	o.SetLabels(overlaid(o.GetLabels(), map[string]string{c.CreatedBy.Key: c.CreatedBy.Value}))
}

// IsOurs reports whether the program created an object, so that it may delete it.
func (c Cluster) IsOurs(o client.Object) bool {
	value, marked := o.GetLabels()[c.CreatedBy.Key]
	return marked && value == c.CreatedBy.Value
}

// IsForeign reports whether another client created an object, and neither this program nor its predecessor has written it.
func (c Cluster) IsForeign(o client.Object) bool {
	return !c.IsOurs(o) && !slices.ContainsFunc(o.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == c.FieldManager || c.Predecessor != "" && entry.Manager == c.Predecessor
	})
}

// refersTo reports whether an object refers to an immutable Secret or ConfigMap, so that the garbage collector keeps it.
func refersTo(o, to client.Object) bool {
	kind := strings.ToLower(to.GetObjectKind().GroupVersionKind().Kind)
	return o.GetNamespace() == to.GetNamespace() && o.GetAnnotations()[references.AnnotationKey(kind, to.GetName())] == to.GetName()
}
