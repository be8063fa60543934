#!/usr/bin/env bash
# Prints the packages of the main module with tests whose names begin with a word.
#
#   packages.sh TestCrash [PATTERN…]
#
# A pattern of packages limits the search (default: ./...).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
word=${1:?usage: packages.sh WORD [PATTERN…]}
shift
[ $# -gt 0 ] || set -- ./...
files='{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}'
go list -f "$files" "$@" | xargs grep -lE "^func $word" | xargs -n1 dirname | sort -u | sed "s|^$PWD|.|"
