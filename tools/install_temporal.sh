#!/bin/sh
# Installs what the tests on a real Temporal service need into a cache folder, once: the development server of Temporal's
# command line (built with Go, about five minutes) and a Python with the official SDK for workers. Of several that run at
# once one installs and the others wait for it; the folder appears whole or not at all.
#
# WEIR_TEMPORAL_VERSION names the version of the server: that of the command line, or the newer one of temporal_server/, a
# program of our own for a version that the command line does not offer.
#
# usage: install_temporal.sh         prints the folder; says on stderr what is missing and how to get it, and exits with 1
#        install_temporal.sh where   prints the folder and installs nothing
set -eu

version=1.5.1
server_version=1.29.1 # of the command line of that version
sdk_version=1.35.0
go_hint='Go 1.25 or newer (https://go.dev/dl)'
wait_seconds=3600
own=$(cd "$(dirname "$0")" && pwd)/temporal_server
own_version=$(sed -n 's|.*go.temporal.io/server v||p' "$own/go.mod")
wanted=${WEIR_TEMPORAL_VERSION:-$server_version}
cache=${WEIR_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir-tests}
folder=$cache/temporal-$version-$sdk_version
case $wanted in
"$server_version") ;;
"$own_version")
    go_hint="Go $(sed -n 's|^go ||p' "$own/go.mod") or newer (https://go.dev/dl), or one from 1.21 on that may fetch it"
    # An older Go fetches the one that go.mod names as a module, also where the machine's setting is `local`.
    export GOTOOLCHAIN=auto
    folder=$cache/temporal-server-$own_version-$sdk_version
    ;;
*)
    printf 'WEIR_TEMPORAL_VERSION is "%s"; set it to %s or %s\n' "$wanted" "$server_version" "$own_version" >&2
    exit 2
    ;;
esac

printf '%s\n' "$folder"
[ "${1:-}" != where ] || exit 0
[ ! -f "$folder/complete" ] || exit 0
mkdir -p "$cache"
log=$folder.log
new=$folder.new

fail() {
    printf 'the tests on a real Temporal service are left out: %s\n' "$1" >&2
    exit 1
}

# The lock goes with the process, whatever its end; nothing that is started here may keep it (9>&-).
exec 9>"$folder.lock"
if command -v flock >/dev/null; then
    flock -n 9 || {
        printf 'another run installs the Temporal server for the tests: waiting for it\n' >&2
        flock -w "$wait_seconds" 9 || fail "the other run did not end within $wait_seconds s (it holds $folder.lock)"
    }
    [ ! -f "$folder/complete" ] || exit 0
else
    new=$folder.new-$$
fi

command -v go >/dev/null ||
    fail "$go_hint is not on the PATH; with it ./dev test installs the server and leaves none out"
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM
rm -rf "$new"
mkdir "$new"
printf 'building the Temporal server for the tests, once; this takes some minutes\n' >&2
if [ "$wanted" = "$server_version" ]; then
    package=github.com/temporalio/cli/cmd/temporal@v$version
else
    cd "$own"
    package=.
fi
GOBIN=$new/bin GOFLAGS='-buildvcs=false -trimpath' nice -n 10 go install "$package" >"$log" 2>&1 9>&- ||
    fail "the server could not be built: see $log; it needs $go_hint, and here is $(go env GOVERSION)"
# The environment is moved afterwards: python finds its place again, the scripts beside it do not and are not used.
{ python3 -m venv "$new/venv" && "$new/venv/bin/python" -m pip install -q "temporalio==$sdk_version"; } >"$log" 2>&1 9>&- ||
    fail "the Python SDK could not be installed (python3 with venv is needed): see $log"
: >"$new/complete"
# One without `complete` was left by an installation that was broken off.
[ -f "$folder/complete" ] || rm -rf "$folder"
mv -T "$new" "$folder" 2>/dev/null || [ -f "$folder/complete" ] || fail "it could not be put into $folder"
