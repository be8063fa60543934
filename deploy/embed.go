// Package deploy makes generated manifests of this folder available to programs that deploy Espalier's binaries themselves.
package deploy

import (
	"bytes"
	"embed"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// Files are the CRDs of Espalier's own kinds, as crds/<group>_<plural>.yaml, the roles of each binary, as <binary>/rbac/role.yaml, and the
// alerts, as observability/<name>.prometheusrule.yaml.
//
//go:embed crds/*.yaml */rbac/role.yaml observability/*.prometheusrule.yaml
var Files embed.FS

// Dashboards are the dashboards, in DashboardsFolder: each as <name>.json for Plutono, and as <name>.perses.yaml.
//
//go:embed observability/dashboards/*.json observability/dashboards/*.perses.yaml
var Dashboards embed.FS

// DashboardsFolder is the folder in Dashboards.
const DashboardsFolder = "observability/dashboards"

// Roles returns the roles of a binary, which are generated from markers in its code. A ClusterRole is a Role without a namespace, because
// both have the same fields here.
func Roles(binary string) ([]rbacv1.Role, error) {
	content, err := Files.ReadFile(binary + "/rbac/role.yaml")
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	var roles []rbacv1.Role
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		role := rbacv1.Role{}
		if err := yaml.Unmarshal(document, &role); err != nil {
			return nil, fmt.Errorf("decode role: %w", err)
		}
		if role.Name != "" { // the file begins with a comment
			roles = append(roles, role)
		}
	}
	return roles, nil
}
