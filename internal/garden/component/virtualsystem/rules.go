package virtualsystem

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/rights"
)

// full returns the verbs that read and write.
func full(further ...string) []string {
	return append([]string{"create", "delete", "deletecollection", "get", "list", "watch", "patch", "update"}, further...)
}

func bootstrapperRules() []rbacv1.PolicyRule {
	const requests = "certificatesigningrequests"
	return []rbacv1.PolicyRule{
		rights.Rule(rights.CertificatesGroup, requests, "create", "get"),
		rights.Rule(rights.CertificatesGroup, requests+"/seedclient;"+requests+"/shootclient", "create"),
	}
}

func administratorRules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rights.Rule(rights.CoreGroup, "*", full(
			"manage-members", "modify-spec-tolerations-whitelist", "modify-spec-kubernetes", "modify-spec-machineimages",
			"modify-spec-providerconfig", "mark-self-hosted",
		)...),
		// The rule names resources instead of "*", because "*" would include the right to create tokens of workload identities.
		rights.Rule(rights.SecurityGroup, "credentialsbindings;workloadidentities", full()...),
		rights.Rule(rights.CertificatesGroup, "certificatesigningrequests", full("approve", "deny")...),
	}, clusterRules(full())...)
}

func viewerRules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rights.Rule(rights.CoreGroup, "backupbuckets;backupentries;cloudprofiles;namespacedcloudprofiles;controllerinstallations;quotas;"+
			"projects;seeds;shoots", rights.Read()...),
		rights.Rule(rights.SecurityGroup, "credentialsbindings", rights.Read()...),
	}, clusterRules(rights.Read())...)
}

// clusterRules returns the rules that the roles of administrators and viewers both have, with different verbs.
func clusterRules(verbs []string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule(rights.SeedManagementGroup+";dashboard.gardener.cloud;"+rights.OperationsGroup, "*", verbs...),
		rights.Rule("", "events;namespaces;resourcequotas;services;endpoints", verbs...),
		rights.Rule("events.k8s.io", "events", verbs...),
		rights.Rule("discovery.k8s.io", "endpointslices", verbs...),
		rights.Rule(rbacv1.GroupName, "clusterroles;clusterrolebindings;roles;rolebindings", verbs...),
		rights.Rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations;validatingwebhookconfigurations", verbs...),
		rights.Rule("apiregistration.k8s.io", "apiservices", verbs...),
		rights.Rule("apiextensions.k8s.io", "customresourcedefinitions", verbs...),
		rights.Rule(rights.LeasesGroup, "leases", verbs...),
	}
}

func globalRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule(rights.CoreGroup, "cloudprofiles;controllerregistrations;exposureclasses;seeds", rights.Read()...),
		rights.Rule("apiextensions.k8s.io", "customresourcedefinitions", rights.Read()...),
	}
}

func reviewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("authentication.k8s.io", "tokenreviews", "create"),
		rights.Rule("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
	}
}

func projectMemberRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("", "secrets;configmaps", full()...),
		rights.Rule("", "events;resourcequotas;serviceaccounts", rights.Read()...),
		rights.Rule("events.k8s.io", "events", rights.Read()...),
		rights.Rule(rights.CoreGroup, "shoots;secretbindings;quotas", full()...),
		rights.Rule(rights.CoreGroup, "namespacedcloudprofiles", rights.Read("create", "patch", "update", "delete")...),
		rights.Rule(rights.CoreGroup, "shoots/adminkubeconfig;shoots/viewerkubeconfig", "create"),
		rights.Rule(rights.CoreGroup, "shoots/finalizers", "update"),
		rights.Rule(rights.OperationsGroup, "bastions", full()...),
		rights.Rule(rights.SecurityGroup, "credentialsbindings;workloadidentities", full()...),
		rights.Rule(rbacv1.GroupName, "roles;rolebindings", full()...),
	}
}

func projectViewerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("", "events;configmaps;resourcequotas;serviceaccounts", rights.Read()...),
		rights.Rule("events.k8s.io", "events", rights.Read()...),
		rights.Rule(rights.CoreGroup, "shoots;secretbindings;quotas;namespacedcloudprofiles", rights.Read()...),
		rights.Rule(rights.CoreGroup, "shoots/viewerkubeconfig", "create"),
		rights.Rule(rights.OperationsGroup, "bastions", rights.Read()...),
		rights.Rule(rights.SecurityGroup, "credentialsbindings", rights.Read()...),
		rights.Rule(rbacv1.GroupName, "roles;rolebindings", rights.Read()...),
	}
}
