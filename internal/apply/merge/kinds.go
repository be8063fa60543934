package merge

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// restartedAtAnnotation is set on a pod template by `kubectl rollout restart`. Removing it would roll the pods again.
const restartedAtAnnotation = "kubectl.kubernetes.io/restartedAt"

// kindRules contains the input and the result of the merge rules of a kind. result is the manifest at first. The rules copy the fields to
// keep from live to result. They may change both objects and share values between them.
type kindRules struct {
	live, result                        map[string]any
	creating                            bool
	preserveReplicas, preserveResources bool
	// replicasPath is the path of the field with the number of replicas, for a kind that the Kubernetes libraries do not know. It is nil if
	// the path is not known.
	replicasPath []string
}

// rule keeps fields of the live object in the merged one.
type rule struct {
	keep func() error
	// instead are the paths of fields that the rule keeps even if the manifest gives other values. It does not list the fields that an
	// autoscaler sets or that the manifest asks to preserve, although the rule may keep these fields, too. All other fields are kept only
	// where the manifest gives no value.
	instead [][]string
}

// apply runs the rules of a kind, for all of its versions. It returns an error for a CronJob of an unknown version.
func (r kindRules) apply(gvk schema.GroupVersionKind) error {
	if gvk.Group == "batch" && gvk.Kind == "CronJob" && gvk.Version != "v1" && gvk.Version != "v1beta1" {
		return fmt.Errorf("cannot merge objects with gvk: %s", gvk) // the pod template of other versions may be at another path
	}
	for _, each := range r.rules(gvk.GroupKind()) {
		if err := each.keep(); err != nil {
			return err
		}
	}
	return nil
}

// rules returns the rules of a kind.
func (r kindRules) rules(kind schema.GroupKind) []rule {
	replicas := rule{keep: r.keepReplicas}
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "extensions", Kind: "Deployment"}:
		return []rule{replicas, r.ofPodTemplate("spec", "template")}
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "extensions", Kind: "StatefulSet"}:
		claims := rule{keep: r.keepVolumeClaimTemplates, instead: [][]string{{"spec", "volumeClaimTemplates"}}}
		return []rule{replicas, r.ofPodTemplate("spec", "template"), claims}
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return []rule{r.ofPodTemplate("spec", "template")}
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		selector := rule{keep: r.keepSelector, instead: [][]string{{"spec", "selector"}}}
		return []rule{selector, {keep: r.keepTemplateLabels}, r.ofPodTemplate("spec", "template"), r.ofSpecFields("managedBy")}
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return []rule{r.ofPodTemplate("spec", "jobTemplate", "spec", "template")}
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Kind: "ReplicationController"}:
		return []rule{replicas}
	case schema.GroupKind{Kind: "Service"}:
		return []rule{r.ofService()}
	case schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}, schema.GroupKind{Group: "extensions", Kind: "Ingress"}:
		return []rule{{keep: r.keepClass}}
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return []rule{r.ofField("imagePullSecrets"), r.ofField("secrets")}
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return []rule{{keep: r.keepInClaim}}
	case schema.GroupKind{Kind: "PersistentVolume"}:
		return []rule{{keep: r.keepClaimRef, instead: [][]string{{"spec", "claimRef"}}}, r.ofSpecFields("nodeAffinity")}
	case schema.GroupKind{Kind: "Pod"}:
		return []rule{{keep: r.keepInPod, instead: [][]string{{"spec"}}}}
	case schema.GroupKind{Kind: "Node"}:
		return []rule{r.ofSpecFields("podCIDR", "podCIDRs", "providerID", "taints")}
	case schema.GroupKind{Kind: "Secret"}:
		return r.ofTokens()
	case schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:
		return r.ofAggregation()
	case schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:
		return []rule{{keep: r.keepWebhookBundles}}
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return []rule{r.ofBundle("spec", "conversion", "webhook", "clientConfig")}
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		return []rule{r.ofBundle("spec")}
	default:
		return []rule{{keep: r.keepReplicasAt}}
	}
}

// ofPodTemplate returns the rule of the pod template at a path.
func (r kindRules) ofPodTemplate(path ...string) rule {
	restartedAt := append(slices.Clone(path), "metadata", "annotations", restartedAtAnnotation)
	return rule{keep: func() error { return r.keepInPodTemplate(path...) }, instead: [][]string{restartedAt}}
}

// ofField returns a rule that always keeps the live value of a top-level field.
func (r kindRules) ofField(field string) rule {
	return rule{keep: func() error { keep(r.live, r.result, field); return nil }, instead: [][]string{{field}}}
}

// ofSpecFields returns the rule that keeps fields of spec if the manifest has none. Controllers of Kubernetes and webhooks set them, at the
// creation or once, and the API server refuses to remove most of them.
func (r kindRules) ofSpecFields(fields ...string) rule {
	return rule{keep: func() error {
		if _, isMap := r.live["spec"].(map[string]any); !isMap { // a Node may have none
			return nil
		}
		for _, field := range fields {
			if err := r.keepSpecField(field, false); err != nil {
				return err
			}
		}
		return nil
	}}
}

// keep copies a field from one map to the other. If from lacks the field, keep removes it from the other map.
func keep(from, to map[string]any, field string) {
	delete(to, field)
	if value := from[field]; value != nil {
		to[field] = value
	}
}

// specs returns the spec of live and of result. It creates the spec of the result if it is missing.
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

// keepReplicasAt does the same as keepReplicas for kinds that the libraries do not know. If the path is not known, it keeps the usual
// field spec.replicas, but only if an autoscaler or the annotation "preserve-replicas" requires that.
func (r kindRules) keepReplicasAt() error {
	path := r.replicasPath
	if len(path) == 0 {
		if _, isMap := r.live["spec"].(map[string]any); !isMap || !r.preserveReplicas {
			return nil
		}
		path = []string{"spec", "replicas"}
	}
	parent, field := path[:len(path)-1], path[len(path)-1]
	live, err := mapAt(r.live, parent...)
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	if live[field] == nil {
		return nil
	}
	result, err := ensureMap(r.result, parent...)
	if err != nil {
		return err
	}
	if r.preserveReplicas || result[field] == nil {
		result[field] = live[field]
	}
	return nil
}

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

// keepSelector keeps the selector that the API server generated for a Job, in place of a selector in the manifest.
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

// keepRestartedAt keeps restartedAtAnnotation, the time of the last manual restart, in a pod template.
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

// keepContainerResources keeps the live requests and limits of CPU and memory of the containers that exist in both pod templates.
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
