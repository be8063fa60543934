#!/usr/bin/env bash
# Copies the definitions of other projects that the garden operator deploys from their Go modules, unchanged but
# for the descriptions of fields and versions that are not stored, which the ones of observability lose.
# Called by `make garden-crds`, when a version below changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../internal/garden/component/crds"

# files <folder> <module@version> <pattern>…: the files of the module that match the patterns, and its license.
files() {
  local folder=$1 module=$2 dir pattern
  shift 2
  dir=$(cd "$(mktemp -d)" && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  rm -rf "$folder"
  mkdir -p "$folder"
  for pattern in "$@"; do
    # shellcheck disable=SC2086 # the pattern is to be expanded
    install -m 0644 $dir/$pattern "$folder"
  done
  install -m 0644 "$dir/LICENSE" "$folder/LICENSE"
  echo "copied from $module:"
  ls "$folder"
}

files etcd github.com/gardener/etcd-druid/api@v0.38.1 \
  core/v1alpha1/crds/druid.gardener.cloud_etcds.yaml 'core/v1alpha1/crds/druid.gardener.cloud_etcdcopybackupstasks.yaml' \
  core/v1alpha1/crds/druid.gardener.cloud_etcdopstasks.yaml
files vpa k8s.io/autoscaler/vertical-pod-autoscaler@v1.8.1 deploy/vpa-v1-crd-gen.yaml
files istio istio.io/api@v1.29.6 kubernetes/customresourcedefinitions.gen.yaml
files fluent github.com/fluent/fluent-operator/v3@v3.7.0 'config/crd/bases/fluentbit.fluent.io_*.yaml'
files monitoring github.com/prometheus-operator/prometheus-operator@v0.93.1 example/prometheus-operator-crd/'*.yaml'
files opentelemetry github.com/open-telemetry/opentelemetry-operator@v0.142.0 'config/crd/bases/opentelemetry.io_*.yaml'
files perses github.com/perses/perses-operator@v0.5.0 'config/crd/bases/perses.dev_*.yaml'
# The one kind that the garden has, out of a file with all kinds. Without the others, the program starts no controllers for them.
files victoria github.com/VictoriaMetrics/operator@v0.73.1 config/crd/overlay/crd.descriptionless.yaml
awk -v RS='---\n' '/\n  name: vlsingles\.operator\.victoriametrics\.com\n/' victoria/crd.descriptionless.yaml \
  >victoria/operator.victoriametrics.com_vlsingles.yaml
rm victoria/crd.descriptionless.yaml
(cd ../../../.. && go run ./hack/brief internal/garden/component/crds/{monitoring,opentelemetry,perses,victoria}/*.yaml)
