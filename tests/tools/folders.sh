#!/bin/sh
# folders.sh WORK LIBRARY: the Makefile and the scripts in folders whose names have blanks, and what they say where that
# cannot work.
#
# SPDX-License-Identifier: MIT
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$1 library=$2
rm -rf "$work"
mkdir -p "$work"
fail() {
  echo "$1"
  exit 1
}
# refuses TEXT COMMAND WORD...: it fails, and says that among others.
refuses() {
  text=$1
  shift
  ! "$@" >"$work/log" 2>&1 </dev/null || fail "$* succeeds"
  grep -qF -- "$text" "$work/log" || { cat "$work/log"; fail "$* does not say: $text"; }
}

# `make clean` removes what BUILD names and nothing that a part of its name does.
builds="$work/my builds/it's here"
mkdir -p "$builds/out" "$work/my" "$work/builds"
make -s -C "$root" clean BUILD="$builds/out"
[ ! -e "$builds/out" ] && [ -d "$builds" ] && [ -d "$work/my" ] && [ -d "$work/builds" ] || fail "make clean removes something else"
# Everything else that it would run has that name whole, too: the shell sees all of it in each word that has its beginning.
quoted="'$work/my builds/it'\\''s here/out'"
for target in all demo bench dist deb site rpm; do
  make -n -C "$root" "$target" BUILD="$builds/out" >"$work/log"
  grep -qF "$quoted" "$work/log" || fail "make $target does not use BUILD"
  while IFS= read -r line; do
    case $(printf '%s\n' "$line" | awk -v whole="$quoted" '{while ((i = index($0, whole)) > 0) $0 = substr($0, 1, i - 1) substr($0, i + length(whole)); print}') in
    *"my builds"*) fail "make $target does not quote BUILD: $line" ;;
    esac
  done <"$work/log"
done

# LD_PRELOAD can hold no blank and no colon.
for name in "a blank" a:colon; do
  mkdir "$work/$name"
  cp "$library" "$work/$name/libhakmem.so"
  refuses "the tests cannot be run in '$work/$name': LD_PRELOAD" "$root/tests/run" --quick --build-dir "$work/$name"
  refuses "The demo cannot preload '$work/$name/libhakmem.so'" python3 "$root/demo/demo.py" --lib "$work/$name/libhakmem.so"
done
