#!/usr/bin/env bash
# Prepares a folder for BIND, and prints the path of its server. On Debian and similar systems, as root, it installs the package if it is
# missing; elsewhere it names it. A zone that exists stays, because it contains the names that provider-local has written.
#   names.sh <folder>
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/seed"
PATH=$PATH:/usr/sbin

if ! command -v named >/dev/null; then
  command -v apt-get >/dev/null || { echo "a Seed needs the DNS server named, install it (Debian's package is bind9)" >&2; exit 1; }
  echo "installing bind9" >&2
  # The package must not start a server for this machine.
  [ ! -d /run/systemd/system ] || systemctl mask named.service >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends bind9 >/dev/null 2>&1 ||
    { apt-get update && apt-get install -y --no-install-recommends bind9; } >&2 ||
    { echo "the package bind9 could not be installed" >&2; exit 1; }
fi

mkdir -p "$1"
conf=$(<named.conf)
printf '%s\n' "${conf//\$FOLDER/$1}" >"$1/named.conf"
[ -e "$1/zone" ] || cp zone "$1/zone"
command -v named
