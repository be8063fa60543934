#!/usr/bin/env bash
# Runs the tests of every package that does not ask for an API server, which its tests do by importing test/local
# or a package of its family that is built on it and whose name ends in test.
# Called by `make test-unit`.
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
