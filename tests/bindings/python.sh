#!/bin/sh
# The wheel of bindings/python, from nothing: built from its source distribution, installed into an environment of
# its own, and tried there.
#
#   python.sh WORK
#
# SPDX-License-Identifier: MIT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
rm -rf "$work"
# For 64-bit Arm as well, where it can be made and run.
root=$(cd "$here/../.." && pwd)
arm=
[ "$(uname -m)" = x86_64 ] && command -v aarch64-linux-gnu-g++ qemu-aarch64 >/dev/null &&
  arm=$root/cmake/aarch64-linux-gnu.cmake
# An option is no folder.
usage="usage: scripts/build-wheel OUT [TOOLCHAIN-FILE ...]"
said=$("$root/scripts/build-wheel" --help 2>/dev/null) && [ "$said" = "$usage" ] ||
  { echo "scripts/build-wheel --help says: $said"; exit 1; }
said=$("$root/scripts/build-wheel" --no-such 2>&1) && { echo "scripts/build-wheel --no-such succeeds"; exit 1; }
[ "$said" = "$usage" ] || { echo "scripts/build-wheel --no-such says: $said"; exit 1; }
"$root/scripts/build-wheel" "$work/dist" ${arm:+"$arm"} >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-index "$work"/dist/hakmem-*"$(uname -m)".whl
if [ -n "$arm" ]; then
  mkdir "$work/arm"
  aarch64-linux-gnu-gcc -O1 -o "$work/arm/served" "$here/served.c" -ldl
  python3 "$here/arm_wheel.py" "$work/arm" "$work"/dist/hakmem-*aarch64.whl
fi
mkdir "$work/elsewhere"
cd "$work/elsewhere"
unset LD_PRELOAD PYTHONMALLOC
exec "$work/venv/bin/python" "$here/python_test.py" "$work/dist"
