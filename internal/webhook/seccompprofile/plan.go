package seccompprofile

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// pod is what the handler reads of a Pod.
type pod struct {
	Spec *podSpec `json:"spec"`
}

type podSpec struct {
	SecurityContext *securityContext `json:"securityContext"`
}

type securityContext struct {
	SeccompProfile struct {
		Type string `json:"type"`
	} `json:"seccompProfile"`
}

// plan gives the container runtime's own profile to a Pod that has none.
func plan(found pod) patch.Patch {
	changes := patch.Patch{}
	profile := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	switch {
	case found.Spec == nil:
		changes.Add("/spec", map[string]any{"securityContext": corev1.PodSecurityContext{SeccompProfile: profile}})
	case found.Spec.SecurityContext == nil:
		changes.Add("/spec/securityContext", corev1.PodSecurityContext{SeccompProfile: profile})
	case found.Spec.SecurityContext.SeccompProfile.Type == "":
		changes.Add("/spec/securityContext/seccompProfile", profile)
	}
	return changes
}
