# Sourced by the tests of packages. `stage_tool BUILD FOLDER`: the `hak` that is built there, stripped, and what it
# generates, in FOLDER, as the scripts take it by --tool. Nothing where none is built.
#
# SPDX-License-Identifier: MIT
stage_tool() {
  local hak
  hak=$("$root/tests/support/hak-of" "$1") || return 0
  mkdir "$2"
  cp "$hak" "$2/hak"
  strip "$2/hak"
  "$2/hak" generate "$2/share"
}
