#!/usr/bin/env bash
# Runs every fuzz target for a while, starting from its committed corpus (testdata/fuzz); a finding does not keep the
# other targets from running. Called by `make fuzz`.
#   FUZZTIME    how long each target runs: a number of inputs ("20000x", the default) or a time ("20s")
#   FUZZPART    "2/3" leaves out all but every third target, from the second one (default: 1/1)
# A number is the better measure of the two: when time is up in the midst of an input, go test calls that a failure of
# the target ("context deadline exceeded").
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-20000x}
part=${FUZZPART:-1/1}
[[ $part =~ ^[1-9][0-9]*/[1-9][0-9]*$ && ${part%/*} -le ${part#*/} ]] || { echo "error: FUZZPART=$part: want, for example, 2/3" >&2; exit 2; }
found=0
count=0
failed=()
while IFS=: read -r file line; do
  target=${line#func }
  target=${target%%(*}
  package=./$(dirname "$file")
  found=$((found + 1))
  [ $(((found - ${part%/*}) % ${part#*/})) -eq 0 ] || continue
  count=$((count + 1))
  echo "fuzzing $target in $package for $fuzztime"
  # An input that reaches new code is made smaller for a moment only: by default that may take longer than the whole run.
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 20x "$package" || failed+=("$target in $package")
done < <(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*(' api internal | sort)

if [ "$count" -eq 0 ]; then
  echo "error: found no fuzz target in api/ or internal/" >&2
  exit 1
fi
if [ ${#failed[@]} -gt 0 ]; then
  echo "error: ${#failed[@]} of $count fuzz targets failed; the inputs that were written to testdata/fuzz go into a test:" >&2
  printf '  %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "$count of $found fuzz targets ran, nothing found"
