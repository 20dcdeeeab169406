#!/bin/sh
# Makes the static library that is installed: one object in which every hidden symbol is local, so that a program may have
# functions of the same names as our inner ones.
#
# usage: localize_archive.sh FROM.a TO.a
set -eu
from=$1
to=$2
object=$to.o
ld -r --whole-archive "$from" -o "$object"
objcopy --localize-hidden "$object"
rm -f "$to"
ar rcs "$to" "$object"
rm -f "$object"
