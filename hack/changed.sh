#!/usr/bin/env bash
# Prints the packages with tests that depend on a change: on what differs from a commit (default: HEAD), files that git does not track
# included. Called by `make test-changed`.
#
# A file that is in no folder of a package, such as a manifest in deploy/, changes the packages whose code contains the name of its topmost
# folder in quotes, because they may read it. A change of go.mod changes all packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

files=$({ git diff --name-only "${1:-HEAD}"; git ls-files --others --exclude-standard; } | sort -u)
[ -n "$files" ] || { echo "nothing has changed since ${1:-HEAD}" >&2; exit 0; }
if grep -qxE 'go\.(mod|sum)' <<<"$files"; then
  echo ./...
  exit 0
fi

module=$(go list -m)
folders=$(go list -f '{{.Dir}}' ./... | sed "s|^$PWD/||")
# package_of <file>: the nearest folder above a file that is a package, such as that of testdata; nothing if there is none.
package_of() {
  local folder
  folder=$(dirname "$1")
  while [ "$folder" != . ]; do
    if grep -qxF "$folder" <<<"$folders"; then echo "$folder"; return; fi
    folder=$(dirname "$folder")
  done
}

changed=$(while read -r file; do
  folder=$(package_of "$file")
  if [ -n "$folder" ]; then
    echo "$folder"
  else
    git grep -lF "\"${file%%/*}/" -- '*.go' | xargs -r -n1 dirname
  fi
done <<<"$files" | sort -u)

# The program of a package's tests is listed as <package>.test.
go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | awk -v module="$module" '
  NR == FNR { changed[module "/" $1]; next }
  sub(/\.test$/, "", $1) { for (i = 2; i <= NF; i++) if ($i in changed) { print $1; next } }' <(printf '%s\n' "$changed") -
