#!/usr/bin/env bash
# Runs every fuzz target for some time, starting from its committed corpus (testdata/fuzz); a finding does not stop the other targets.
# Called by `make fuzz`.
#   FUZZTIME    how long each target runs: a number of inputs ("20000x", the default) or a time ("20s")
#   FUZZPART    "2/3" leaves out all but every third target, from the second one (default: 1/1)
#   FUZZBLIND   1: chooses inputs without a look at the code that earlier ones reached, with the test binary of make test. go test -fuzz
#               compiles all dependencies once more, which takes longer than a few thousand inputs
# Prefer a number: when the time is over while an input runs, go test reports that as a failure of the target ("context deadline exceeded").
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-20000x}
part=${FUZZPART:-1/1}
[[ $part =~ ^[1-9][0-9]*/[1-9][0-9]*$ && ${part%/*} -le ${part#*/} ]] || { echo "error: FUZZPART=$part: want, for example, 2/3" >&2; exit 2; }
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT

# fuzz <target> <package>. Minimizing an input that reaches new code is limited: by default it may take longer than the whole run.
fuzz() {
  local flags=(run='^$' fuzz="^$1\$" fuzztime="$fuzztime" fuzzminimizetime=20x)
  if [ "${FUZZBLIND:-}" = 1 ]; then
    go test -c -vet=off -ldflags=-w -o "$binaries/test" "$2" &&
      (cd "$2" && "$binaries/test" -test.fuzzcachedir="$binaries/inputs" "${flags[@]/#/-test.}")
  else
    go test "${flags[@]/#/-}" "$2"
  fi
}

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
  fuzz "$target" "$package" || failed+=("$target in $package")
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
