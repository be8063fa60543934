package merge

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// restartedAtAnnotation is set on a pod template by `kubectl rollout restart`. Removing it would roll the pods again.
const restartedAtAnnotation = "kubectl.kubernetes.io/restartedAt"

// kindRules contains the input and the result of the rules of a kind. The rules copy fields of live that are kept into result.
// They may change both objects and share values between them.
type kindRules struct {
	live, result                        map[string]any
	creating                            bool
	preserveReplicas, preserveResources bool
}

// apply runs the rules of a kind, for all versions unless a rule limits them.
func (r kindRules) apply(gvk schema.GroupVersionKind) error {
	switch gvk.GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "extensions", Kind: "Deployment"}:
		return firstError(r.keepReplicas, r.keepInTemplate)
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "extensions", Kind: "StatefulSet"}:
		return firstError(r.keepReplicas, r.keepInTemplate, r.keepVolumeClaimTemplates)
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return r.keepInTemplate()
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return firstError(r.keepSelector, r.keepTemplateLabels, r.keepInTemplate)
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		if gvk.Version != "v1" && gvk.Version != "v1beta1" {
			return fmt.Errorf("cannot merge objects with gvk: %s", gvk) // the pod template of other versions may be at another path
		}
		return r.keepInPodTemplate("spec", "jobTemplate", "spec", "template")
	case schema.GroupKind{Kind: "Service"}:
		return r.keepInService()
	case schema.GroupKind{Kind: "ServiceAccount"}:
		keep(r.live, r.result, "secrets")
		keep(r.live, r.result, "imagePullSecrets")
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}: // Gardener's resource manager has no rule for claims and volumes
		return r.keepSpecField("volumeName", false) // the API server refuses to remove it
	case schema.GroupKind{Kind: "PersistentVolume"}:
		return r.keepSpecField("claimRef", false) // removing it separates the volume from its claim
	}
	return nil
}

func firstError(rules ...func() error) error {
	for _, rule := range rules {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

// keep copies a field, or its absence, from one object to the other.
func keep(from, to map[string]any, field string) {
	delete(to, field)
	if value := from[field]; value != nil {
		to[field] = value
	}
}

// specs returns spec of both objects. It creates the spec of the result if it is missing.
func (r kindRules) specs() (live, result map[string]any, err error) {
	live, err = mapAt(r.live, "spec")
	if err != nil {
		return nil, nil, fmt.Errorf("live object: %w", err)
	}
	result, err = ensureMap(r.result, "spec")
	return live, result, err
}

// keepSpecField keeps the live value of a field of spec if the manifest has none. If overwrite is true, it also replaces the value of the
// manifest.
func (r kindRules) keepSpecField(field string, overwrite bool) error {
	live, result, err := r.specs()
	if err != nil {
		return err
	}
	if value := live[field]; value != nil && (overwrite || result[field] == nil) {
		result[field] = value
	}
	return nil
}

// keepReplicas keeps the number of replicas if the manifest has none, or if it must be preserved.
func (r kindRules) keepReplicas() error { return r.keepSpecField("replicas", r.preserveReplicas) }

// keepVolumeClaimTemplates keeps the claim templates, which the API server does not allow to change.
func (r kindRules) keepVolumeClaimTemplates() error {
	live, result, err := r.specs()
	if err != nil {
		return err
	}
	metadata, err := mapAt(r.live, "metadata")
	if err != nil {
		return err
	}
	if !r.creating && !isEmpty(metadata["creationTimestamp"]) {
		keep(live, result, "volumeClaimTemplates")
	}
	return nil
}

// keepSelector keeps the selector that the API server generated for a Job.
func (r kindRules) keepSelector() error {
	live, result, err := r.specs()
	if err != nil {
		return err
	}
	keep(live, result, "selector")
	return nil
}

// keepTemplateLabels keeps the labels that the API server added to the pod template of a Job, which cannot be changed.
func (r kindRules) keepTemplateLabels() error {
	path := []string{"spec", "template", "metadata", "labels"}
	liveLabels, err := textsAt(r.live, path...)
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	desiredLabels, err := textsAt(r.result, path...)
	if err != nil {
		return err
	}
	template, err := mapAt(r.result, "spec", "template")
	if err != nil || template == nil || len(liveLabels) == 0 {
		return err
	}
	metadata, err := ensureMap(template, "metadata")
	if err != nil {
		return err
	}
	metadata["labels"] = untyped(labels.Merge(liveLabels, desiredLabels))
	return nil
}

// keepInTemplate applies the rules for the pod template of most kinds.
func (r kindRules) keepInTemplate() error { return r.keepInPodTemplate("spec", "template") }

func (r kindRules) keepInPodTemplate(path ...string) error {
	live, err := mapAt(r.live, path...)
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	result, err := mapAt(r.result, path...)
	if err != nil || live == nil || result == nil {
		return err
	}
	if err := keepRestartedAt(live, result); err != nil {
		return err
	}
	if !r.preserveResources {
		return nil
	}
	return keepContainerResources(live, result)
}

// keepRestartedAt keeps the time of the last manual restart.
func keepRestartedAt(live, result map[string]any) error {
	annotations, err := mapAt(live, "metadata", "annotations")
	if err != nil {
		return fmt.Errorf("live object: pod template: %w", err)
	}
	restartedAt, found := annotations[restartedAtAnnotation]
	if !found {
		return nil
	}
	kept, err := ensureMap(result, "metadata", "annotations")
	if err != nil {
		return fmt.Errorf("pod template: %w", err)
	}
	kept[restartedAtAnnotation] = restartedAt
	return nil
}

// keepContainerResources keeps CPU and memory of the containers that exist in both pod templates.
func keepContainerResources(live, result map[string]any) error {
	liveContainers, err := mapsAt(live, "spec", "containers")
	if err != nil {
		return fmt.Errorf("live object: pod template: %w", err)
	}
	containers, err := mapsAt(result, "spec", "containers")
	if err != nil {
		return fmt.Errorf("pod template: %w", err)
	}
	for _, container := range containers {
		for _, liveContainer := range liveContainers {
			if container["name"] == nil || !equalScalars(container["name"], liveContainer["name"]) {
				continue
			}
			for _, field := range []string{"requests", "limits"} {
				if err := keepResources(liveContainer, container, field); err != nil {
					return fmt.Errorf("pod template: container: %w", err)
				}
			}
		}
	}
	return nil
}

func keepResources(live, result map[string]any, field string) error {
	liveResources, err := mapAt(live, "resources", field)
	if err != nil {
		return err
	}
	kept := maps.Clone(liveResources)
	maps.DeleteFunc(kept, func(name string, value any) bool { return (name != "cpu" && name != "memory") || value == nil })
	if len(kept) == 0 {
		return nil
	}
	resources, err := ensureMap(result, "resources", field)
	if err != nil {
		return err
	}
	maps.Copy(resources, kept)
	return nil
}
