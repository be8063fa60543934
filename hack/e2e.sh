#!/usr/bin/env bash
# Runs the end-to-end suites; arguments are those of test/e2e/run. Exit code 77: nothing was tested, because this machine cannot run such a
# cluster. (`go run` would change the exit code to 1.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=goflags.sh
. hack/goflags.sh
mkdir -p .local/e2e
go build -o .local/e2e/run ./test/e2e/run
exec .local/e2e/run "$@"
