#!/usr/bin/env bash
# Writes everything that is generated: deepcopy functions and CRDs from api/, roles from the RBAC markers beside the code, and
# the rest of deploy/ from the declarations in Go.
# Called by `make generate`, and by hack/verify-generated.sh in a copy of the tree. Works from any folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

header=hack/generated-header.txt

controller_gen() { go tool -modfile=hack/tools/go.mod controller-gen "$@"; }

# roles <binary> <family>: roles of one binary, from the markers in the packages of its family.
# The roles are cluster roles of the source side, unless a marker names another role by roleName= (the target side).
roles() {
  echo "generating roles of $1"
  controller_gen "rbac:roleName=espalier-$1-source,headerFile=$header" "paths=./internal/$2/..." "output:rbac:dir=deploy/$1/rbac"
}

echo "generating deepcopy functions and CRDs"
controller_gen object paths=./api/...
controller_gen "crd:headerFile=$header" paths=./api/resources/... output:crd:dir=deploy/crds
controller_gen "crd:headerFile=$header" paths=./api/core/... paths=./api/security/... output:crd:dir=deploy/project-controller/crds
controller_gen "crd:headerFile=$header" paths=./api/operator/... output:crd:dir=deploy/garden-operator/crds
controller_gen "crd:headerFile=$header" paths=./api/extensions/... output:crd:dir=internal/garden/component/crds/extensions

families=$(go run ./hack/render families) # of package internal/deployable
while read -r binary family; do roles "$binary" "$family"; done <<<"$families"

echo "generating the role of users of kubectl espalier"
controller_gen "rbac:roleName=espalier-view,headerFile=$header" paths=./internal/kubectl/... output:rbac:dir=deploy/kubectl-espalier

echo "writing the markers for the rights to definitions"
go test -count=1 -vet=off -run TestTheMarkersNameTheDefinitions ./internal/garden/components -update
roles garden-operator garden # again, with these markers

echo "rendering deploy/"
go run ./hack/render

echo "writing dashboards"
go run ./hack/dashboards

echo "drawing the picture of dependencies"
go test -count=1 -vet=off -run TestThePictureShowsTheImports ./internal/architecture -update

echo "writing the tables of the documentation"
go run ./hack/document

echo "writing the tables and pictures of the tasks of a Garden"
go test -count=1 -vet=off -run TestTheDocumentationShowsTheRows ./internal/garden/components -update

echo "writing the table of rights"
go run ./test/rights
