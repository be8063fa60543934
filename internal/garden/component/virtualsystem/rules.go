package virtualsystem

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/shared"
)

// API groups.
const (
	coreGroup           = "core.gardener.cloud"
	operationsGroup     = "operations.gardener.cloud"
	seedManagementGroup = "seedmanagement.gardener.cloud"
	dashboardGroup      = "dashboard.gardener.cloud"
	securityGroup       = "security.gardener.cloud"

	eventsGroup       = "events.k8s.io"
	certificatesGroup = "certificates.k8s.io"
)

// full returns the verbs that read and write.
func full(further ...string) []string {
	return append([]string{"create", "delete", "deletecollection", "get", "list", "watch", "patch", "update"}, further...)
}

func bootstrapperRules() []rbacv1.PolicyRule {
	const requests = "certificatesigningrequests"
	return []rbacv1.PolicyRule{
		shared.Rule(shared.Groups(certificatesGroup), shared.Resources(requests), "create", "get"),
		shared.Rule(shared.Groups(certificatesGroup), shared.Resources(requests+"/seedclient", requests+"/shootclient"), "create"),
	}
}

func administratorRules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		shared.Rule(shared.Groups(coreGroup), shared.Resources("*"), full(
			"manage-members", "modify-spec-tolerations-whitelist", "modify-spec-kubernetes", "modify-spec-machineimages",
			"modify-spec-providerconfig", "mark-self-hosted",
		)...),
		// Not all resources: one of them is for tokens of workload identities.
		shared.Rule(shared.Groups(securityGroup), shared.Resources("credentialsbindings", "workloadidentities"), full()...),
		shared.Rule(shared.Groups(certificatesGroup), shared.Resources("certificatesigningrequests"), full("approve", "deny")...),
	}, clusterRules(full())...)
}

func viewerRules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		shared.Rule(shared.Groups(coreGroup), shared.Resources(
			"backupbuckets", "backupentries", "cloudprofiles", "namespacedcloudprofiles", "controllerinstallations", "quotas", "projects", "seeds",
			"shoots",
		), shared.Read()...),
		shared.Rule(shared.Groups(securityGroup), shared.Resources("credentialsbindings"), shared.Read()...),
	}, clusterRules(shared.Read())...)
}

// clusterRules returns what administrators and viewers have both, with different verbs.
func clusterRules(verbs []string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule(shared.Groups(seedManagementGroup, dashboardGroup, operationsGroup), shared.Resources("*"), verbs...),
		shared.Rule(shared.Groups(""), shared.Resources("events", "namespaces", "resourcequotas", "services", "endpoints"), verbs...),
		shared.Rule(shared.Groups(eventsGroup), shared.Resources("events"), verbs...),
		shared.Rule(shared.Groups("discovery.k8s.io"), shared.Resources("endpointslices"), verbs...),
		shared.Rule(shared.Groups(rbacv1.GroupName),
			shared.Resources("clusterroles", "clusterrolebindings", "roles", "rolebindings"), verbs...),
		shared.Rule(shared.Groups("admissionregistration.k8s.io"),
			shared.Resources("mutatingwebhookconfigurations", "validatingwebhookconfigurations"), verbs...),
		shared.Rule(shared.Groups("apiregistration.k8s.io"), shared.Resources("apiservices"), verbs...),
		shared.Rule(shared.Groups("apiextensions.k8s.io"), shared.Resources("customresourcedefinitions"), verbs...),
		shared.Rule(shared.Groups("coordination.k8s.io"), shared.Resources("leases"), verbs...),
	}
}

func globalRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule(shared.Groups(coreGroup),
			shared.Resources("cloudprofiles", "controllerregistrations", "exposureclasses", "seeds"), shared.Read()...),
		shared.Rule(shared.Groups("apiextensions.k8s.io"), shared.Resources("customresourcedefinitions"), shared.Read()...),
	}
}

func reviewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule(shared.Groups("authentication.k8s.io"), shared.Resources("tokenreviews"), "create"),
		shared.Rule(shared.Groups("authorization.k8s.io"), shared.Resources("selfsubjectaccessreviews"), "create"),
	}
}

func projectMemberRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule(shared.Groups(""), shared.Resources("secrets", "configmaps"), full()...),
		shared.Rule(shared.Groups(""), shared.Resources("events", "resourcequotas", "serviceaccounts"), shared.Read()...),
		shared.Rule(shared.Groups(eventsGroup), shared.Resources("events"), shared.Read()...),
		shared.Rule(shared.Groups(coreGroup), shared.Resources("shoots", "secretbindings", "quotas"), full()...),
		shared.Rule(shared.Groups(coreGroup), shared.Resources("namespacedcloudprofiles"), shared.Read("create", "patch", "update", "delete")...),
		shared.Rule(shared.Groups(coreGroup), shared.Resources("shoots/adminkubeconfig", "shoots/viewerkubeconfig"), "create"),
		shared.Rule(shared.Groups(coreGroup), shared.Resources("shoots/finalizers"), "update"),
		shared.Rule(shared.Groups(operationsGroup), shared.Resources("bastions"), full()...),
		shared.Rule(shared.Groups(securityGroup), shared.Resources("credentialsbindings", "workloadidentities"), full()...),
		shared.Rule(shared.Groups(rbacv1.GroupName), shared.Resources("roles", "rolebindings"), full()...),
	}
}

func projectViewerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		shared.Rule(shared.Groups(""), shared.Resources("events", "configmaps", "resourcequotas", "serviceaccounts"), shared.Read()...),
		shared.Rule(shared.Groups(eventsGroup), shared.Resources("events"), shared.Read()...),
		shared.Rule(shared.Groups(coreGroup),
			shared.Resources("shoots", "secretbindings", "quotas", "namespacedcloudprofiles"), shared.Read()...),
		shared.Rule(shared.Groups(coreGroup), shared.Resources("shoots/viewerkubeconfig"), "create"),
		shared.Rule(shared.Groups(operationsGroup), shared.Resources("bastions"), shared.Read()...),
		shared.Rule(shared.Groups(securityGroup), shared.Resources("credentialsbindings"), shared.Read()...),
		shared.Rule(shared.Groups(rbacv1.GroupName), shared.Resources("roles", "rolebindings"), shared.Read()...),
	}
}
