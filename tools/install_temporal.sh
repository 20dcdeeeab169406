#!/bin/sh
# Installs what the tests on a real Temporal service need into a cache folder, once: the development server of Temporal's
# command line (built with Go, about five minutes) and a Python with the official SDK for workers.
#
# usage: install_temporal.sh         prints the folder; says on stderr what is missing and how to get it, and exits with 1
#        install_temporal.sh where   prints the folder and installs nothing
set -eu

version=1.5.1
sdk_version=1.35.0
cache=${WEIR_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir-tests}
folder=$cache/temporal-$version-$sdk_version

printf '%s\n' "$folder"
[ "${1:-}" != where ] || exit 0
[ ! -f "$folder/complete" ] || exit 0
mkdir -p "$folder"
log=$folder/install.log

fail() {
    printf 'the tests on a real Temporal service are left out: %s\n' "$1" >&2
    exit 1
}

if [ ! -x "$folder/bin/temporal" ]; then
    command -v go >/dev/null ||
        fail 'Go is not installed (https://go.dev/dl, 1.24 or newer); then run tools/install_temporal.sh'
    printf 'building the Temporal server for the tests, once; this takes some minutes\n' >&2
    GOBIN=$folder/bin GOFLAGS=-buildvcs=false nice -n 10 go install "github.com/temporalio/cli/cmd/temporal@v$version" \
        >"$log" 2>&1 || fail "it could not be built: see $log"
fi
if [ ! -x "$folder/venv/bin/python" ] || ! "$folder/venv/bin/python" -c 'import temporalio' 2>/dev/null; then
    rm -rf "$folder/venv"
    { python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" install -q "temporalio==$sdk_version"; } >"$log" 2>&1 ||
        fail "the Python SDK could not be installed (python3 with venv is needed): see $log"
fi
: >"$folder/complete"
