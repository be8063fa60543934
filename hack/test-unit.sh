#!/usr/bin/env bash
# Runs the tests that need no API server. Packages are left out whose tests import test/local, or a package of helpers for tests
# (internal/…test), most of which start servers. With -short, tests that get their servers from test/binary are skipped. Called by
# `make test-unit`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=github.com/espalier-dev/espalier
servers=$module/test/local
packages=$(go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
  while read -r package imports; do
    [[ $package == "$servers" || " $imports " =~ \ ($servers|$module/internal/[^ ]*test)\  ]] || echo "$package"
  done)

# shellcheck disable=SC2086 # one word for each package
go test -short $packages
