// Package deploy makes generated manifests of this folder available to programs that deploy Espalier's binaries themselves.
package deploy

import "embed"

// Files are the CRDs of Espalier's own kinds, as crds/<group>_<plural>.yaml, and the roles of each binary, as <binary>/rbac/role.yaml.
//
//go:embed crds/*.yaml */rbac/role.yaml
var Files embed.FS
