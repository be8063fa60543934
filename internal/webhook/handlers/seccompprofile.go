package handlers

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const skipSeccomp = "seccompprofile.resources.gardener.cloud/skip"

// seccompProfile sets the seccomp profile RuntimeDefault in the security context of Pods that set no profile there. It ignores the
// profiles of containers. It does not change Pods for Windows, because the API server refuses the field in such Pods.
func seccompProfile() Handler {
	return Handler{
		Name: "seccomp-profile", Path: "/webhooks/seccomp-profile", Mutating: true,
		Section: "seccompProfile", Switch: func(w *config.Webhooks) *bool { return &w.SeccompProfile.Enabled }, Registered: true,
		Webhooks: func(in Cluster) []registration.Webhook {
			return []registration.Webhook{{
				Rules:      createdPods(),
				Namespaces: registration.Selection{Standard: true},
				Objects:    registration.Selection{Labels: in.Pods(registration.Absent(skipSeccomp), in.NotOwn())},
			}}
		},
		Policy: seccompProfilePolicy(),
		Review: func(Settings) review.Handler {
			return object.Change(corev1.SchemeGroupVersion.WithKind("Pod"), planSeccompProfile)
		},
	}
}

func seccompProfilePolicy() *Policy {
	const profile = "Object.spec.securityContext.seccompProfile{type: 'RuntimeDefault'}"
	return &Policy{
		Conditions: []admissionregistrationv1.MatchCondition{
			condition("has-no-profile",
				"!has(object.spec.securityContext) || !has(object.spec.securityContext.seccompProfile) || "+
					"!has(object.spec.securityContext.seccompProfile.type) || object.spec.securityContext.seccompProfile.type == ''"),
			condition("is-not-for-windows", "!has(object.spec.os) || object.spec.os.name != 'windows'"),
		},
		Patch: `has(object.spec.securityContext)
  ? [JSONPatch{op: 'add', path: '/spec/securityContext/seccompProfile', value: ` + profile + `}]
  : [JSONPatch{op: 'add', path: '/spec/securityContext', value: Object.spec.securityContext{seccompProfile: ` + profile + `}}]`,
	}
}

// seccompPod is the part of a Pod that the handler reads.
type seccompPod struct {
	Spec *seccompPodSpec `json:"spec"`
}

type seccompPodSpec struct {
	OS struct {
		Name corev1.OSName `json:"name"`
	} `json:"os"`
	SecurityContext *podSecurityContext `json:"securityContext"`
}

type podSecurityContext struct {
	SeccompProfile struct {
		Type string `json:"type"`
	} `json:"seccompProfile"`
}

// planSeccompProfile sets the profile RuntimeDefault in a Pod that has none.
func planSeccompProfile(found seccompPod) patch.Patch {
	changes := patch.Patch{}
	profile := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	switch {
	case found.Spec == nil:
		changes.Add("/spec", map[string]any{"securityContext": corev1.PodSecurityContext{SeccompProfile: profile}})
	case found.Spec.OS.Name == corev1.Windows:
	case found.Spec.SecurityContext == nil:
		changes.Add("/spec/securityContext", corev1.PodSecurityContext{SeccompProfile: profile})
	case found.Spec.SecurityContext.SeccompProfile.Type == "":
		changes.Add("/spec/securityContext/seccompProfile", profile)
	}
	return changes
}
