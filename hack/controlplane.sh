#!/usr/bin/env bash
# Builds etcd, the Kubernetes control plane, kubectl and KWOK from Go modules, once per version, into a cache outside the work tree, and
# prints the folder of the binaries (alone on standard output; progress is written to standard error).
#
#   ESPALIER_CACHE       where built tools are kept      (default: the user's cache folder, plus /espalier)
#   KUBEBUILDER_ASSETS   use these binaries instead; kube-apiserver, etcd and kubectl must be among them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  for tool in kube-apiserver etcd kubectl; do
    [ -x "$KUBEBUILDER_ASSETS/$tool" ] || { echo "error: KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no $tool; unset it to build one from modules" >&2; exit 1; }
  done
  printf '%s\n' "$KUBEBUILDER_ASSETS"
  exit 0
fi

. ./build.sh
check_go controlplane
kubernetes=$(version_of controlplane k8s.io/kubernetes)
etcd=$(version_of etcd go.etcd.io/etcd/server/v3)
kwok=$(version_of kwok sigs.k8s.io/kwok)
bin=$(cache_folder "controlplane/kubernetes-$kubernetes-etcd-$etcd-kwok-$kwok")
lock "$bin"

component() { printf 'k8s.io/kubernetes/cmd/%s\n' "$@"; }
# shellcheck disable=SC2046 # one word for each package
build_all "$bin" controlplane "$(kubernetes_stamp "$kubernetes")" $(component kube-apiserver kubectl kube-controller-manager kube-scheduler)
build "$bin" etcd etcd go.etcd.io/etcd/server/v3
build "$bin" kwok kwok sigs.k8s.io/kwok/cmd/kwok "-X sigs.k8s.io/kwok/pkg/consts.Version=${kwok#v}"

printf '%s\n' "$bin"
