#!/usr/bin/env bash
# Builds what a real node needs besides the control plane, from Go modules, once per version, into a cache outside the work tree: kubelet,
# kube-proxy, containerd with its shim and ctr, runc, CNI plugins.
# Prints the folder of the binaries (alone on standard output; progress is written to standard error).
# On Debian and similar systems, as root, it installs missing packages; elsewhere it names them.
#
#   ESPALIER_CACHE       where built tools are kept      (default: the user's cache folder, plus /espalier)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./build.sh

# package: how to detect it
missing=()
command -v ip >/dev/null || missing+=(iproute2)
command -v iptables >/dev/null || missing+=(iptables)
command -v pkg-config >/dev/null || missing+=(pkg-config)
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
pkg-config --exists libseccomp 2>/dev/null || missing+=(libseccomp-dev)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "a real node needs these packages (their names are Debian's), install them: ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
    { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >&2 ||
    die "these packages could not be installed: ${missing[*]}"
fi

check_go controlplane
kubernetes=$(version_of controlplane k8s.io/kubernetes)
containerd=$(version_of node/containerd github.com/containerd/containerd/v2)
runc=$(version_of node/runc github.com/opencontainers/runc)
cni=$(version_of node/cni github.com/containernetworking/plugins)
bin=$(cache_folder "node/kubernetes-$kubernetes-containerd-$containerd-runc-$runc-cni-$cni")
lock "$bin"

build "$bin" node/containerd containerd github.com/containerd/containerd/v2/cmd/containerd "-X github.com/containerd/containerd/v2/version.Version=$containerd"
build "$bin" node/containerd containerd-shim-runc-v2 github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
build "$bin" node/containerd ctr github.com/containerd/containerd/v2/cmd/ctr
# Without the tag, sandboxes fail with "seccomp not supported". The tag needs C.
CGO_ENABLED=1 build "$bin" node/runc runc github.com/opencontainers/runc "-X main.version=${runc#v}" seccomp
build "$bin" node/cni ptp github.com/containernetworking/plugins/plugins/main/ptp
build "$bin" node/cni loopback github.com/containernetworking/plugins/plugins/main/loopback
build "$bin" node/cni host-local github.com/containernetworking/plugins/plugins/ipam/host-local
build "$bin" controlplane kubelet k8s.io/kubernetes/cmd/kubelet "$(kubernetes_stamp "$kubernetes")"
build "$bin" controlplane kube-proxy k8s.io/kubernetes/cmd/kube-proxy "$(kubernetes_stamp "$kubernetes")"

printf '%s\n' "$bin"
