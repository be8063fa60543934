package webhook

import (
	"slices"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

// planNormalization changes a spec to its normal form. Fields that have it already, and fields that normalform does not know, stay.
func planNormalization(spec *normalform.Spec) patch.Patch {
	changes := patch.Patch{}
	if spec == nil {
		return changes
	}
	normal := normalform.Of(spec)
	if spec.Owner != nil && *spec.Owner != *normal.Owner {
		changes.Add("/spec/owner/apiGroup", normal.Owner.APIGroup)
	}
	for i, member := range spec.Members {
		if member != nil {
			planMember(&changes, patch.Pointer("spec", "members", i), member, normal.Members[i])
		}
	}
	planTolerations(&changes, spec.Tolerations, normal.Tolerations)
	return changes
}

func planMember(changes *patch.Patch, at string, is, want *corev1beta1.ProjectMember) {
	if is.APIGroup != want.APIGroup {
		changes.Add(at+"/apiGroup", want.APIGroup)
	}
	if is.Role != want.Role {
		changes.Add(at+"/role", want.Role)
	}
	switch {
	case slices.Equal(is.Roles, want.Roles):
	case len(want.Roles) == 0:
		changes.Remove(at + "/roles")
	default:
		changes.Add(at+"/roles", want.Roles)
	}
}

// planTolerations appends the tolerations that only the normal form has.
func planTolerations(changes *patch.Patch, is, want *corev1beta1.ProjectTolerations) {
	if want == nil {
		return
	}
	const at = "/spec/tolerations"
	if is == nil {
		changes.Add(at, want)
		return
	}
	patch.Append(changes, at+"/defaults", len(is.Defaults), want.Defaults[len(is.Defaults):]...)
	patch.Append(changes, at+"/whitelist", len(is.Whitelist), want.Whitelist[len(is.Whitelist):]...)
}
