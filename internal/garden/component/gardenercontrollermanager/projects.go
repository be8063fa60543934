package gardenercontrollermanager

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// policyName is the name of the policy and of its binding.
const policyName = "project-controller.espalier.dev"

// notOfProjects is a condition in CEL for requests that do not change a Project, its namespace or its roles, and do not create or delete
// the quota in its namespace. Updates of the quota are allowed: gardener-controller-manager raises the limits of the quota for Shoots.
var notOfProjects = strings.Join([]string{
	"request.resource.resource == 'namespaces' ? ![object, oldObject].exists(o, o != null && has(o.metadata.labels) &&",
	"'gardener.cloud/role' in o.metadata.labels && o.metadata.labels['gardener.cloud/role'] == 'project') :",
	"request.resource.resource == 'resourcequotas' ? variables.name != 'gardener' :",
	"request.resource.group == 'rbac.authorization.k8s.io' ? !variables.name.startsWith('gardener.cloud:system:project') &&",
	"!variables.name.startsWith('gardener.cloud:extension:project:') : false",
}, " ")

// projectPolicy returns the policy that keeps gardener-controller-manager from changing Projects. gardener-apiserver enforces the policy
// for Projects, with its admission plugin ValidatingAdmissionPolicy. Therefore this plugin must not be disabled.
func projectPolicy(owner object.Owner) []client.Object {
	meta := object.Owner{Labels: owner.Labels}.Meta(policyName)
	const version = "admissionregistration.k8s.io/v1"
	on := func(
		operations []admissionregistrationv1.OperationType, group, version string, resources ...string,
	) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources},
		}}
	}
	createAndDelete := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Delete}
	all := append(slices.Clone(createAndDelete), admissionregistrationv1.Update)
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta: object.Type(version, "ValidatingAdmissionPolicy"), ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
					on(all, rights.CoreGroup, "v1beta1", "projects", "projects/status"),
					on(all, "", "v1", "namespaces"),
					on(createAndDelete, "", "v1", "resourcequotas"),
					on(all, rbacv1.GroupName, "v1", "clusterroles", "clusterrolebindings", "rolebindings"),
				}},
				MatchConditions: []admissionregistrationv1.MatchCondition{{
					Name:       Name,
					Expression: "request.userInfo.username == 'system:serviceaccount:" + metav1.NamespaceSystem + ":" + Name + "'",
				}},
				Variables: []admissionregistrationv1.Variable{{
					Name: "name", Expression: "object == null ? oldObject.metadata.name : object.metadata.name",
				}},
				Validations: []admissionregistrationv1.Validation{{
					Expression: notOfProjects, Reason: ptr.To(metav1.StatusReasonForbidden),
					Message: "project-controller reconciles Projects in place of gardener-controller-manager",
				}},
			},
		},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: object.Type(version, "ValidatingAdmissionPolicyBinding"), ObjectMeta: *meta.DeepCopy(),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: policyName, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}

// checkPolicy returns an error if gardener-apiserver would not enforce the policy, so that two controllers would change Projects.
func checkPolicy(v values.Values) error {
	const plugin = "ValidatingAdmissionPolicy"
	for i, each := range v.GardenerAPIServer.AdmissionPlugins {
		if v.ProjectController && each.Name == plugin && ptr.Deref(each.Disabled, false) {
			return fmt.Errorf("spec.virtualCluster.gardener.gardenerAPIServer.admissionPlugins[%d] disables %s, which keeps "+
				"gardener-controller-manager from changing Projects; enable it, or remove espalier.garden.projectController from the "+
				"configuration of the operator", i, plugin)
		}
	}
	return nil
}

// VirtualObjects returns the objects in the virtual cluster. gardener-controller-manager has all rights, because it grants the rights of
// the roles of projects, to which extensions may add any rights. If projectController is true, project-controller reconciles Projects in
// place of gardener-controller-manager, and the result contains the policy of projectPolicy.
func VirtualObjects(projectController bool) []client.Object {
	owner := gardener.VirtualOwner(role)
	const clusterRole = "gardener.cloud:system:controller-manager"
	objects := []client.Object{
		owner.ClusterRole(clusterRole, rights.Rule("*", "*", "*")),
		owner.ClusterRoleBinding(clusterRole, clusterRole, Name),
	}
	if projectController {
		objects = append(objects, projectPolicy(owner)...)
	}
	return objects
}
