#!/bin/sh
# The archives of scripts/dist: what is in them, and that they are the same to the bit, wherever, whenever and by
# whomever they are made.
#
#   dist.sh BUILD WORK      BUILD may hold the tool `hak`
#
# SPDX-License-Identifier: MIT
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1 work=$2
command -v git >/dev/null && commit=$(git -C "$root" rev-parse --verify -q HEAD) ||
  { echo "skipped: this is no checkout of git's"; exit 77; }

fail() {
  echo "$*"
  exit 1
}
# same FILE FILE: or shows enough of the difference.
same() {
  diff "$1" "$2" | head -n 20
  cmp "$1" "$2"
}

rm -rf "$work"
mkdir -p "$work"
git clone -q --no-checkout "$root" "$work/first-tree"
git -C "$work/first-tree" checkout -q --detach "$commit"
mkdir "$work/elsewhere"
cp -R "$work/first-tree" "$work/elsewhere/a-longer-name"
began=$(date +%s)
mkdir "$work/tmp" "$work/elsewhere/temporary-files"
(umask 022 && cd / && export LC_ALL=C TZ=UTC TMPDIR="$work/tmp" &&
  "$work/first-tree/scripts/dist" "$work/first" --tool "$build") >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# Another umask, time, zone, language and folder; times and rights of the files; settings of git's; a file that is not
# committed, and one that was changed.
other=$work/elsewhere/a-longer-name
find "$other" -path "$other/.git" -prune -o -type f -exec touch -d 2001-02-03 {} +
chmod -R go-rwx "$other"
git -C "$other" config tar.umask 0077
git -C "$other" config core.fileMode false
echo more >"$other/uncommitted"
echo more >>"$other/LICENSE"
while [ "$(date +%s)" = "$began" ]; do sleep 0.1; done
(umask 077 && cd "$other" && export LC_ALL=C.UTF-8 TZ=Pacific/Kiritimati TMPDIR="$work/elsewhere/temporary-files" &&
  CFLAGS=-O0 LDFLAGS=-Wl,--build-id=none scripts/dist ../made --tool "$build") >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
grep -q 'what is not committed is not part of it' "$work/log" || fail "it does not say that something is not committed"

for archive in "$work"/first/*; do
  cmp "$archive" "$work/elsewhere/made/${archive##*/}" || {
    # Which members, then: a difference of the whole says little.
    mkdir -p "$work/a" "$work/b"
    tar -xzf "$archive" -C "$work/a"
    tar -xzf "$work/elsewhere/made/${archive##*/}" -C "$work/b"
    diff -rq "$work/a" "$work/b" || :
    fail "${archive##*/} is another one when it is made elsewhere"
  }
done
[ "$(ls "$work/first" | wc -l)" = 2 ] || fail "there are other files than two archives: $(ls "$work/first")"

# Source: all that is committed, and from it the other one was built.
source=$(ls "$work"/first/hakmem-*.tar.gz | grep -v -- -linux-)
git -C "$root" ls-tree -r --name-only "$commit" | LC_ALL=C sort >"$work/committed"
name=$(basename "$source" .tar.gz)
tar -tzf "$source" | sed -n "s|^$name/\(.*[^/]\)\$|\1|p" | LC_ALL=C sort >"$work/contained"
same "$work/committed" "$work/contained"
[ -s "$work/committed" ] || fail "nothing is committed"

# Binary: what the build tree installs, below one folder, and nothing that tells where it was built.
binary=$(ls "$work"/first/hakmem-*-linux-"$(uname -m)".tar.gz)
mkdir "$work/unpacked"
tar -xzf "$binary" -C "$work/unpacked"
cd "$work/unpacked/$(basename "$binary" .tar.gz)"
for file in include/hakmem.h include/hakmem.hpp lib/libhakmem.a lib/libhakmem.so lib/pkgconfig/hakmem.pc \
  lib/cmake/hakmem/hakmem-config.cmake share/man/man3/libhakmem.3 share/doc/hakmem/LICENSE; do
  [ -f "$file" ] || fail "the binary archive lacks $file"
done
if grep -rlF "$work" .; then fail "that holds the path in which it was built"; fi
if [ -x "$build/hak" ]; then
  bin/hak --version >/dev/null
  [ -f share/man/man1/hak.1 ] && [ -f share/bash-completion/completions/hak ] || fail "hak comes alone"
fi
export PKG_CONFIG_PATH=lib/pkgconfig
cc "$root/tests/install/consumer/main.c" -o "$work/consumer" $(pkg-config --cflags --libs hakmem)
LD_LIBRARY_PATH=$PWD/lib "$work/consumer" "$(pkg-config --modversion hakmem)"
