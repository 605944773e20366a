#!/usr/bin/env bash
# packaging/debian/libhakmem0.symbols has exactly the names that libhakmem.so defines for others (tests/api/exports.txt,
# which another test compares with the library), and none of a version that is yet to come.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
symbols=$root/packaging/debian/libhakmem0.symbols
version=$("$root/scripts/version")

wrong=0
say() {
  echo "$*"
  wrong=1
}
declare -A known=()
while read -r symbol since; do
  known[${symbol%@Base}]=$since
  printf '%s\n' "$since" "$version" | sort -CV || say "$symbol is of version $since, and this is $version"
done < <(grep '^ ' "$symbols")
while read -r name; do
  [[ -v known[$name] ]] || say "libhakmem0.symbols lacks this line: ' $name@Base $version'"
  unset "known[$name]"
done < <(grep -v -e '^#' -e '^$' "$root/tests/api/exports.txt")
for name in "${!known[@]}"; do
  say "libhakmem0.symbols has $name, which the library does not export: programs that need it would not start"
done
grep '^ ' "$symbols" | LC_ALL=C sort -C || say "libhakmem0.symbols is not sorted (LC_ALL=C sort)"
[ "$(grep -c '^ ' "$symbols")" -gt 50 ] || say "libhakmem0.symbols has hardly any names"
exit "$wrong"
