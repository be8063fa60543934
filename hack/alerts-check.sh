#!/usr/bin/env bash
# Checks the files of deploy/observability: the alerts with Prometheus' own tool and their unit tests; then the dashboard, the
# PrometheusRule and the page about the alerts with the tests in hack/prometheus. Called by `make alerts-check`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/prometheus"

# The first build of promtool takes about two minutes and prints nothing.
echo "building promtool and the tests in hack/prometheus (once per version; it takes some minutes)"
promtool=$(mktemp -d)/promtool
trap 'rm -rf "$(dirname "$promtool")"' EXIT
go build -tags remove_all_sd -o "$promtool" github.com/prometheus/prometheus/cmd/promtool

for rules in ../../deploy/observability/*.rules.yaml; do
  "$promtool" check rules --lint=all --lint-fatal "$rules"
done
"$promtool" test rules ./*.promtool.yaml
go vet -tags remove_all_sd ./...
# Files outside this module do not invalidate a cached result.
go test -tags remove_all_sd -count=1 ./...
