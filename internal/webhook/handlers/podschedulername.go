package handlers

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

// podSchedulerName sets the configured scheduler in Pods that name no scheduler or the default one. Without a configured name it changes no
// Pod.
func podSchedulerName() Handler {
	return Handler{
		Name: "pod-scheduler-name", Path: "/webhooks/default-pod-scheduler-name", Mutating: true,
		Section: "podSchedulerName", Switch: func(w *config.Webhooks) *bool { return &w.PodSchedulerName.Enabled },
		Webhooks: func(in Cluster) []registration.Webhook {
			return []registration.Webhook{{
				Rules:         createdPods(),
				Namespaces:    registration.Selection{Standard: in.Plain()},
				Objects:       registration.Selection{Labels: in.Pods()},
				FailurePolicy: admissionregistrationv1.Ignore,
			}}
		},
		Policy: &Policy{
			Conditions: []admissionregistrationv1.MatchCondition{
				condition("names-no-scheduler", "!has(object.spec.schedulerName) || object.spec.schedulerName in ['', 'default-scheduler']"),
			},
			Variables: []admissionregistrationv1.Variable{{Name: "schedulerName", Expression: "'default-scheduler'"}},
			Patch:     "[JSONPatch{op: 'add', path: '/spec/schedulerName', value: variables.schedulerName}]",
		},
		Review: func(s Settings) review.Handler {
			name := ptr.Deref(s.Webhooks.PodSchedulerName.SchedulerName, "")
			return object.Change(corev1.SchemeGroupVersion.WithKind("Pod"), func(found schedulerPod) patch.Patch {
				return planSchedulerName(found, name)
			})
		},
	}
}

// schedulerPod is the part of a Pod that the handler reads.
type schedulerPod struct {
	Spec *schedulerPodSpec `json:"spec"`
}

type schedulerPodSpec struct {
	SchedulerName string `json:"schedulerName"`
}

// planSchedulerName sets the scheduler of a Pod, unless the Pod names another than the default one.
func planSchedulerName(found schedulerPod, name string) patch.Patch {
	changes := patch.Patch{}
	switch {
	case name == "":
	case found.Spec == nil:
		changes.Add("/spec", schedulerPodSpec{SchedulerName: name})
	case found.Spec.SchedulerName == name:
	case found.Spec.SchedulerName == "" || found.Spec.SchedulerName == corev1.DefaultSchedulerName:
		changes.Add("/spec/schedulerName", name)
	}
	return changes
}
