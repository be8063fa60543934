#!/usr/bin/env bash
# Checks what the binaries and the public packages link against the Go vulnerability database. Called by `make vulncheck`.
# Without access to the database the check is skipped: it prints a warning and does not fail, so that offline work is possible.
#   GOVULNDB    another database, for networks that mirror it   (default: https://vuln.go.dev)
#   CI_NOTE     file that takes the reason for a skipped check, for the summary of .ci/run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
output=$(go tool -modfile=hack/tools/go.mod govulncheck ${GOVULNDB:+-db "$GOVULNDB"} ./api/... ./cmd/... 2>&1) || status=$?
printf '%s\n' "$output"

# Status 3 means found vulnerabilities; a database that cannot be reached gives status 1, like every other error.
if [ "$status" -eq 1 ] && grep -q 'fetching vulnerabilities' <<<"$output"; then
  reason="SKIPPED: the vulnerability database could not be reached"
  printf '\n*** %s ***\n*** Nothing is known about vulnerabilities of this build; set GOVULNDB to a mirror, or run again with network.\n\n' "$reason" >&2
  [ -z "${CI_NOTE:-}" ] || printf '%s\n' "$reason" >"$CI_NOTE"
  exit 0
fi
exit "$status"
