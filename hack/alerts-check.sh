#!/usr/bin/env bash
# Checks the files of deploy/observability: the alerts by Prometheus' own tool, with their unit tests; then the dashboard, the
# PrometheusRule and the page about the alerts by the tests in hack/prometheus. Called by `make alerts-check`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/prometheus"

# Building promtool for the first time takes two minutes or so, and says nothing.
echo "building promtool and the tests in hack/prometheus (once per version; it takes some minutes)"
promtool=$(mktemp -d)/promtool
trap 'rm -rf "$(dirname "$promtool")"' EXIT
go build -tags remove_all_sd -o "$promtool" github.com/prometheus/prometheus/cmd/promtool

for rules in ../../deploy/observability/*.rules.yaml; do
  "$promtool" check rules --lint=all --lint-fatal "$rules"
done
"$promtool" test rules ./*.promtool.yaml
go vet -tags remove_all_sd ./...
go test -tags remove_all_sd ./...
