#!/bin/sh
# Builds the OpenTelemetry collector of otel_collector/ for the tests of traces into a cache folder, once: with Go, some
# minutes. Of several that run at once one builds and the others wait for it; the folder appears whole or not at all.
#
# usage: install_otel_collector.sh         prints the folder; says on stderr what is missing, and exits with 1
#        install_otel_collector.sh where   prints the folder and installs nothing
set -eu

own=$(cd "$(dirname "$0")" && pwd)/otel_collector
version=$(sed -n 's|.*go.opentelemetry.io/collector/otelcol v||p' "$own/go.mod")
cache=${WEIR_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir-tests}
folder=$cache/otel-collector-$version
wait_seconds=3600

printf '%s\n' "$folder"
[ "${1:-}" != where ] || exit 0
[ ! -d "$folder" ] || exit 0

fail() {
    printf 'the tests on a real OpenTelemetry collector are left out: %s\n' "$1" >&2
    exit 1
}

command -v flock >/dev/null || fail 'flock is missing (Debian: util-linux)'
command -v go >/dev/null || fail "Go $(sed -n 's|^go ||p' "$own/go.mod") or newer (https://go.dev/dl) is not on the PATH"
mkdir -p "$cache"
# The lock goes with the process, whatever its end; nothing that is started here may keep it (9>&-).
exec 9>"$folder.lock"
flock -w "$wait_seconds" 9 || fail "another run did not end within $wait_seconds s (it holds $folder.lock)"
[ ! -d "$folder" ] || exit 0
new=$folder.new
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM
rm -rf "$new"
mkdir "$new"
printf 'building the OpenTelemetry collector for the tests, once; this takes some minutes\n' >&2
cd "$own"
nice -n 10 go build -buildvcs=false -trimpath -o "$new/otelcol" . >"$folder.log" 2>&1 9>&- ||
    fail "it could not be built: see $folder.log; here is $(go env GOVERSION)"
mv -T "$new" "$folder"
