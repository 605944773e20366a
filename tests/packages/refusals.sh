#!/bin/sh
# What the scripts that publish say where they cannot go on, and that nothing is published then. With stand-ins for
# cargo and cmake.
#
#   refusals.sh WORK
#
# SPDX-License-Identifier: MIT
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd -P)
work=$1
command -v git >/dev/null && top=$(git -C "$root" rev-parse --show-toplevel) && [ "$top" = "$root" ] ||
  { echo "skipped: this is no checkout of git's"; exit 77; }
rm -rf "$work"
mkdir -p "$work/bin" "$work/a blank"
fail() {
  echo "$*"
  exit 1
}
# refuses TEXT COMMAND WORD...: it fails and says that, and the folder of what is published stays empty.
refuses() {
  text=$1
  shift
  ! "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "$* succeeds"; }
  grep -qF -- "$text" "$work/log" || { cat "$work/log"; fail "$* does not say: $text"; }
}

# Compilers' flags hold the path of temporary files, and divide it at a blank.
TMPDIR="$work/a blank" refuses "a blank in TMPDIR, '$work/a blank'" "$root/scripts/dist" "$work/out" binary
TMPDIR="$work/a blank" refuses "a blank in TMPDIR, '$work/a blank'" "$root/scripts/build-rpm" "$work/out"
if command -v dpkg-parsechangelog >/dev/null; then
  TMPDIR="$work/a blank" refuses "a blank in TMPDIR, '$work/a blank'" "$root/scripts/build-deb" "$work/out"
fi

# Sources without commits of their own, in another checkout and in none.
mkdir -p "$work/sources/packaging/rpm"
cp -R "$root/scripts" "$root/CMakeLists.txt" "$work/sources"
refuses "$work/sources is no checkout of git's" "$work/sources/scripts/dist" "$work/out"
refuses "$work/sources is no checkout of git's" "$work/sources/scripts/build-rpm" "$work/out"
GIT_CEILING_DIRECTORIES=$work refuses "$work/sources is no checkout of git's" "$work/sources/scripts/dist" "$work/out"

# A cargo that reaches nothing, but says which flags it was given.
cat >"$work/bin/cargo" <<'END'
#!/bin/sh
[ "$1" != --version ] || { echo "cargo 999.0.0"; exit 0; }
printf '%s\n' "${CARGO_ENCODED_RUSTFLAGS-}" | tr '\037' '\n' >&2
exit 101
END
printf '#!/bin/sh\n' >"$work/bin/cmake"
chmod +x "$work/bin/cargo" "$work/bin/cmake"
export PATH="$work/bin:$PATH"
refuses "HAK_RPM_TOOLS=no leaves hakmem-tools out" "$root/scripts/build-rpm" "$work/out"
if command -v dpkg-parsechangelog >/dev/null; then
  refuses "DEB_BUILD_PROFILES=pkg.hakmem.notools leaves hakmem-tools out" "$root/scripts/build-deb" "$work/out"
fi
refuses "the archive would lack hak" env CARGO_HOME="$work/a blank/cargo" "$root/scripts/dist" "$work/out" binary
grep -qxF -- "--remap-path-prefix=$work/a blank/cargo=cargo" "$work/log" || { cat "$work/log"; fail "a flag of Rust's is divided"; }
[ -z "$(ls "$work/out")" ] || fail "something is published: $(ls "$work/out")"
