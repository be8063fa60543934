#!/usr/bin/env bash
# Generates in a copy of the tree and compares: the tree itself is never changed, even if it has uncommitted changes.
# Called by `make verify-generated`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R go.mod go.sum api cmd docs internal deploy hack test "$copy/"

# Start without generated files, so that a file that is no longer generated is detected.
generated() { find "$1" \( -name 'zz_generated.*.go' -o -path '*/deploy/crds/*.yaml' -o -path '*/deploy/*/rbac/*.yaml' \) ! -name kustomization.yaml "${@:2}"; }
generated "$copy" -delete

"$copy/hack/generate.sh"

stale=0
for folder in api internal deploy docs; do
  git --no-pager diff --no-index "$folder" "$copy/$folder" || stale=1
done
if [ "$stale" -ne 0 ]; then
  echo "error: generated files are not current (see the differences above); run: make generate" >&2
  exit 1
fi
echo "generated files are current"
