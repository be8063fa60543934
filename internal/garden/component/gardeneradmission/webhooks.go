package gardeneradmission

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	create = admissionregistrationv1.Create
	update = admissionregistrationv1.Update
	remove = admissionregistrationv1.Delete
)

type (
	operations = []admissionregistrationv1.OperationType
	rule       = admissionregistrationv1.RuleWithOperations
)

// on returns a rule for resources of an API version.
func on(of operations, group, version string, resources ...string) rule {
	return rule{Operations: of, Rule: admissionregistrationv1.Rule{
		APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources,
	}}
}

func selected(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

// inProjects selects namespaces of projects.
func inProjects() *metav1.LabelSelector { return selected(map[string]string{object.Role: "project"}) }

// inOtherProjects selects namespaces of projects except the namespace of the project garden.
func inOtherProjects() *metav1.LabelSelector {
	selector := inProjects()
	selector.MatchExpressions = []metav1.LabelSelectorRequirement{
		{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"gardener"}},
	}
	return selector
}

// validators returns the webhooks that accept or refuse requests.
func validators(v values.Values) []webhook {
	written := operations{create, update}
	// These webhooks check the ConfigMaps to which Shoots refer, so they are called for changes of both.
	shoots := []rule{
		on(written, rights.CoreGroup, "v1beta1", "shoots"), on(operations{update}, "", "v1", "configmaps"),
	}
	all := []webhook{
		{
			name: "validate-namespace-deletion", path: "/webhooks/validate-namespace-deletion", namespaces: inProjects(),
			rules: []rule{on(operations{remove}, "", "v1", "namespaces")},
		},
		{
			name: "validate-kubeconfig-secrets", path: "/webhooks/validate-kubeconfig-secrets", namespaces: inOtherProjects(),
			rules: []rule{on(written, "", "v1", "secrets")},
		},
		{
			name: "internal-domain-secret", path: "/webhooks/admission/validate-internal-domain",
			objects: selected(map[string]string{object.Role: "internal-domain"}),
			rules:   []rule{on(operations{create, update, remove}, "", "v1", "secrets")},
		},
		{name: "audit-policies", path: "/webhooks/audit-policies", namespaces: inProjects(), rules: shoots},
		{name: "authentication-configuration", path: "/webhooks/authentication-configuration", namespaces: inProjects(), rules: shoots},
		{name: "authorization-configuration", path: "/webhooks/authorization-configuration", namespaces: inProjects(), rules: shoots},
		{
			name: "shoot-kubeconfig-secret-ref", path: "/webhooks/validate-shoot-kubeconfig-secret-ref", namespaces: inProjects(),
			rules: []rule{on(operations{update}, "", "v1", "secrets")},
		},
		{
			name: "update-restriction", path: "/webhooks/update-restriction",
			objects: selected(map[string]string{"gardener.cloud/update-restriction": "true"}),
			rules:   []rule{on(operations{create, update, remove}, "", "v1", "secrets", "configmaps")},
		},
	}
	if limited := limits(v); len(limited) > 0 {
		all = append(all, webhook{
			name: "validate-resource-size", path: "/webhooks/validate-resource-size", namespaces: inOtherProjects(), rules: limited,
		})
	}
	return append(all, restrictions()...)
}

// limits returns the rules for resources whose size or number is limited.
func limits(v values.Values) []rule {
	settings := v.GardenerAdmissionController.ResourceAdmissionConfiguration
	if settings == nil {
		return nil
	}
	rules := make([]rule, 0, len(settings.Limits))
	for _, each := range settings.Limits {
		rules = append(rules, rule{Operations: operations{create, update}, Rule: admissionregistrationv1.Rule{
			APIGroups: slices.Clone(each.APIGroups), APIVersions: slices.Clone(each.APIVersions), Resources: slices.Clone(each.Resources),
		}})
	}
	return rules
}

// restrictions returns the webhooks that restrict the objects that clients of seeds and of self-hosted shoots may create, change and
// delete. The authorizers cannot check the content of these objects, because API servers do not send objects to authorizers.
func restrictions() []webhook {
	rules := map[string][]rule{
		"seed": {
			on(operations{create}, "", "v1", "configmaps", "secrets", "serviceaccounts"),
			on(operations{create}, rbacv1.GroupName, "v1", "clusterrolebindings"),
			on(operations{create}, rights.LeasesGroup, "v1", "leases"),
			on(operations{create}, rights.CertificatesGroup, "v1", "certificatesigningrequests"),
			on(operations{create}, rights.CoreGroup, "v1beta1", "backupentries", "internalsecrets", "shootstates"),
			on(operations{create, remove}, rights.CoreGroup, "v1beta1", "backupbuckets"),
			on(operations{create, update, remove}, rights.CoreGroup, "v1beta1", "seeds"),
			on(operations{create}, rights.OperationsGroup, "v1alpha1", "bastions"),
		},
		"shoot": {
			on(operations{create}, "", "v1", "configmaps", "secrets"),
			on(operations{create}, rights.CoreGroup, "v1beta1", "backupbuckets", "backupentries", "internalsecrets", "projects", "shoots"),
		},
	}
	authorizers := Authorizers()
	all := make([]webhook, 0, len(authorizers))
	for i, each := range authorizers {
		all = append(all, webhook{
			name: each.Name + "-restriction", path: "/webhooks/admission/" + each.Name + "restriction", rules: rules[each.Name],
			users: &authorizers[i],
		})
	}
	return all
}

// mutators returns the webhooks that change objects.
func mutators() []webhook {
	return []webhook{{
		name: "sync-provider-secret-labels", path: "/webhooks/sync-provider-secret-labels", namespaces: inProjects(),
		rules: []rule{
			on(operations{create, update}, "", "v1", "secrets"), on(operations{create, update}, rights.CoreGroup, "v1beta1", "internalsecrets"),
		},
	}}
}
