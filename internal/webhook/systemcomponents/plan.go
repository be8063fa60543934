package systemcomponents

import (
	"fmt"
	"maps"
	"slices"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/webhook/object"

	corev1 "k8s.io/api/core/v1"
)

// pod is what the handler reads of a Pod.
type pod struct {
	Metadata struct {
		OwnerReferences []owner `json:"ownerReferences"`
	} `json:"metadata"`
	Spec *podSpec `json:"spec"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Controller bool   `json:"controller"`
}

type podSpec struct {
	NodeSelector map[string]string         `json:"nodeSelector"`
	Tolerations  []object.Kept[toleration] `json:"tolerations"`
}

// ofDaemonSet is true for Pods whose DaemonSet says on which nodes they run.
func ofDaemonSet(found pod) bool {
	return slices.Contains(found.Metadata.OwnerReferences, owner{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: true})
}

// plan lets a Pod run on the nodes for system components, which have the taints.
func plan(found pod, section config.SystemComponentsConfigWebhook, taints []corev1.Taint) patch.Patch {
	changes, spec := patch.Patch{}, podSpec{}
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

// overruled says, for whoever creates a Pod, which labels of its node selector give way.
func overruled(found pod, want map[string]string) []string {
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

// selectNodes adds the wanted labels to a node selector, in which they win.
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
