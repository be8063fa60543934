#!/usr/bin/env bash
# Runs all tests of the commit several times, to find tests that fail now and then. It appends a line for each run to a table, over as many
# sittings as needed, and keeps the output of runs that fail beside it. It leaves the work tree alone: runs are in a clean clone.
#
#   steady.sh RUNS
#
#   BUSY         how many loops keep cores busy meanwhile (default: 0)
#   STEADY       where the table is (default: steady below the cache of Espalier)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=${1:?usage: steady.sh RUNS}
folder=${STEADY:-${ESPALIER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier}/steady}
commit=$(git rev-parse --short HEAD)
table=$folder/table.md
clone=$(mktemp -d)
busy=()
trap 'for each in "${busy[@]}"; do kill "$each"; done; rm -rf "$clone"' EXIT

mkdir -p "$folder"
[ -e "$table" ] || printf '| begin | commit | busy loops | load before | seconds | result |\n|---|---|---|---|---|---|\n' >"$table"
git clone --quiet . "$clone"
for ((i = 0; i < ${BUSY:-0}; i++)); do
  while :; do :; done &
  busy+=($!)
done

status=0
for ((run = 1; run <= runs; run++)); do
  begin=$(date -u +%FT%TZ) load=$(uptime | sed 's/.*averages*: //') start=$SECONDS result=ok
  log=$folder/$commit-$begin.log
  go clean -testcache
  make -C "$clone" --no-print-directory test >"$log" 2>&1 || { result="FAILED, see $(basename "$log")" status=1; }
  [ "$result" != ok ] || rm "$log"
  printf '| %s | %s | %s | %s | %d | %s |\n' "$begin" "$commit" "${BUSY:-0}" "$load" $((SECONDS - start)) "$result" | tee -a "$table"
done
exit "$status"
