# Sourced by the tests of packages. `stage_tool BUILD FOLDER`: the `hak` that is built there, stripped, and what it
# generates, in FOLDER, as the scripts take it by --tool. Nothing where none is built.
#
# SPDX-License-Identifier: MIT
stage_tool() {
  local hak
  for hak in "$1/hak" "$1/cargo/debug/hak"; do
    if [ -x "$hak" ]; then
      mkdir "$2"
      cp "$hak" "$2/hak"
      strip "$2/hak"
      "$2/hak" generate "$2/share"
      return
    fi
  done
}
