#!/usr/bin/env bash
# The Debian packages, built in a copy, and what a user does with them, in a root folder of their own that has nothing
# else but the entries of the packages that they depend on.
#
#   debian.sh make BUILD WORK      builds them below WORK, with the tool `hak` of the build tree BUILD if it is there
#   debian.sh same BUILD WORK      builds them again, elsewhere: the same bytes
#   debian.sh cross BUILD WORK     builds them for arm64, which can be installed beside those of this machine, and has the
#                                  emulator run a program under the library
#   debian.sh use BUILD WORK       looks at them, installs, uses, upgrades and removes them
#
# 77 where what builds packages is missing.
#
# SPDX-License-Identifier: MIT
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
what=$1 build=$2 work=$3
log=$work/log-$what
PATH=$PATH:/usr/sbin:/sbin # where dpkg looks for ldconfig
for program in dh dpkg-buildpackage lintian fakeroot pkg-config; do
  command -v "$program" >/dev/null || { echo "skipped: there is no $program (scripts/deps deb installs it)"; exit 77; }
done
fail() {
  echo "$*"
  exit 1
}

# built_from TREE OUT: with the tool as scripts/build-hak or the tests of the tool have built it, if they have.
built_from() {
  local arguments=(--tool "$work/tool of hak")
  [ -d "$work/tool of hak" ] || arguments=()
  [ -d "$work/tool of hak" ] || export DEB_BUILD_PROFILES=pkg.hakmem.notools
  "$1/scripts/build-deb" "$2" "${arguments[@]}" >"$log" 2>&1 || { cat "$log"; exit 1; }
}

make_packages() {
  rm -rf "$work"
  mkdir -p "$work"
  . "$root/tests/packages/tool.sh"
  stage_tool "$build" "$work/tool of hak"
  (umask 022 && export TZ=UTC && built_from "$root" "$work/packages")
}

same() {
  local package tree=$work/elsewhere/tree packages="$work/elsewhere/in a folder of another length"
  rm -rf "$work/elsewhere"
  mkdir -p "$work/elsewhere/temporary-files" "$tree"
  # From files of another time, which their owner alone may read, and which are in no checkout.
  if [ -e "$root/.git" ]; then
    (umask 077 && cd "$root" && git ls-files -z --deduplicate --cached --others --exclude-standard |
      tar --null --ignore-failed-read -T - -cf - | tar -C "$tree" --no-same-permissions -xf -)
    find "$tree" -exec touch -h -d 2001-02-03 {} +
  else
    tree=$root
  fi
  (umask 077 && export TZ=Pacific/Kiritimati TMPDIR="$work/elsewhere/temporary-files" && built_from "$tree" "$packages")
  for package in "$work"/packages/*; do
    cmp "$package" "$packages/${package##*/}" || fail "${package##*/} is another one when it is built elsewhere"
  done
  rm -rf "$work/elsewhere"
}

cross() {
  local arm=$work/arm64 library name
  for program in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64; do
    command -v "$program" >/dev/null || { echo "skipped: there is no $program (scripts/deps test installs it)"; exit 77; }
  done
  rm -rf "$arm"
  mkdir -p "$arm"
  DEB_BUILD_PROFILES=pkg.hakmem.notools "$root/scripts/build-deb" "$arm/packages" --arch arm64 >"$log" 2>&1 ||
    { cat "$log"; exit 1; }
  lintian --allow-root --no-user-dirs --no-cfg --fail-on error "$arm"/packages/{libhakmem0,libhakmem-dev}_*_arm64.deb \
    >"$log" || { cat "$log"; exit 1; }
  dpkg-deb -f "$arm"/packages/libhakmem0_*.deb Depends | grep -q '^libc6' || fail "it does not say which C library it needs"
  for package in "$arm"/packages/*.deb; do dpkg-deb -x "$package" "$arm/root"; done
  library=$arm/root/usr/lib/aarch64-linux-gnu/libhakmem.so.0
  aarch64-linux-gnu-gcc "$root/tests/api/allocating_program.c" -o "$arm/program"
  # The emulator keeps a record for every page of reserved address space.
  qemu-aarch64 -L /usr/aarch64-linux-gnu -E HAKMEM_RESERVE=16G -E HAKMEM_STATS_FILE="$arm/stats.json" \
    -E LD_PRELOAD="$library" "$arm/program" >"$log" || { cat "$log"; fail "the program fails under it"; }
  grep -q '"refills": [1-9]' "$arm/stats.json" || fail "the preloaded library did not serve"
  aarch64-linux-gnu-gcc -I"$arm/root/usr/include" "$root/tests/install/consumer/main.c" "${library%.so.0}.a" -pthread \
    -o "$arm/linked"
  version=$(dpkg-deb -f "$arm"/packages/libhakmem0_*.deb Version)
  qemu-aarch64 -L /usr/aarch64-linux-gnu -E HAKMEM_RESERVE=16G "$arm/linked" "${version%-*}"
  # Installed beside those of this machine: dpkg takes a file that both have for one, and wants it the same.
  for name in libhakmem0 libhakmem-dev; do
    mkdir -p "$arm/beside/$name"
    dpkg-deb -x "$work"/packages/${name}_*.deb "$arm/beside/$name/here"
    dpkg-deb -x "$arm"/packages/${name}_*.deb "$arm/beside/$name/arm64"
    rm -r "$arm/beside/$name/here/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" \
      "$arm/beside/$name/arm64/usr/lib/aarch64-linux-gnu"
    diff -r "$arm/beside/$name/here" "$arm/beside/$name/arm64" >"$log" ||
      { cat "$log"; fail "$name of two architectures cannot be installed at a time"; }
  done
}

# dpkg for a root of its own, whatever this machine leaves out of what is installed.
in_root() {
  local as_root=(fakeroot)
  ((EUID)) || as_root=()
  "${as_root[@]}" dpkg --root="$work/root" --force-unsafe-io --path-include='/*' "$@" >"$log" 2>&1
}
must() {
  "$@" || { cat "$log"; fail "that was: $*"; }
}
status_of() {
  dpkg-query --admindir="$work/root/var/lib/dpkg" -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null || :
}
files_left() {
  find "$work/root" -path "$work/root/var/lib/dpkg" -prune -o ! -type d -print | grep -v '/var/log/' || :
}
# renumbered PACKAGE VERSION: the same as another version, with a file less; its name.
renumbered() {
  local copy=$work/newer/$(basename "$1" .deb)
  mkdir -p "$work/newer"
  dpkg-deb -R "$1" "$copy"
  sed -i "s/$version/$2/" "$copy/DEBIAN/control"
  find "$copy/usr/share/doc" -name 'changelog.gz' -delete
  (cd "$copy" && find usr -type f -exec md5sum {} +) >"$copy/DEBIAN/md5sums"
  dpkg-deb --root-owner-group -Znone -b "$copy" "$copy-$2.deb" >/dev/null
  echo "$copy-$2.deb"
}

use() {
  local packages=("$work"/packages/{libhakmem0,libhakmem-dev}_*.deb) names=(libhakmem0 libhakmem-dev)
  if [ -d "$work/tool of hak" ]; then
    packages+=("$work"/packages/hakmem-tools_*.deb)
    names+=(hakmem-tools)
  fi
  version=$(dpkg-deb -f "${packages[0]}" Version)
  lintian --allow-root --no-user-dirs --no-cfg --fail-on error "${packages[@]}" >"$log" || { cat "$log"; exit 1; }

  rm -rf "$work/root" "$work/newer"
  mkdir -p "$work"/root/var/lib/dpkg/{info,updates,triggers}
  for needed in libc6 libgcc-s1; do
    dpkg-query -s "$needed"
    echo
  done >"$work/root/var/lib/dpkg/status"

  # Alone, what needs the library is not configured.
  if in_root -i "${packages[1]}"; then fail "libhakmem-dev is installed without libhakmem0"; fi
  must in_root -i "${packages[@]}"
  must in_root --verify "${names[@]}"
  [ ! -s "$log" ] || { cat "$log"; fail "files are not as the packages have them"; }
  must in_root --audit "${names[@]}"
  [ ! -s "$log" ] || { cat "$log"; fail "dpkg is not content"; }
  local lib consumer=$root/tests/install/consumer
  lib=$work/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)

  # Preloaded, linked shared and static, found by pkg-config and CMake.
  HAKMEM_STATS_FILE=$work/stats.json LD_PRELOAD=$lib/libhakmem.so.0 perl -e 'print ""'
  grep -q '"refills": [1-9]' "$work/stats.json" || fail "the preloaded library did not serve"
  export PKG_CONFIG_PATH=$lib/pkgconfig
  cc "$consumer/main.c" -o "$work/shared" $(pkg-config --cflags --libs hakmem)
  LD_LIBRARY_PATH=$lib "$work/shared" "${version%-*}"
  cmake -S "$consumer" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/root/usr" >/dev/null
  cmake --build "$work/consumer" --target with_shared with_static >/dev/null
  "$work/consumer/with_shared" "${version%-*}"
  "$work/consumer/with_static" "${version%-*}"
  # The fast paths are those of the library that is tested. Of the compiler that the golden file is of.
  case $(uname -m)-$(gcc -dumpversion) in
  x86_64-12*) python3 "$root/tests/golden/fast_path.py" "$lib/libhakmem.so.0" "$root/tests/golden/fast_path.golden" ;;
  esac
  if [ -d "$work/tool of hak" ]; then
    "$work/root/usr/bin/hak" run --stats -- perl -e 'print ""' >"$log" 2>&1 || { cat "$log"; exit 1; }
    grep -q hakmem "$log" || { cat "$log"; fail "hak run shows no statistics"; }
  fi

  # Upgraded: what the new version lacks is gone.
  local newer=() package now
  for package in "${packages[@]}"; do newer+=("$(renumbered "$package" "$version+newer")"); done
  must in_root -i "${newer[@]}"
  for package in "${names[@]}"; do
    now=$(status_of "$package")
    [ "$now" = "installed $version+newer" ] || fail "$package after the upgrade: $now"
    [ ! -e "$work/root/usr/share/doc/$package/changelog.gz" ] || fail "a file of $package's old version is still there"
  done

  # Removed: not while something needs it, then without anything left.
  if in_root -r libhakmem0; then fail "libhakmem0 is removed, though libhakmem-dev needs it"; fi
  must in_root -P "${names[@]}"
  [ -z "$(files_left)" ] || fail "left after the removal: $(files_left)"
  echo "${#names[@]} packages of $version"
}

case $what in
make) make_packages ;;
same) same ;;
cross) cross ;;
use) use ;;
*) echo "debian.sh: '$what' is none of make, same, cross, use" >&2 && exit 2 ;;
esac
