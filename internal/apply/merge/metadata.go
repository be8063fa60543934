package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// InjectedLabels returns the labels that every object of a set gets: the labels in the spec, overlaid by the managed-by label. So the spec
// cannot override that label.
func InjectedLabels(spec map[string]string, managedByValue string) map[string]string {
	return labels.Merge(spec, labels.Set{resourcesv1alpha1.ManagedBy: managedByValue})
}

// InjectLabels sets labels on an object in place, over the labels that it has: on the object itself, on the pod template of any kind that
// has an object at spec.template, and on the templates of volume claims. It does not change selectors and the templates of a CronJob.
// Templates of another shape, such as texts, stay as they are. If InjectLabels fails, it may have set some labels.
func InjectLabels(obj *unstructured.Unstructured, injected map[string]string) error {
	if obj.Object == nil {
		obj.Object = map[string]any{}
	}
	if err := injectLabels(obj.Object, injected); err != nil {
		return fmt.Errorf("error injecting labels into object %q: %w", describe(obj), err)
	}
	return nil
}

func injectLabels(object map[string]any, injected map[string]string) error {
	if err := overlayLabels(object, injected); err != nil {
		return err
	}
	spec, isMap := object["spec"].(map[string]any)
	if !isMap {
		return nil
	}
	injectTemplate(spec["template"], injected)
	claims, _ := spec["volumeClaimTemplates"].([]any)
	for _, claim := range claims {
		injectTemplate(claim, injected)
	}
	return nil
}

// injectTemplate sets labels in a template that has the shape of an object. It does not change a template of another shape: custom kinds
// may have a text or a list in this field, which may be valid.
func injectTemplate(template any, injected map[string]string) {
	typed, isMap := template.(map[string]any)
	if !isMap {
		return
	}
	_ = overlayLabels(typed, injected) // it changes nothing if metadata or its labels have another shape
}

// overlayLabels sets labels in the metadata of an object or template.
func overlayLabels(object map[string]any, injected map[string]string) error {
	old, err := textsAt(object, "metadata", "labels")
	if err != nil || len(injected) == 0 {
		return err
	}
	metadata, err := ensureMap(object, "metadata")
	if err != nil {
		return err
	}
	metadata["labels"] = untyped(labels.Merge(old, injected))
	return nil
}

// mergeMetadata returns live's metadata with merged labels and annotations. It also sets the description and origin annotations. The
// caller has already injected labels into result, which is a copy of the manifest.
func mergeMetadata(live, result map[string]any, o Options) (map[string]any, error) {
	liveMetadata, err := mapAt(live, "metadata")
	if err != nil {
		return nil, fmt.Errorf("live object: %w", err)
	}
	previous := ptr.Deref(o.Previous, resourcesv1alpha1.ObjectReference{})
	keptLabels, keptAnnotations := ofKubernetes(live)
	mergedLabels, err := mergeTexts(live, result, "labels", o.ForceLabels, keptLabels, previous.Labels)
	if err != nil {
		return nil, err
	}
	annotations, err := mergeTexts(live, result, "annotations", o.ForceAnnotations, keptAnnotations, previous.Annotations)
	if err != nil {
		return nil, err
	}
	annotations[resourcesv1alpha1.DescriptionAnnotation] = resourcesv1alpha1.DescriptionText
	annotations[resourcesv1alpha1.OriginAnnotation] = o.Origin

	metadata := map[string]any{}
	maps.Copy(metadata, liveMetadata)
	delete(metadata, "labels")
	if len(mergedLabels) > 0 {
		metadata["labels"] = untyped(mergedLabels)
	}
	metadata["annotations"] = untyped(annotations)
	return metadata, nil
}

// ofKubernetes returns the prefixes of the labels and annotations in which Kubernetes stores state of an object. If Espalier removed such
// labels and annotations, Kubernetes would lose that state, such as the binding of a claim, or add them again.
func ofKubernetes(object map[string]any) (labels, annotations []string) {
	switch (&unstructured.Unstructured{Object: object}).GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}, schema.GroupKind{Kind: "PersistentVolume"}:
		return nil, []string{"pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/"}
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "extensions", Kind: "Deployment"}:
		return nil, []string{"deployment.kubernetes.io/"}
	case schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: // version v1 has this part of the status in annotations
		return nil, []string{"autoscaling.alpha.kubernetes.io/conditions", "autoscaling.alpha.kubernetes.io/current-metrics"}
	case schema.GroupKind{Kind: "Secret"}: // token of a ServiceAccount: without label invalid-since, it would be valid again
		return []string{"kubernetes.io/legacy-token-"}, []string{corev1.ServiceAccountUIDKey}
	}
	return nil, nil
}

// mergeTexts merges the labels or annotations of an object. If force is true, it drops the live labels or annotations whose key has none
// of the prefixes in kept. It always drops the live reference annotations.
func mergeTexts(live, result map[string]any, field string, force bool, kept []string, previous map[string]string) (map[string]string,
	error,
) {
	desiredTexts, err := textsAt(result, "metadata", field)
	if err != nil {
		return nil, err
	}
	liveTexts, err := textsAt(live, "metadata", field)
	if err != nil {
		return nil, fmt.Errorf("live object: %w", err)
	}
	if force {
		maps.DeleteFunc(liveTexts, func(key, _ string) bool {
			return !slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		})
	}
	if field == "annotations" {
		maps.DeleteFunc(liveTexts, func(key, _ string) bool { return strings.HasPrefix(key, resourcesv1alpha1.ReferencePrefix) })
	}
	return threeWay(liveTexts, desiredTexts, previous), nil
}

// threeWay returns live overlaid by desired. It removes the keys of previous, the last apply, that desired lacks and whose live values are
// unchanged.
func threeWay(live, desired, previous map[string]string) map[string]string {
	merged := labels.Merge(live, desired)
	for key, value := range previous {
		_, isDesired := desired[key]
		if liveValue, isLive := live[key]; isLive && liveValue == value && !isDesired {
			delete(merged, key)
		}
	}
	return merged
}
