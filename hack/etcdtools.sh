#!/usr/bin/env bash
# Builds etcdctl and etcdutl, which back etcd up and restore it, from Go modules, once per version, into a cache outside the work tree, and
# prints the folder of the binaries (alone on standard output; progress is written to standard error). Called by tests that need them.
#
#   ESPALIER_CACHE       where built tools are kept      (default: the user's cache folder, plus /espalier)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./build.sh

bin=$(cache_folder "etcdtools/etcd-$(version_of etcd go.etcd.io/etcd/server/v3)")
lock "$bin"
build "$bin" etcd etcdctl go.etcd.io/etcd/etcdctl/v3
build "$bin" etcd etcdutl go.etcd.io/etcd/etcdutl/v3
printf '%s\n' "$bin"
