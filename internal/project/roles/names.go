package roles

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Prefixes of the names of ClusterRoles and their bindings; the name of the Project follows. The names of RoleBindings, and of the static
// ClusterRoles that they refer to, have no colon and no project at the end.
const (
	adminPrefix   = "gardener.cloud:system:project:"
	managerPrefix = "gardener.cloud:system:project-uam:"
	memberPrefix  = "gardener.cloud:system:project-member:"
	viewerPrefix  = "gardener.cloud:system:project-viewer:"

	memberName         = "gardener.cloud:system:project-member"
	viewerName         = "gardener.cloud:system:project-viewer"
	serviceAccountName = "gardener.cloud:system:project-serviceaccountmanager"
)

func extensionName(project, extension string) string {
	return "gardener.cloud:extension:project:" + project + ":" + extension
}

// checkExtension returns an error if the name of an extension's role is empty, or is not a valid label value. The selector of the role
// uses the name as a label value, and the name of the object contains the name.
func checkExtension(extension string) error {
	if extension == "" {
		return fmt.Errorf("role %q names no extension", corev1beta1.ProjectMemberExtensionPrefix)
	}
	if faults := validation.IsValidLabelValue(extension); len(faults) > 0 {
		role := corev1beta1.ProjectMemberExtensionPrefix + extension
		return fmt.Errorf("role %q is impossible, because the name of the extension must be a label value: %s", excerpt.Quoted(role),
			strings.Join(faults, "; "))
	}
	return nil
}

// IsMemberBinding reports whether a name is the name of a RoleBinding by which members of a Project get rights in its namespace.
func IsMemberBinding(name string) bool {
	return name == memberName || name == viewerName || name == serviceAccountName
}

// ProjectOf returns the Project that has a ClusterRole and a ClusterRoleBinding of that name; empty if there is none.
func ProjectOf(name string) string {
	for _, prefix := range []string{adminPrefix, managerPrefix, memberPrefix, viewerPrefix} {
		if project, ok := strings.CutPrefix(name, prefix); ok {
			return project
		}
	}
	return ""
}
