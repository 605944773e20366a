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
"$here/../../scripts/build-wheel" "$work/dist" >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-index "$work"/dist/hakmem-*.whl
mkdir "$work/elsewhere"
cd "$work/elsewhere"
unset LD_PRELOAD PYTHONMALLOC
exec "$work/venv/bin/python" "$here/python_test.py" "$work/dist"
