#!/usr/bin/env bash
# The binary interface of libhakmem.so.0: names, arguments, and how what hakmem.h declares lies in memory, as the
# library's debug information tells it, against the record libhakmem.so.0.abi beside this file.
#
#   interface.sh compare LIBRARY    fails unless they are the same
#   interface.sh breaks LIBRARY     that `compare` finds what may happen to an interface, planted into copies of the record
#   interface.sh record LIBRARY     writes the record anew
#   interface.sh follows OLD        fails if a program that was linked with a library of the record OLD may not run with
#                                   one of today's: what is new is allowed, and so are new members at the end of
#                                   structures that grow
#
# 77 without abigail-tools.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
what=$1 subject=$2
here=$(cd "$(dirname "$0")" && pwd)
record=$here/libhakmem.so.0.abi
for program in abidw abidiff; do
  command -v "$program" >/dev/null || { echo "skipped: there is no $program (scripts/deps test installs it)"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Nothing in it is of the machine, the processor or the place: a record holds for every one of them.
write_record() {
  abidw --headers-dir "$here/../../include" --drop-private-types --exported-interfaces-only --drop-undefined-syms \
    --no-corpus-path --no-comp-dir-path --no-show-locs --no-parameter-names --no-architecture --no-elf-needed \
    --type-id-style hash "$1" --out-file "$scratch/written"
  # abidiff looks at one unit of each name only.
  awk '/<abi-instr / { sub(/path=.[^\047]*\047 /, "path=\047" ++units "\047 ") } { print }' "$scratch/written" >"$2"
}

# compare OLD NEW OPTION...: says what differs, if anything does. The C library's own types are its own matter.
compare() {
  local old=$1 new=$2
  shift 2
  abidiff --suppressions "$here/foreign.abignore" "$@" "$old" "$new"
}

# planted NAME SED: a copy of the record that differs by one change must be found to differ from the library.
planted() {
  sed -E "$2" "$record" >"$scratch/planted"
  ! cmp -s "$record" "$scratch/planted" || { echo "$1: the change does not apply to the record"; exit 1; }
  if compare "$scratch/planted" "$scratch/library" >"$scratch/said"; then
    echo "$1: not noticed"
    exit 1
  fi
}

case $what in
record)
  write_record "$subject" "$record.part"
  mv "$record.part" "$record"
  ;;
compare)
  write_record "$subject" "$scratch/library"
  compare "$record" "$scratch/library" || {
    echo "The binary interface differs from tests/api/libhakmem.so.0.abi. Is it meant, and allowed by docs/releases.md?"
    echo "Then: tests/api/interface.sh record $subject"
    exit 1
  }
  ;;
breaks)
  write_record "$subject" "$scratch/library"
  planted "a function is gone" "s/(name='hak_)(trim' type='func-type')/\1was_\2/"
  planted "a function is new" "/elf-symbol name='hak_owns'/d"
  planted "an argument has another type" \
    "/<function-decl name='hak_trim'/,/<\/function-decl>/ s/parameter type-id='[^']*'/parameter type-id='95e97e5f'/"
  planted "a result has another type" \
    "/<function-decl name='hak_trim'/,/<\/function-decl>/ s/return type-id='[^']*'/return type-id='95e97e5f'/"
  planted "a member lies elsewhere" "/<class-decl name='hak_stats'/,/<\/class-decl>/ s/bits='64'>/bits='72'>/"
  planted "a structure is larger" "s/(class-decl name='hak_account' size-in-bits=')[0-9]*/\19999/"
  planted "another library" "s/soname='libhakmem.so.0'/soname='libhakmem.so.1'/"
  # What follows: not without what was there, but with more than there was.
  sed "s/name='hak_trim'/name='hak_trimmed'/g" "$record" >"$scratch/older"
  if "$0" follows "$scratch/older" >/dev/null; then echo "a function that is gone is let pass"; exit 1; fi
  sed "/elf-symbol name='hak_owns'/d; /<function-decl name='hak_owns'/,/<\/function-decl>/d" "$record" >"$scratch/older"
  "$0" follows "$scratch/older"
  last=$(sed -n "/<class-decl name='hak_account'/,/<\/class-decl>/ s/.*layout-offset-in-bits='\([0-9]*\)'.*/\1/p" "$record" |
    tail -n 1)
  sed "/<class-decl name='hak_account'/,/<\/class-decl>/ { s/size-in-bits='[0-9]*'/size-in-bits='$last'/
    /layout-offset-in-bits='$last'/,/<\/data-member>/d }" "$record" >"$scratch/older"
  "$0" follows "$scratch/older"
  sed "/<class-decl name='hak_account'/,/<\/class-decl>/ { s/size-in-bits='[0-9]*'/size-in-bits='$last'/
    /layout-offset-in-bits='64'/,/<\/data-member>/d }" "$record" >"$scratch/older"
  if "$0" follows "$scratch/older" >/dev/null; then echo "a member that was inserted is let pass"; exit 1; fi
  ;;
follows) compare "$subject" "$record" --no-added-syms --suppressions "$here/growing.abignore" ;;
*) echo "interface.sh: '$what' is none of compare, breaks, record, follows" >&2 && exit 2 ;;
esac
