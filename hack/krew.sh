#!/usr/bin/env bash
# Builds kubectl-espalier for each platform, and writes archives and the manifest of the plugin for Krew into .local/krew.
# Called by `make krew`. Works from any folder. VERSION is the version of the commit, unless it is set. KREW_URL is the address of the folder
# from which users will download the archives.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/goflags.sh

version=${VERSION:-$(git describe --tags --always --dirty)}
url=${KREW_URL:-https://krew.invalid/set-KREW_URL}
out=.local/krew
rm -rf "$out"
mkdir -p "$out"

# Krew accepts only versions such as v1.2.3 and v0.0.0-abc.
[[ $version == v* ]] || version=v0.0.0-$version

cat >"$out/espalier.yaml" <<EOF
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: espalier
spec:
  version: $version
  homepage: https://github.com/espalier-dev/espalier
  shortDescription: Explain ManagedResources and Gardens
  description: |
    Lists ManagedResources with their problems and objects, explains why an object changes back and who changed it, prints plans, waits
    until objects are healthy, pauses and resumes sets, and shows what a Garden waits for.
  platforms:
EOF
for platform in ${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}; do
  os=${platform%/*} arch=${platform#*/} binary=kubectl-espalier
  [ "$os" != windows ] || binary+=.exe
  archive=kubectl-espalier-$os-$arch.tar.gz
  echo "building $out/$archive"
  GOOS=$os GOARCH=$arch go build -ldflags "-s -w -X github.com/espalier-dev/espalier/internal/process.Version=$version" \
    -o "$out/$binary" ./cmd/kubectl-espalier
  tar --owner=0 --group=0 --mtime=@0 -c LICENSE -C "$out" "$binary" | gzip -n >"$out/$archive"
  rm "$out/$binary"
  cat >>"$out/espalier.yaml" <<EOF
  - selector: {matchLabels: {os: $os, arch: $arch}}
    uri: $url/$archive
    sha256: $(sha256sum "$out/$archive" | cut -d' ' -f1)
    bin: $binary
EOF
done
