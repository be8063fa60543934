#!/usr/bin/env bash
# Runs every fuzz target for a short time, starting from its committed corpus (testdata/fuzz). Called by `make fuzz`.
#   FUZZTIME    how long each target runs   (default: 20s)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-20s}
count=0
while IFS=: read -r file line; do
  target=${line#func }
  target=${target%%(*}
  count=$((count + 1))
  echo "fuzzing $target in $(dirname "$file") for $fuzztime"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "./$(dirname "$file")"
done < <(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*(' api internal | sort)

if [ "$count" -eq 0 ]; then
  echo "error: found no fuzz target in api/ or internal/" >&2
  exit 1
fi
echo "$count fuzz targets ran, nothing found"
