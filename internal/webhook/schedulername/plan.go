package schedulername

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// pod is what the handler reads of a Pod.
type pod struct {
	Spec *podSpec `json:"spec"`
}

type podSpec struct {
	SchedulerName string `json:"schedulerName"`
}

// plan names the scheduler of a Pod that does not ask for a particular one.
func plan(found pod, name string) patch.Patch {
	changes := patch.Patch{}
	switch {
	case name == "":
	case found.Spec == nil:
		changes.Add("/spec", podSpec{SchedulerName: name})
	case found.Spec.SchedulerName == name:
	case found.Spec.SchedulerName == "" || found.Spec.SchedulerName == corev1.DefaultSchedulerName:
		changes.Add("/spec/schedulerName", name)
	}
	return changes
}
