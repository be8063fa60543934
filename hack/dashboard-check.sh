#!/usr/bin/env bash
# Checks that every query of the dashboard about ManagedResources returns data from a running `make up`, and that every alert can be
# evaluated. If nothing runs, it runs `make up`, and `make down` at the end. Called by `make dashboard-check`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

binary=managedresource-controller

kubectl() {
  local program=bin/kubectl kubeconfig=.local/kubeconfig
  # make up uses an existing cluster instead of its own.
  [ ! -s .local/cluster ] || { program=$(type -P kubectl); kubeconfig=$(<.local/cluster); }
  "$program" --kubeconfig="$kubeconfig" "$@"
}

# activity makes the controller apply, judge, repair and delete, because a rate needs a change between two scrapes.
activity() {
  echo "applying hack/prometheus/activity.yaml, changing an object of it, and deleting it"
  active=yes
  kubectl apply -f hack/prometheus/activity.yaml
  for condition in ResourcesApplied ResourcesHealthy ResourcesProgressing=False; do
    kubectl -n dashboard-check wait managedresource/activity --for="condition=$condition" --timeout=60s
  done
  # Without its Pod, the Deployment is not healthy for a moment, even if it was healthy before the controller judged it for the first time.
  kubectl -n dashboard-check delete pod --selector=app=activity --timeout=60s
  kubectl -n dashboard-check wait managedresource/activity --for=condition=ResourcesHealthy --timeout=60s
  kubectl -n dashboard-check patch configmap activity --type=merge --patch='{"data":{"changed-by":"another-client"}}'
  kubectl -n dashboard-check wait configmap/activity --for='jsonpath={.data.changed-by}=no-client' --timeout=30s
  kubectl -n dashboard-check delete managedresource activity --timeout=60s
  remove_activity
}

remove_activity() {
  kubectl delete namespace dashboard-check --ignore-not-found --timeout=60s
  active=
}

running() {
  local id
  id=$(sed -n 's/.*"pid": *\([0-9][0-9]*\).*/\1/p' ".local/pids/$binary.json" 2>/dev/null) && [ -n "$id" ] && kill -0 "$id" 2>/dev/null
}

scratch=$(mktemp -d)
active=
started=
finish() {
  rm -rf "$scratch"
  [ -z "$active" ] || remove_activity || true
  [ -z "$started" ] || make --no-print-directory down
}
trap finish EXIT

echo "building the check (the first time it takes a minute or two)"
go build -C hack/prometheus -tags remove_all_sd -o "$scratch/check" .

if ! running; then
  echo "nothing runs: make up, for as long as the check takes"
  # Processes of an earlier run are not stopped.
  [ -e .local/pids ] || started=yes
  make --no-print-directory up
fi

port=$(sed -n 's/^ *metrics: .*port: \([0-9]*\)}.*/\1/p' ".local/$binary/config.yaml")
echo "reading http://127.0.0.1:$port/metrics after each of these steps"
reads=()
read_metrics() {
  reads+=("$scratch/${#reads[@]}")
  kubectl --kubeconfig=/dev/null --server="http://127.0.0.1:$port" get --raw=/metrics >"${reads[-1]}"
  sleep 1 # the reads are samples of different seconds
}

# A query needs an event of its kind between two reads. On a busy machine an event may be missing, so what the controller does is repeated.
read_metrics
for round in 1 2 3; do
  [ "$round" = 1 ] || echo "round $round, for the queries without data"
  activity
  read_metrics
  read_metrics
  if "$scratch/check" -dashboard deploy/observability/dashboards/espalier-managedresources.json -rules "deploy/observability/$binary.rules.yaml" "${reads[@]}"; then
    exit 0
  fi
done
exit 1
