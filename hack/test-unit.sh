#!/usr/bin/env bash
# Runs the tests of every package that needs no API server. A package needs one if its tests import test/local, or a package of its family
# whose name ends in test and that imports test/local. Called by `make test-unit`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=github.com/espalier-dev/espalier
servers=$module/test/local
packages=$(go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
  while read -r package imports; do
    [[ $package == "$servers" || " $imports " =~ \ ($servers|$module/internal/[^ ]*test)\  ]] || echo "$package"
  done)

# shellcheck disable=SC2086 # one word for each package
go test $packages
