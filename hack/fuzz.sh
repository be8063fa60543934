#!/usr/bin/env bash
# Runs every fuzz target for a short time, starting from its committed corpus (testdata/fuzz). Called by `make fuzz`.
#   FUZZTIME    how long each target runs   (default: 20s)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-20s}
count=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
while IFS=: read -r file line; do
  target=${line#func }
  target=${target%%(*}
  count=$((count + 1))
  echo "fuzzing $target in $(dirname "$file") for $fuzztime"
  # An input that reaches new code is made smaller for a moment only: by default that may take longer than the whole run.
  if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 20x "./$(dirname "$file")" 2>&1 | tee "$output"; then
    # Time that is up in the midst of an input is reported by go test as a failure, with these words and no such input.
    if grep -q 'Failing input written' "$output" || ! grep -qx ' *context deadline exceeded' "$output"; then
      exit 1
    fi
    echo "note: time was up in the midst of an input; that is no finding"
  fi
done < <(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*(' api internal | sort)

if [ "$count" -eq 0 ]; then
  echo "error: found no fuzz target in api/ or internal/" >&2
  exit 1
fi
echo "$count fuzz targets ran, nothing found"
