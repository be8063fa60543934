#!/usr/bin/env bash
# Applies objects to the cluster of KUBECONFIG for `make up-garden`, which calls it with one of the functions below and its arguments.
#   KUBECTL  the kubectl to use
#   VIRTUAL  the kubeconfig of the virtual cluster, for the functions that need one
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

# operator <folder> <version> <skipped components>: deploys the operator with the files in the folder, and csr-approver, so that the API
# server trusts the kubelet and `kubectl logs` works. Waits until the operator serves its webhooks. Kustomize gives the ConfigMap with lists
# of images a new name when a file changes, which replaces the Pods.
operator() {
  fill overlay.yaml VERSION "$2" SKIPPED "$3" >"$1/kustomization.yaml"
  apply -k "$1"
  "$KUBECTL" -n espalier-system rollout status --timeout=3m deployment/espalier-garden-operator
}

# garden <version> <folder> <control plane>: creates or changes the Garden, with a version of the virtual cluster, a folder of backups, and
# the settings of the control plane, and has one that exists reconciled.
garden() {
  local existing
  existing=$("$KUBECTL" get garden orchards --ignore-not-found --output=name)
  fill garden.yaml KUBERNETES "\"$1\"" BACKUPS "$2" CONTROLPLANE "$3" | apply -f -
  [ -z "$existing" ] || "$KUBECTL" annotate --overwrite garden orchards gardener.cloud/operation=reconcile
}

# seed <image of provider-local> <folder> <version>…: creates what a Seed needs in the virtual cluster: an extension with its chart, which
# keeps backups in the folder, credentials, and a CloudProfile with versions of Kubernetes. The archive of the chart depends only on the
# content of the chart, so that the extension is not installed again without need.
seed() {
  local chart versions
  versions=$(printf '{version: "%s"},' "${@:3}")
  chart=$(tar -C seed --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - provider-local |
    gzip -n | base64 -w0)
  fill seed/virtual.yaml CHART "$chart" IMAGE "$1" BACKUPS "$2" VERSIONS "$versions" | apply --kubeconfig "$VIRTUAL" -f -
}

# gardenlet <folder> <tag>: deploys gardenlet with the lists of images in the folder. If it has no kubeconfig of the virtual cluster yet, it
# gets one with a token, with which it requests a client certificate.
gardenlet() {
  cp seed/gardenlet.yaml seed/config.yaml seed/kubeconfig "$1"
  fill seed/kustomization.yaml TAG "$2" >"$1/kustomization.yaml"
  "$KUBECTL" -n garden get secret gardenlet-kubeconfig >/dev/null 2>&1 || bootstrap
  apply -k "$1"
}

# bootstrap: creates a bootstrap token in the virtual cluster, which ends after an hour, and the kubeconfig with it for gardenlet.
bootstrap() {
  local id secret authority end
  id=$(random 3) secret=$(random 8)
  end=$(date --utc --date='+1 hour' +%Y-%m-%dT%H:%M:%SZ)
  authority=$("$KUBECTL" --kubeconfig "$VIRTUAL" config view --raw -o "jsonpath={.clusters[0].cluster.certificate-authority-data}")
  apply --kubeconfig "$VIRTUAL" -f - <<EOF
apiVersion: v1
kind: Secret
type: bootstrap.kubernetes.io/token
metadata: {name: bootstrap-token-$id, namespace: kube-system}
stringData:
  {token-id: "$id", token-secret: "$secret", expiration: "$end", usage-bootstrap-authentication: "true", usage-bootstrap-signing: "true"}
EOF
  apply -f - <<EOF
apiVersion: v1
kind: Secret
metadata: {name: gardenlet-kubeconfig-bootstrap, namespace: garden}
stringData:
  kubeconfig: |
    apiVersion: v1
    kind: Config
    current-context: garden
    contexts: [{name: garden, context: {cluster: garden, user: gardenlet}}]
    clusters:
    - name: garden
      cluster:
        server: https://virtual-garden-kube-apiserver.garden.svc.cluster.local
        certificate-authority-data: $authority
    users: [{name: gardenlet, user: {token: "$id.$secret"}}]
EOF
}

# random <number>: prints so many random bytes as hexadecimal digits.
random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

"$@"
