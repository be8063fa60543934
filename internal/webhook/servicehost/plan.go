package servicehost

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// variable is the name of the environment variable by which clients in Pods find the API server.
const variable = "KUBERNETES_SERVICE_HOST"

// pod is what the handler reads of a Pod. Containers that are null stay so.
type pod struct {
	Spec struct {
		InitContainers []*container `json:"initContainers"`
		Containers     []*container `json:"containers"`
	} `json:"spec"`
}

type container struct {
	Env []named `json:"env"`
}

type named struct {
	Name string `json:"name"`
}

// plan gives the variable to each container that does not set it in any way, behind its other variables.
func plan(found pod, host string) patch.Patch {
	changes := patch.Patch{}
	giveAll(&changes, "initContainers", found.Spec.InitContainers, host)
	giveAll(&changes, "containers", found.Spec.Containers, host)
	return changes
}

func giveAll(changes *patch.Patch, list string, containers []*container, host string) {
	for i, each := range containers {
		if len(*changes) > patch.MaxOperations { // which is refused
			return
		}
		if each != nil && !slices.Contains(each.Env, named{Name: variable}) {
			patch.Append(changes, patch.Pointer("spec", list, i, "env"), len(each.Env), corev1.EnvVar{Name: variable, Value: host})
		}
	}
}
