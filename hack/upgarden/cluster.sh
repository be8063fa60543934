#!/usr/bin/env bash
# Applies objects to the cluster of KUBECONFIG for `make up-garden`, which calls it with one of the functions below and its arguments.
#   KUBECTL  the kubectl to use
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

apply() { "$KUBECTL" apply --server-side --force-conflicts "$@"; }

# fill <file> <variable> <value>…: prints a file with values for its variables. The values may contain any characters.
fill() {
  local text
  text=$(<"$1")
  shift
  while [ $# -gt 0 ]; do
    text=${text//"\$$1"/"$2"}
    shift 2
  done
  printf '%s\n' "$text"
}

# add-ons <image of coredns>: what a runtime cluster has before a garden: names, a class of volumes, and rights of the gateway's proxy.
add-ons() { fill addons.yaml COREDNS "$1" | apply -f -; }

# operator <folder> <version>: deploys the operator with the lists of images in the folder, and csr-approver, so that the API server trusts
# the kubelet and `kubectl logs` works. Waits until the operator serves its webhooks. Kustomize gives the ConfigMap a new name when a file
# changes, which replaces the Pods.
operator() {
  fill overlay.yaml VERSION "$2" >"$1/kustomization.yaml"
  apply -k "$1"
  "$KUBECTL" -n espalier-system rollout status --timeout=3m deployment/espalier-garden-operator
}

# garden <version> <folder>: creates or changes the Garden, with a version of the virtual cluster and a folder of backups, and has one that
# exists reconciled.
garden() {
  local existing
  existing=$("$KUBECTL" get garden orchards --ignore-not-found --output=name)
  fill garden.yaml KUBERNETES "\"$1\"" BACKUPS "$2" | apply -f -
  [ -z "$existing" ] || "$KUBECTL" annotate --overwrite garden orchards gardener.cloud/operation=reconcile
}

"$@"
