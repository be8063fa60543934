#!/usr/bin/env bash
# Builds etcd, the Kubernetes control plane, kubectl and KWOK from Go modules, once per version, into a cache outside the
# work tree, and prints the folder that holds them (alone on standard output; progress goes to standard error).
#
#   ESPALIER_CACHE       where built tools are kept      (default: the user's cache folder, plus /espalier)
#   KUBEBUILDER_ASSETS   use these binaries instead; kube-apiserver, etcd and kubectl must be among them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  for tool in kube-apiserver etcd kubectl; do
    [ -x "$KUBEBUILDER_ASSETS/$tool" ] || die "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no $tool; unset it to build one from modules"
  done
  printf '%s\n' "$KUBEBUILDER_ASSETS"
  exit 0
fi

export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0
command -v go >/dev/null || die "there is no go command; install Go (https://go.dev/doc/install)"
# Go fetches a newer version of itself where it may. This fails where it is both too old and may not.
(cd controlplane && go list -m >/dev/null) || die "Go $(awk '$1 == "go" {print $2}' controlplane/go.mod) or newer is needed, this is $(GOTOOLCHAIN=local go env GOVERSION)"

version_of() { (cd "$1" && go list -m -f '{{.Version}}' "$2"); }
kubernetes=$(version_of controlplane k8s.io/kubernetes)
etcd=$(version_of etcd go.etcd.io/etcd/server/v3)
kwok=$(version_of kwok sigs.k8s.io/kwok)
platform=$(go env GOOS)-$(go env GOARCH)
cache=${ESPALIER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier}
bin=$cache/controlplane/kubernetes-$kubernetes-etcd-$etcd-kwok-$kwok-$platform
mkdir -p "$bin"

# Two runs at once (make up beside make test) build once: the second waits for the first.
if command -v flock >/dev/null; then
  exec 9>"$bin/.lock"
  flock --nonblock 9 || { say "waiting for another run that builds the control plane"; flock 9; }
fi

compiler=
trap '[ -z "$compiler" ] || kill "$compiler" 2>/dev/null || true' EXIT

build() { # build <module folder> <binary> <package> [ldflags]
  local start=$SECONDS
  [ ! -x "$bin/$2" ] || return 0
  say "building $2 (once per version, kept in $bin)"
  (cd "$1" && exec go build -trimpath -ldflags "-s -w ${4:-}" -o "$bin/.$2.new" "$3") >&2 &
  compiler=$!
  while sleep 1 && kill -0 "$compiler" 2>/dev/null; do
    (((SECONDS - start) % 15)) || say "  still at it after $((SECONDS - start)) s"
  done
  wait "$compiler" || { compiler=; die "$2 could not be built, see above; a further run goes on where this one stopped"; }
  compiler=
  mv "$bin/.$2.new" "$bin/$2"
  say "  $2 took $((SECONDS - start)) s"
}

# Without the stamp, everything reports the version v0.0.0-master.
minor=${kubernetes#v1.}
minor=${minor%%.*}
stamp="-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"

build etcd etcd go.etcd.io/etcd/server/v3
build controlplane kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$stamp"
build controlplane kubectl k8s.io/kubernetes/cmd/kubectl "$stamp"
build controlplane kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager "$stamp"
build controlplane kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler "$stamp"
build kwok kwok sigs.k8s.io/kwok/cmd/kwok "-X sigs.k8s.io/kwok/pkg/consts.Version=${kwok#v}"

printf '%s\n' "$bin"
