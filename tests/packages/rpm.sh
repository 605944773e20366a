#!/usr/bin/env bash
# The packages for rpm, built twice in places of their own: the same bytes; then what is in them, and that it serves,
# unpacked. As root, rpm installs, checks and removes them as well, in a root of their own that has nothing else.
#
#   rpm.sh BUILD WORK      with the tool `hak` of the build tree BUILD if it is there
#
# 77 where what builds packages is missing, or this is no checkout.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1 work=$2
for program in rpmbuild rpm rpm2cpio cpio git pkg-config; do
  command -v "$program" >/dev/null || { echo "skipped: there is no $program (scripts/deps rpm installs it)"; exit 77; }
done
commit=$(git -C "$root" rev-parse --verify -q HEAD) || { echo "skipped: this is no checkout of git's"; exit 77; }
fail() {
  echo "$*"
  exit 1
}
rm -rf "$work"
mkdir -p "$work/elsewhere/temporary-files"
version=$("$root/scripts/version" "$commit")

arguments=()
. "$root/tests/packages/tool.sh"
stage_tool "$build" "$work/tool"
[ ! -d "$work/tool" ] || arguments=(--tool "$work/tool")
export HAK_RPM_TOOLS=no
(umask 022 && export TZ=UTC && "$root/scripts/build-rpm" "$work/packages" "${arguments[@]}") >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
(umask 077 && cd / && export LC_ALL=C.UTF-8 TZ=Pacific/Kiritimati TMPDIR="$work/elsewhere/temporary-files" CFLAGS=-O0 &&
  "$root/scripts/build-rpm" "$work/elsewhere/in a folder of another length" "${arguments[@]}") >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
names=(libhakmem0 libhakmem-devel)
[ ! -d "$work/tool" ] || names+=(hakmem-tools)
[ "$(ls "$work/packages" | wc -l)" = "${#names[@]}" ] || fail "other packages than ${names[*]}: $(ls "$work/packages")"
for name in "${names[@]}"; do
  package=$(echo "$work/packages/$name-$version"-*."$(uname -m).rpm")
  cmp "$package" "$work/elsewhere/in a folder of another length/${package##*/}" ||
    fail "$name is another one when it is built elsewhere"
  rpm -K --nosignature --dbpath "$work/db" "$package" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  (mkdir -p "$work/root" && cd "$work/root" && rpm2cpio "$package" | cpio -idm --quiet)
  rpm -qp --dbpath "$work/db" --requires "$package" 2>/dev/null >"$work/$name.requires"
  rpm -qp --dbpath "$work/db" --provides "$package" 2>/dev/null >"$work/$name.provides"
  rpm -qlp --dbpath "$work/db" "$package" 2>/dev/null >"$work/$name.files"
done
grep -q '^libhakmem.so.0()(64bit)' "$work/libhakmem0.provides" || fail "libhakmem0 does not say which library it has"
grep -q '^libc.so.6(GLIBC_' "$work/libhakmem0.requires" || fail "libhakmem0 does not say which C library it needs"
for name in "${names[@]:1}"; do
  grep -q "^libhakmem0.* = $version-" "$work/$name.requires" || fail "$name does not need the library of its version"
done
# All that `cmake --install` installs is in one of them, at the same place below /usr; licences are where rpm has them.
cat "$work"/*.files | sort | uniq -d | grep . && fail "files of two packages"
DESTDIR=$work/installed cmake --install "$build" --prefix /usr >"$work/log"
(cd "$work/installed/usr" && find . ! -type d ! -path './share/doc/*' | sed "s|^\./lib/[^/]*-linux-gnu/|./lib/|") |
  grep -v -e bin/hak -e share/man/man1 -e completion -e fish -e zsh | sort >"$work/expected"
(cd "$work/root/usr" && find . ! -type d ! -path './share/licenses/*' | sed -e 's|^\./lib64/|./lib/|' -e 's|\(/man3/.*\)\.gz$|\1|') |
  grep -v -e bin/hak -e share/man/man1 -e completion -e fish -e zsh | sort >"$work/contained"
diff "$work/expected" "$work/contained" || fail "the packages have other files (>) than the build installs (<)"
if grep -rlF -e "$work" "$work/root"; then fail "that holds the path in which it was built"; fi

lib=$(echo "$work"/root/usr/lib*)
HAKMEM_STATS_FILE=$work/stats.json LD_PRELOAD=$lib/libhakmem.so.0 perl -e 'print ""'
grep -q '"refills": [1-9]' "$work/stats.json" || fail "the preloaded library did not serve"
export PKG_CONFIG_PATH=$lib/pkgconfig
cc "$root/tests/install/consumer/main.c" -o "$work/shared" $(pkg-config --cflags --libs hakmem)
LD_LIBRARY_PATH=$lib "$work/shared" "$version"
# The fast paths are those of the library that is tested. Of the compiler that the golden file is of.
case $(uname -m)-$(gcc -dumpversion) in
x86_64-12*) python3 "$root/tests/golden/fast_path.py" "$lib/libhakmem.so.0" "$root/tests/golden/fast_path.golden" ;;
esac
if [ -d "$work/tool" ]; then
  [ -f "$(echo "$work"/root/usr/share/man/man1/hak.1*)" ] || fail "hak comes alone"
  "$work/root/usr/bin/hak" --version >/dev/null
fi

if ((EUID == 0)); then # rpm changes its root
  in_root() {
    rpm --root "$work/rpm-root" --dbpath /var/lib/rpm "$@" >"$work/log" 2>&1
  }
  must() {
    in_root "$@" || { cat "$work/log"; fail "that was: rpm $*"; }
  }
  mkdir -p "$work/rpm-root"
  must --initdb
  if in_root -U --noscripts "$work/packages/libhakmem-devel-"*.rpm; then fail "libhakmem-devel needs no libhakmem0"; fi
  grep -q "libhakmem0.* = $version-.* is needed" "$work/log" || { cat "$work/log"; fail "it is refused for another reason"; }
  # Without the C library, and so without ldconfig.
  must -U --nodeps --noscripts "$work"/packages/*.rpm
  must -V --nodeps --noscripts "${names[@]}"
  must -e --noscripts "${names[@]}"
  left=$(find "$work/rpm-root" -path "$work/rpm-root/var/lib/rpm" -prune -o \( ! -type d -o -name '*hakmem*' \) -print)
  [ -z "$left" ] || fail "left after the removal: $left"
fi
echo "${#names[@]} packages of $version"
