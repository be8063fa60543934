package handlers

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const skipSystem = "system-components-config.resources.gardener.cloud/skip"

// systemComponents places Pods of system components on the Nodes that are meant for system components. It adds labels to the node selector
// of the Pod, which replace other values of the same labels. It also adds the configured tolerations, and tolerations for the taints of
// these Nodes. It does not change Pods of DaemonSets.
func systemComponents() Handler {
	return Handler{
		Name: "system-components-config", Path: "/webhooks/system-components-config", Mutating: true,
		Section: "systemComponentsConfig", Switch: func(w *config.Webhooks) *bool { return &w.SystemComponentsConfig.Enabled },
		Webhooks: func(in Cluster) []registration.Webhook {
			// Only shoots have Nodes for system components. In other clusters, every object of a ManagedResource has the label managed-by, and the
			// Pods with this label would stay Pending with a node selector that no Node matches.
			if !in.Shoot() {
				return nil
			}
			return []registration.Webhook{{
				Rules:      createdPods(),
				Namespaces: registration.Selection{Standard: true},
				Objects:    registration.Selection{Standard: true, Labels: in.Pods(registration.Absent(skipSystem))},
			}}
		},
		Review: func(s Settings) review.Handler {
			section := s.Webhooks.SystemComponentsConfig
			ask := func(_ *review.Request, found systemPod) (nodes map[string]string, needed bool) {
				return section.NodeSelector, !ofDaemonSet(found)
			}
			pod := corev1.SchemeGroupVersion.WithKind("Pod")
			return object.ChangeAfter(pod, ask, s.Taints, func(found systemPod, taints []corev1.Taint) review.Response {
				response := review.Patched(planSystemComponents(found, section, taints))
				response.Warnings = overruledLabels(found, section.PodNodeSelector)
				return response
			})
		},
	}
}

// systemPod is the part of a Pod that the handler reads.
type systemPod struct {
	Metadata struct {
		OwnerReferences []owner `json:"ownerReferences"`
	} `json:"metadata"`
	Spec *systemPodSpec `json:"spec"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Controller bool   `json:"controller"`
}

type systemPodSpec struct {
	NodeSelector map[string]string         `json:"nodeSelector"`
	Tolerations  []object.Kept[toleration] `json:"tolerations"`
}

// ofDaemonSet reports whether a DaemonSet owns the Pod. The DaemonSet then chooses the Node.
func ofDaemonSet(found systemPod) bool {
	return slices.Contains(found.Metadata.OwnerReferences, owner{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: true})
}

// planSystemComponents adds the node selector, the configured tolerations, and tolerations of the taints to a Pod.
func planSystemComponents(found systemPod, section config.SystemComponentsConfigWebhook, taints []corev1.Taint) patch.Patch {
	changes, spec := patch.Patch{}, systemPodSpec{}
	if found.Spec == nil {
		changes.Add("/spec", struct{}{})
	} else {
		spec = *found.Spec
	}
	beginning := len(changes)
	selectNodes(&changes, spec.NodeSelector, section.PodNodeSelector)
	tolerate(&changes, spec.Tolerations, append(slices.Clip(section.PodTolerations), tolerationsOf(taints)...))
	if len(changes) == beginning {
		return nil
	}
	return changes
}

// overruledLabels returns a warning for each label in the Pod's node selector whose value the handler replaces.
func overruledLabels(found systemPod, want map[string]string) []string {
	if found.Spec == nil {
		return nil
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, asked := found.Spec.NodeSelector[key]; asked && value != want[key] {
			warnings = append(warnings, fmt.Sprintf("spec.nodeSelector: %q is set to %q instead of %q", key, want[key], excerpt.Quoted(value)))
		}
	}
	return warnings
}

// selectNodes adds the wanted labels to a node selector. They replace existing values.
func selectNodes(changes *patch.Patch, have, want map[string]string) {
	if have == nil {
		if len(want) > 0 {
			changes.Add("/spec/nodeSelector", want)
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, found := have[key]; !found || value != want[key] {
			changes.Add(patch.Pointer("spec", "nodeSelector", key), want[key])
		}
	}
}
