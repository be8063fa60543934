# Sourced by the scripts that build tools from Go modules, once per version, into a cache outside the work tree.
# Progress is written to standard error.
#
#   ESPALIER_CACHE       where built tools are kept      (default: the user's cache folder, plus /espalier)
# shellcheck shell=bash

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

command -v go >/dev/null || die "there is no go command; install Go (https://go.dev/doc/install)"
export GOWORK=off
# shellcheck source=goflags.sh
. "$(dirname "${BASH_SOURCE[0]}")/goflags.sh"

version_of() { (cd "$1" && go list -m -f '{{.Version}}' "$2"); }

# Go downloads a newer version of itself if that is allowed. This fails if Go is too old and the download is not allowed.
check_go() { # check_go <module folder>
  (cd "$1" && go list -m >/dev/null) || die "Go $(awk '$1 == "go" {print $2}' "$1/go.mod") or newer is needed, this is $(GOTOOLCHAIN=local go env GOVERSION)"
}

cache_folder() { # cache_folder <name>: creates it, and prints its path
  local folder=${ESPALIER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier}/$1-$(go env GOOS)-$(go env GOARCH)
  mkdir -p "$folder"
  printf '%s\n' "$folder"
}

# If two runs need the same tool (make up and make test), the second one waits for the first.
lock() { # lock <folder>
  command -v flock >/dev/null || return 0
  exec 9>"$1/.lock"
  flock --nonblock 9 || { say "waiting for another run that builds the same"; flock 9; }
}

compiler=
trap '[ -z "$compiler" ] || kill "$compiler" 2>/dev/null || true' EXIT

# run_compiler <command>…: runs a command, and says every 15 seconds that it still runs.
run_compiler() {
  local start=$SECONDS
  "$@" >&2 &
  compiler=$!
  while sleep 1 && kill -0 "$compiler" 2>/dev/null; do
    (((SECONDS - start) % 15)) || say "  still at it after $((SECONDS - start)) s"
  done
  wait "$compiler" || { compiler=; die "the build failed, see above; a further run goes on where this one stopped"; }
  compiler=
}

build() { # build <cache folder> <module folder> <binary> <package> [ldflags] [tags]
  local start=$SECONDS
  [ ! -x "$1/$3" ] || return 0
  say "building $3 (once per version, kept in $1)"
  run_compiler go build -C "$2" -tags "${6:-}" -ldflags "-s -w ${5:-}" -o "$1/.$3.new" "$4"
  mv "$1/.$3.new" "$1/$3"
  say "  $3 took $((SECONDS - start)) s"
}

# build_all builds several packages of a module, so that one is linked while another one is compiled. The last part of the path of a
# package is the name of its binary.
build_all() { # build_all <cache folder> <module folder> <ldflags> <package>…
  local start=$SECONDS cache=$1 module=$2 ldflags=$3 each missing=()
  shift 3
  for each in "$@"; do [ -x "$cache/${each##*/}" ] || missing+=("$each"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "building ${missing[*]##*/} (once per version, kept in $cache)"
  mkdir -p "$cache/.new"
  run_compiler go build -C "$module" -ldflags "-s -w $ldflags" -o "$cache/.new/" "${missing[@]}"
  for each in "${missing[@]}"; do mv "$cache/.new/${each##*/}" "$cache/"; done
  say "  they took $((SECONDS - start)) s"
}

# Without the stamp, every component reports the version v0.0.0-master.
kubernetes_stamp() { # kubernetes_stamp <version>
  local minor=${1#v1.}
  printf '%s' "-X k8s.io/component-base/version.gitVersion=$1 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
}
