#!/usr/bin/env bash
# Builds the programs that a local garden runs: those of others from Go modules, once per version, into a cache outside the work tree, and
# those of test/local/garden each time, into .local/node/garden/bin. Prints a line for each one: its name, its version, and its file
# (progress is written to standard error, with the time that is left).
#
#   garden.sh [group…]   also builds those of these groups, which are not always needed: kubernetes-1.36, kubernetes-1.35, seed,
#                        observability
#
#   ESPALIER_CACHE       where built tools are kept      (default: the user's cache folder, plus /espalier)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./build.sh

# name, folder of the module file, module, package, seconds that a build without a cache takes on two cores
vpa=k8s.io/autoscaler/vertical-pod-autoscaler
gardener=github.com/gardener/gardener
programs="
etcd                     etcd     go.etcd.io/etcd/server/v3                go.etcd.io/etcd/server/v3                60
etcdbrctl                backup   github.com/gardener/etcd-backup-restore  github.com/gardener/etcd-backup-restore  300
etcd-druid               druid    github.com/gardener/etcd-druid           github.com/gardener/etcd-druid/cmd       120
vpa-admission-controller vpa      $vpa                                     $vpa/pkg/admission-controller            90
vpa-recommender          vpa      $vpa                                     $vpa/pkg/recommender                     20
vpa-updater              vpa      $vpa                                     $vpa/pkg/updater                         20
pilot-discovery          istio    istio.io/istio                           istio.io/istio/pilot/cmd/pilot-discovery 300
coredns                  coredns  github.com/coredns/coredns               github.com/coredns/coredns               240
gardener-apiserver            gardener $gardener $gardener/cmd/gardener-apiserver                 350
gardener-admission-controller gardener $gardener $gardener/cmd/gardener-admission-controller      25
gardener-controller-manager   gardener $gardener $gardener/cmd/gardener-controller-manager        25
gardener-scheduler            gardener $gardener $gardener/cmd/gardener-scheduler                 10
"
# The same for programs that are built only on request, with their group first.
k8s=k8s.io/kubernetes
prometheus=github.com/prometheus
monitoring=github.com/prometheus-operator/prometheus-operator
metrics=k8s.io/kube-state-metrics/v2
victoria=github.com/VictoriaMetrics
fluent=github.com/fluent/fluent-operator/v3
telemetry=github.com/open-telemetry/opentelemetry-operator
perses=github.com/perses/perses-operator
on_request="
kubernetes-1.36 kube-apiserver-1.36           kubernetes-1.36 $k8s $k8s/cmd/kube-apiserver           350
kubernetes-1.36 kube-controller-manager-1.36  kubernetes-1.36 $k8s $k8s/cmd/kube-controller-manager  60
kubernetes-1.35 kube-apiserver-1.35           kubernetes-1.35 $k8s $k8s/cmd/kube-apiserver           200
kubernetes-1.35 kube-controller-manager-1.35  kubernetes-1.35 $k8s $k8s/cmd/kube-controller-manager  60
seed gardenlet                         gardener $gardener $gardener/cmd/gardenlet                         400
seed gardener-resource-manager         gardener $gardener $gardener/cmd/gardener-resource-manager         60
seed gardener-extension-provider-local gardener $gardener $gardener/cmd/gardener-extension-provider-local 60
observability prometheus-operator        observability $monitoring $monitoring/cmd/operator                   250
observability prometheus-config-reloader observability $monitoring $monitoring/cmd/prometheus-config-reloader 20
observability prometheus                 observability $prometheus/prometheus $prometheus/prometheus/cmd/prometheus 100
observability alertmanager               observability $prometheus/alertmanager $prometheus/alertmanager/cmd/alertmanager 60
observability blackbox_exporter          observability $prometheus/blackbox_exporter $prometheus/blackbox_exporter 30
observability kube-state-metrics         kube-state-metrics $metrics $metrics 40
observability victoria-operator          victoria-operator $victoria/operator $victoria/operator/cmd 90
observability victoria-logs              observability $victoria/VictoriaLogs $victoria/VictoriaLogs/app/victoria-logs 45
observability fluent-operator            observability $fluent $fluent/cmd/fluent-manager 20
observability opentelemetry-operator     opentelemetry-operator $telemetry $telemetry 90
observability perses-operator            observability $perses $perses 20
observability collector                  collector go.opentelemetry.io/collector/otelcol . 120
"
for group in "$@"; do
  chosen=$(awk -v group="$group" '$1 == group { $1 = ""; print }' <<<"$on_request")
  [ -n "$chosen" ] || die "there is no group $group of programs that are built on request"
  programs+=$chosen$'\n'
done

# These report the version of the stamp.
stamp_of() { # stamp_of <folder> <version>
  case $1 in
  gardener | kubernetes-*) kubernetes_stamp "$2" ;;
  esac
}

# Without these tags, Prometheus has the clients of all clouds.
tags_of() { # tags_of <name>
  [ "$1" != prometheus ] || printf remove_all_sd,enable_kubernetes_sd
}

# The module of Alertmanager does not contain the web pages that the program embeds. with_page makes a copy of the module with an empty
# page, and a module file that uses the copy. It prints the name of that file.
with_page() { # with_page <module folder> <module>
  local copy=$bin/.page source
  rm -rf "$copy"
  mkdir -p "$copy"
  (cd "$1" && go mod download "$2")
  source=$(cd "$1" && go list -m -f '{{.Dir}}' "$2")
  cp -R "$source" "$copy/module"
  chmod -R u+w "$copy/module"
  mkdir -p "$copy/module/ui/app/dist"
  : >"$copy/module/ui/app/dist/index.html"
  cp "$1/go.mod" "$1/go.sum" "$copy/"
  go mod edit -replace "$2=$copy/module" "$copy/go.mod"
  printf '%s' "$copy/go.mod"
}

check_go garden/etcd
bin=$(cache_folder garden)
lock "$bin"

# The first pass finds out what is missing, the second one builds it.
left=0
for pass in 1 2; do
  while read -r name folder module package seconds; do
    [ -n "$name" ] || continue
    version=$(version_of "garden/$folder" "$module")
    if [ ! -x "$bin/$name-$version" ]; then
      [ "$pass" = 2 ] || { left=$((left + seconds)); continue; }
      say "about $(((left + 59) / 60)) min of building left"
      flags=$GOFLAGS
      [ "$name" != alertmanager ] || GOFLAGS+=" -modfile=$(with_page "garden/$folder" "$module")"
      build "$bin" "garden/$folder" "$name-$version" "$package" "$(stamp_of "$folder" "$version")" "$(tags_of "$name")"
      GOFLAGS=$flags
      left=$((left - seconds))
    fi
    [ "$pass" = 1 ] || printf '%s %s %s\n' "$name" "$version" "$bin/$name-$version"
  done <<<"$programs"
done

own=$(cd .. && pwd)/.local/node/garden/bin
mkdir -p "$own"
(cd .. && exec go build -buildvcs=false -ldflags "-s -w" -o "$own/" ./test/local/garden/...) >&2
(cd ../test/local/garden/fluentbit && exec go build -buildvcs=false -ldflags "-s -w" -o "$own/" .) >&2
for file in "$own"/*; do
  printf '%s %s %s\n' "${file##*/}" own "$file"
done
