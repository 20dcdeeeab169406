#!/bin/sh
# Races our locks against those of the real ShedLock library. Needs Maven and a JDK; Maven fetches the library.
# usage: shedlock_race.sh BUILD_FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/pom.xml" "$here/ShedLockRace.java" "$work"
# Standard output belongs to the test program.
(cd "$work" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >&2 && javac -cp 'lib/*' -d . ShedLockRace.java)
SHEDLOCK_CLASSPATH="$work:$work/lib/*" "$build/tests/interop/shedlock_race"
