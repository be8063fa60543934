#!/usr/bin/env bash
# Runs the end-to-end suites; arguments are those of test/e2e/run. Exit code 77: nothing was tested, because this machine
# cannot have such a cluster. (`go run` would make a 1 of it.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p .local/e2e
go build -o .local/e2e/run ./test/e2e/run
exec .local/e2e/run "$@"
