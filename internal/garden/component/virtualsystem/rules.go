package virtualsystem

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

// full returns the verbs that read and write.
func full(further ...string) []string {
	return append([]string{"create", "delete", "deletecollection", "get", "list", "watch", "patch", "update"}, further...)
}

func bootstrapperRules() []rbacv1.PolicyRule {
	const requests = "certificatesigningrequests"
	return []rbacv1.PolicyRule{
		shared.Rule(shared.CertificatesGroup, requests, "create", "get"),
		shared.Rule(shared.CertificatesGroup, requests+"/seedclient;"+requests+"/shootclient", "create"),
	}
}

func administratorRules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		shared.Rule(shared.CoreGroup, "*", full(
			"manage-members", "modify-spec-tolerations-whitelist", "modify-spec-kubernetes", "modify-spec-machineimages",
			"modify-spec-providerconfig", "mark-self-hosted",
		)...),
		// The rule does not name all resources: one of them is for tokens of workload identities.
		shared.Rule(shared.SecurityGroup, "credentialsbindings;workloadidentities", full()...),
		shared.Rule(shared.CertificatesGroup, "certificatesigningrequests", full("approve", "deny")...),
	}, clusterRules(full())...)
}

func viewerRules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		shared.Rule(shared.CoreGroup, "backupbuckets;backupentries;cloudprofiles;namespacedcloudprofiles;controllerinstallations;quotas;"+
			"projects;seeds;shoots", shared.Read()...),
		shared.Rule(shared.SecurityGroup, "credentialsbindings", shared.Read()...),
	}, clusterRules(shared.Read())...)
}

// clusterRules returns the rules that the roles of administrators and viewers both have, with different verbs.
func clusterRules(verbs []string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule(shared.SeedManagementGroup+";dashboard.gardener.cloud;"+shared.OperationsGroup, "*", verbs...),
		shared.Rule("", "events;namespaces;resourcequotas;services;endpoints", verbs...),
		shared.Rule("events.k8s.io", "events", verbs...),
		shared.Rule("discovery.k8s.io", "endpointslices", verbs...),
		shared.Rule(rbacv1.GroupName, "clusterroles;clusterrolebindings;roles;rolebindings", verbs...),
		shared.Rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations;validatingwebhookconfigurations", verbs...),
		shared.Rule("apiregistration.k8s.io", "apiservices", verbs...),
		shared.Rule("apiextensions.k8s.io", "customresourcedefinitions", verbs...),
		shared.Rule(shared.LeasesGroup, "leases", verbs...),
	}
}

func globalRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule(shared.CoreGroup, "cloudprofiles;controllerregistrations;exposureclasses;seeds", shared.Read()...),
		shared.Rule("apiextensions.k8s.io", "customresourcedefinitions", shared.Read()...),
	}
}

func reviewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule("authentication.k8s.io", "tokenreviews", "create"),
		shared.Rule("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
	}
}

func projectMemberRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule("", "secrets;configmaps", full()...),
		shared.Rule("", "events;resourcequotas;serviceaccounts", shared.Read()...),
		shared.Rule("events.k8s.io", "events", shared.Read()...),
		shared.Rule(shared.CoreGroup, "shoots;secretbindings;quotas", full()...),
		shared.Rule(shared.CoreGroup, "namespacedcloudprofiles", shared.Read("create", "patch", "update", "delete")...),
		shared.Rule(shared.CoreGroup, "shoots/adminkubeconfig;shoots/viewerkubeconfig", "create"),
		shared.Rule(shared.CoreGroup, "shoots/finalizers", "update"),
		shared.Rule(shared.OperationsGroup, "bastions", full()...),
		shared.Rule(shared.SecurityGroup, "credentialsbindings;workloadidentities", full()...),
		shared.Rule(rbacv1.GroupName, "roles;rolebindings", full()...),
	}
}

func projectViewerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule("", "events;configmaps;resourcequotas;serviceaccounts", shared.Read()...),
		shared.Rule("events.k8s.io", "events", shared.Read()...),
		shared.Rule(shared.CoreGroup, "shoots;secretbindings;quotas;namespacedcloudprofiles", shared.Read()...),
		shared.Rule(shared.CoreGroup, "shoots/viewerkubeconfig", "create"),
		shared.Rule(shared.OperationsGroup, "bastions", shared.Read()...),
		shared.Rule(shared.SecurityGroup, "credentialsbindings", shared.Read()...),
		shared.Rule(rbacv1.GroupName, "roles;rolebindings", shared.Read()...),
	}
}
