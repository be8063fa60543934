// Package rights returns rules of roles.
package rights

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// API groups of Gardener, and of Kubernetes.
const (
	CoreGroup           = "core.gardener.cloud"
	OperationsGroup     = "operations.gardener.cloud"
	SeedManagementGroup = "seedmanagement.gardener.cloud"
	SecurityGroup       = "security.gardener.cloud"
	LeasesGroup         = "coordination.k8s.io"
	CertificatesGroup   = "certificates.k8s.io"
)

// Rule returns a rule of a role. As in RBAC markers, several API groups and resources are separated by semicolons.
func Rule(groups, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: strings.Split(groups, ";"), Resources: strings.Split(resources, ";"), Verbs: verbs}
}

// Read returns the verbs that read, followed by the given verbs.
func Read(further ...string) []string { return append([]string{"get", "list", "watch"}, further...) }

// Named returns the rule, limited to the objects with these names.
func Named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}
