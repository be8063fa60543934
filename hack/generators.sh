#!/usr/bin/env bash
# Prints the packages of the main module with tests that generate their cases.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
files='{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}'
go list -f "$files" ./... | xargs grep -lE '^func TestGenerated' | xargs -n1 dirname | sort -u | sed "s|^$PWD|.|"
