# Sourced by the Makefile and by scripts. Everything is compiled with the same flags, so that packages that several programs contain are
# compiled once: programs of the control plane, images and binaries, tests without the race detector, and linters. Compiler and linker let
# their heap grow before they collect garbage, which saves a sixth of their processor time.
# shellcheck shell=bash
collect="'-toolexec=env GOGC=400 GOMEMLIMIT=2GiB'"
GOFLAGS=$(go env GOFLAGS)
GOFLAGS=${GOFLAGS/-trimpath/}
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS/"$collect"/} -trimpath $collect"
