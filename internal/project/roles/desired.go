// Package roles defines the RBAC objects of a Project: which ones it must have, which are stale, and how they are cached.
//
// A garden of 5,000 Projects has 55,000 of these objects, so Trim keeps only the owner of each and a fingerprint of its grants. Same
// compares such an object from the cache with a desired object. An object from such a cache must never be written back: a caller that finds
// a difference reads the object live, and changes it with Overlay.
package roles

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// Desired returns all RBAC objects that a Project with these members and this namespace must have: first the standard ones, always
// in the same order, then the roles and bindings of extensions, sorted by name. For each extension with an invalid name, it returns
// an error instead of the role.
func Desired(p *corev1beta1.Project, members []corev1beta1.ProjectMember, namespace string) ([]client.Object, []error) {
	who := collect(p.Spec.Owner, members)
	get := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{namespace}, Verbs: []string{"get"},
	}
	project := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{corev1beta1.GroupName}, Resources: []string{"projects"}, ResourceNames: []string{p.Name}, Verbs: verbs,
		}
	}
	var objects []client.Object
	for _, each := range []struct {
		prefix, role string
		rules        []rbacv1.PolicyRule
	}{
		{adminPrefix, corev1beta1.ProjectMemberOwner, []rbacv1.PolicyRule{get, project("get", "patch", "manage-members", "update", "delete")}},
		{managerPrefix, corev1beta1.ProjectMemberUserAccessManager, []rbacv1.PolicyRule{project("get", "manage-members", "patch", "update")}},
		{memberPrefix, corev1beta1.ProjectMemberAdmin, []rbacv1.PolicyRule{get, project("get", "patch", "update", "delete")}},
		{viewerPrefix, corev1beta1.ProjectMemberViewer, []rbacv1.PolicyRule{get, project("get")}},
	} {
		meta := objectMeta(p, "", each.prefix+p.Name, nil)
		objects = append(objects,
			&rbacv1.ClusterRole{ObjectMeta: meta, Rules: each.rules},
			&rbacv1.ClusterRoleBinding{ObjectMeta: *meta.DeepCopy(), RoleRef: roleRef(meta.Name), Subjects: who[each.role]},
		)
	}
	objects = append(objects,
		roleBinding(p, namespace, memberName, nil, who[corev1beta1.ProjectMemberAdmin]),
		roleBinding(p, namespace, viewerName, nil, who[corev1beta1.ProjectMemberViewer]),
		roleBinding(p, namespace, serviceAccountName, nil, who[corev1beta1.ProjectMemberServiceAccountManager]),
	)
	extensions, refused := desiredExtensions(p, who, namespace)
	return append(objects, extensions...), refused
}

func desiredExtensions(
	p *corev1beta1.Project, who map[string][]rbacv1.Subject, namespace string,
) (objects []client.Object, refused []error) {
	for _, role := range slices.Sorted(maps.Keys(who)) {
		extension, ok := strings.CutPrefix(role, corev1beta1.ProjectMemberExtensionPrefix)
		if !ok {
			continue
		}
		if err := checkExtension(extension); err != nil {
			refused = append(refused, err)
			continue
		}
		name := extensionName(p.Name, extension)
		objects = append(objects,
			&rbacv1.ClusterRole{
				ObjectMeta: objectMeta(p, "", name, ExtensionLabels(p.Name)),
				AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{
					MatchLabels: map[string]string{corev1beta1.LabelAggregateToExtensionRole: extension},
				}}},
			},
			roleBinding(p, namespace, name, ExtensionLabels(p.Name), who[role]),
		)
	}
	return objects, refused
}

func roleBinding(p *corev1beta1.Project, namespace, name string, labels map[string]string, subjects []rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: objectMeta(p, namespace, name, labels), RoleRef: roleRef(name), Subjects: subjects}
}

func roleRef(clusterRole string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}
}

// objectMeta makes the Project the controller, without blockOwnerDeletion.
func objectMeta(p *corev1beta1.Project, namespace, name string, labels map[string]string) metav1.ObjectMeta {
	owner := *metav1.NewControllerRef(p, corev1beta1.SchemeGroupVersion.WithKind("Project"))
	owner.BlockOwnerDeletion = ptr.To(false)
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}}
}

// ExtensionLabels are the labels of the ClusterRoles and RoleBindings for the extension roles of a Project.
func ExtensionLabels(project string) map[string]string {
	return map[string]string{corev1beta1.LabelRole: corev1beta1.RoleExtensionProject, corev1beta1.LabelProjectName: project}
}

// extensionOf returns the name of a Project if the labels of an object say that it is an extension role of this Project, and "" otherwise.
func extensionOf(object client.Object) string {
	labels := object.GetLabels()
	if labels[corev1beta1.LabelRole] != corev1beta1.RoleExtensionProject {
		return ""
	}
	return labels[corev1beta1.LabelProjectName]
}

// ExtensionOf is an index function for ClusterRoles: it returns the name of the Project to which an extension role belongs.
func ExtensionOf(object client.Object) []string {
	if project := extensionOf(object); project != "" {
		return []string{project}
	}
	return nil
}
