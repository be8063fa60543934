#!/usr/bin/env bash
# Runs the tests of packages, and lists the slowest packages. Called by `make test`, which starts the API servers that the tests share.
#
#   test.sh PACKAGE…
#
#   RACE        the packages that the race detector watches: none (default), all, or some: those whose code or tests start
#               goroutines, and every sixth of the others
#   RACEPART    which of the others: "2/6" (default: 1/6)
#   RACETESTS   with RACE=some, the tests of the longest packages that run, with the race detector: "2/6" is every sixth from the second
#               (default: all)
#   UNWATCHED   patterns of packages whose own code the race detector does not watch
#   PARALLEL    how many packages are tested at once
#   RUN, SKIP   patterns of the tests that run, and of those that are left out
#   FLAKES      a file: up to six failed tests (a subtest and its test count as two) run once more, and the file gets the names of those
#               that pass then, with all subtests, which may build on each other. A data race or a panic is a failure in any case
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The packages that took longest begin first, so that no core waits for one of them at the end.
longest=(internal/garden/lifecycle internal/garden internal/managedresource/applier test/crash/faults internal/garden/backup/throwaway
  test/connectivity internal/project/lifecycle internal/project/stale internal/garden/extension internal/admission/certificates
  internal/networkpolicy/controller test/together internal/extension test/crash/points internal/managedresource/health
  test/gardener-resource-manager internal/token/requestor internal/node/criticalcomponents internal/project/extensionaccess
  internal/csr/approver test/kubectl internal/webhook/lookup)

events=$(mktemp -d)
trap 'rm -rf "$events"' EXIT
# How often Gomega looks for a state that a test waits for, unless the test says so. Its default, 10 ms, makes a quarter of all requests.
export GOMEGA_DEFAULT_EVENTUALLY_POLLING_INTERVAL=40ms

runner=$(go tool -n -modfile=hack/tools/go.mod gotestsum)

# go_test <flag>… <package>…: runs the tests that $run and $skip leave. go test itself reports packages in the order in which they begin, so
# those that take long hide the others. -w leaves out debug information, which makes linking faster; stack traces stay complete. `make vet`
# vets.
go_test() {
  local flags=() again=() log passed
  while [[ ${1:-} == -* ]]; do flags+=("$1"); shift; done
  log=$(mktemp "$events/XXXXXX.json") passed=$(mktemp)
  [ -z "${FLAKES:-}" ] || again=(--rerun-fails=1 --rerun-fails-run-root-test --rerun-fails-max-failures=6 "--rerun-fails-report=$passed")
  "$runner" --format pkgname --format-icons text --jsonfile "$log" "${again[@]}" --packages "$*" -- \
    -ldflags=-w -vet=off -p "$parallel" -timeout 50m ${run:+-run "$run"} ${skip:+-skip "$skip"} "${flags[@]}" || return
  if grep -q '"Output":"WARNING: DATA RACE' "$log"; then echo "error: a data race, in a test that passed when it ran again" >&2; return 1; fi
  [ ! -s "$passed" ] || cat "$passed" >>"$FLAKES"
  rm "$passed"
}

# raced prints the flags of the race detector. -l: packages that it does not watch must not inline functions such as those of sync.Map,
# which it has to see.
raced() {
  printf '%s\n' -race
  for each in ${UNWATCHED:-}; do printf '%s\n' "-gcflags=$each=-race=false -l"; done
}

# concurrent reports whether the code of a folder, or its tests, start goroutines.
concurrent() { grep -qE '^\s*go (func|[a-z])|\.Go\(' "$1"/*.go; }

# part n/m: prints the nth of m lines, and every mth after it; rest n/m: the others.
part() { awk -v n="${1%/*}" -v m="${1#*/}" '(NR - n) % m == 0'; }
rest() { awk -v n="${1%/*}" -v m="${1#*/}" '(NR - n) % m != 0'; }

# packages prints the packages that have tests, those of longest first.
packages() {
  local all each
  all=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "$@")
  for each in "${longest[@]}"; do grep -xF "$module/$each" <<<"$all" || true; done
  grep -vxF -f <(printf "$module/%s\n" "${longest[@]}") <<<"$all" || true
}

# chosen n/m: a pattern of the nth test of the packages in divided, in the order of the names, and every mth after it.
chosen() {
  local each files=()
  for each in "${divided[@]}"; do files+=("$(folder "$each")"/*_test.go); done
  printf '^(%s)$' "$(sed -nE 's/^func (Test\w+)\(t .*/\1/p' "${files[@]}" | sort -u | part "$1" | paste -sd '|')"
}

module=$(go list -m)
list=$(packages "$@")
folder() { printf '.%s' "${1#"$module"}"; }
watched=() unwatched=() others=() divided=()
for each in $list; do
  case ${RACE:-none} in
  none) unwatched+=("$each") ;;
  all) watched+=("$each") ;;
  some)
    if ! concurrent "$(folder "$each")"; then
      others+=("$each")
    elif [ -n "${RACETESTS:-}" ] && [ -z "${RUN:-}" ] && [[ " ${longest[*]} " == *" ${each#"$module/"} "* ]]; then
      divided+=("$each")
    else
      watched+=("$each")
    fi
    ;;
  *) echo "error: RACE=$RACE: want none, some or all" >&2; exit 2 ;;
  esac
done
if [ ${#others[@]} -gt 0 ]; then
  mapfile -t -O ${#watched[@]} watched < <(printf '%s\n' "${others[@]}" | part "${RACEPART:-1/6}")
  mapfile -t unwatched < <(printf '%s\n' "${others[@]}" | rest "${RACEPART:-1/6}")
fi

run=${RUN:-} skip=${SKIP:-}
mapfile -t flags < <(raced)

# Some tests of the longest packages.
divide() {
  echo "testing part $RACETESTS of the tests of ${#divided[@]} packages with the race detector"
  run=$(chosen "$RACETESTS") CGO_ENABLED=1 go_test "${flags[@]}" "${divided[@]}"
}

# The longest packages are tested beside the others.
status=0 parallel=${PARALLEL:-4}
if [ ${#divided[@]} -gt 0 ]; then
  parallel=$(((parallel + 1) / 2))
  divide &
fi
if [ ${#watched[@]} -gt 0 ]; then
  echo "testing ${#watched[@]} packages with the race detector"
  CGO_ENABLED=1 go_test "${flags[@]}" "${watched[@]}" || status=1
fi
if [ ${#unwatched[@]} -gt 0 ]; then
  echo "testing ${#unwatched[@]} packages without the race detector"
  go_test "${unwatched[@]}" || status=1
fi
[ ${#divided[@]} -eq 0 ] || wait $! || status=1
cat "$events"/*.json | awk -f hack/slowest.awk
exit "$status"
