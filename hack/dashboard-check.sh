#!/usr/bin/env bash
# Checks that every query of the dashboard in deploy/observability returns data from a running `make up`, and that every alert can be
# evaluated. If nothing runs, it runs `make up`, and `make down` at the end. Called by `make dashboard-check`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

binary=managedresource-controller
state=.local/$binary

kubectl() {
  local program=bin/kubectl kubeconfig=.local/kubeconfig
  # make up uses an existing cluster instead of its own.
  [ ! -s .local/cluster ] || { program=$(type -P kubectl); kubeconfig=$(<.local/cluster); }
  "$program" --kubeconfig="$kubeconfig" "$@"
}

# activity makes the controller apply, judge, repair and delete.
activity() {
  echo "applying hack/prometheus/activity.yaml, changing an object of it, and deleting it"
  kubectl apply -f hack/prometheus/activity.yaml
  for condition in ResourcesApplied ResourcesHealthy ResourcesProgressing=False; do
    kubectl -n dashboard-check wait managedresource/activity --for="condition=$condition" --timeout=60s
  done
  kubectl -n dashboard-check patch configmap activity --type=merge --patch='{"data":{"changed-by":"another-client"}}'
  kubectl -n dashboard-check wait configmap/activity --for='jsonpath={.data.changed-by}=no-client' --timeout=30s
  kubectl -n dashboard-check delete managedresource activity --timeout=60s
}

if [ "${1:-}" = --activity ]; then
  trap 'kubectl delete namespace dashboard-check --ignore-not-found --timeout=60s' EXIT
  activity
  exit
fi

running() {
  local id
  id=$(sed -n 's/.*"pid": *\([0-9][0-9]*\).*/\1/p' ".local/pids/$binary.json" 2>/dev/null) && [ -n "$id" ] && kill -0 "$id" 2>/dev/null
}

echo "building the check (the first time it takes a minute or two)"
check=$(mktemp -d)/check
trap 'rm -rf "$(dirname "$check")"' EXIT
go build -C hack/prometheus -tags remove_all_sd -o "$check" .

if ! running; then
  echo "nothing runs: make up, for as long as the check takes"
  # Processes of an earlier run are not stopped.
  [ -e .local/pids ] || trap 'rm -rf "$(dirname "$check")"; make --no-print-directory down' EXIT
  make --no-print-directory up
fi
port=$(sed -n 's/^ *metrics: .*port: \([0-9]*\)}.*/\1/p' "$state/config.yaml")

"$check" -metrics "http://127.0.0.1:$port/metrics" \
  -dashboard "deploy/observability/$binary.dashboard.json" -rules "deploy/observability/$binary.rules.yaml" -- "$0" --activity
