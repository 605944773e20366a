#!/bin/sh
# install.sh BUILD WORK: installs the build tree BUILD below WORK and uses it there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 work=$2
command -v pkg-config >/dev/null || { echo "skipped: no pkg-config"; exit 77; }

rm -rf "$work"
prefix="$work/a prefix" # what is linked may be in any folder
cmake --install "$build" --prefix "$prefix" >/dev/null
library=$(dirname "$(find "$prefix" -name libhakmem.a)")
[ -f "$prefix/include/hakmem.h" ] && [ -f "$prefix/include/hakmem.hpp" ] && [ -f "$prefix/share/man/man3/libhakmem.3" ] ||
  { echo "the header or the man page is not installed"; exit 1; }
cmp "$here/../../LICENSE" "$prefix/share/doc/hakmem/LICENSE"

# Without a folder to build into, that would be /.
said=$("$here/../../scripts/build-hak" 2>&1) && { echo "scripts/build-hak without a folder succeeds"; exit 1; }
[ "$said" = "usage: scripts/build-hak BUILD" ] || { echo "scripts/build-hak without a folder says: $said"; exit 1; }

# The tool, where scripts/build-hak has built it: a build tree with files in its place
cmake -S "$here/../.." -B "$work/tool" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
install_tool() { cmake --install "$work/tool" --component hak --prefix "$work/tool-prefix" >/dev/null; }
install_tool # nothing, and that is no error
printf '#!/bin/sh\necho works\n' >"$work/tool/hak"
mkdir -p "$work/tool/share/man/man1" && echo page >"$work/tool/share/man/man1/hak.1"
install_tool
[ "$("$work/tool-prefix/bin/hak")" = works ] && [ -f "$work/tool-prefix/share/man/man1/hak.1" ] ||
  { echo "the tool or its manual page is not installed"; exit 1; }

# find_package, both libraries
cmake -S "$here/consumer" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/build" >/dev/null
version=$("$here/../../scripts/version")
"$work/build/with_shared" "$version"
"$work/build/with_static" "$version"
for program in heaps_with_shared heaps_with_static heaps_beside; do
  "$work/build/$program"
done
"$work/build/loader" "$(find "$work/build" -name 'libplugin.so')"
# nothing but the functions of hakmem.h, which no program has names of
names=$(nm --defined-only --extern-only "$library/libhakmem_beside.a" |
  awk 'NF == 3 {print $3}' | grep -v '^hak_') && { echo "libhakmem_beside.a defines $names"; exit 1; }
# each component by itself, all of them, and one that there is not
components() { # COMPONENT ... : whether find_package has them
  mkdir -p "$work/components"
  printf 'cmake_minimum_required(VERSION 3.16)\nproject(components C CXX)\nfind_package(hakmem REQUIRED COMPONENTS %s)\n' "$*" \
    >"$work/components/CMakeLists.txt"
  for component; do echo "get_target_property(type hakmem::$component TYPE)"; done >>"$work/components/CMakeLists.txt"
  cmake -S "$work/components" -B "$work/components/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/components.log" 2>&1
}
for wanted in hakmem static beside "hakmem static beside"; do
  components $wanted || { cat "$work/components.log"; echo "find_package has no component $wanted"; exit 1; }
done
if components hakmem nothing; then
  echo "find_package has found a component that there is not"
  exit 1
fi
grep -q 'no component nothing' "$work/components.log" || { cat "$work/components.log"; exit 1; }

# pkg-config, from another place than the one it was configured for
export PKG_CONFIG_PATH="$library/pkgconfig"
eval "set -- $(pkg-config --cflags --libs hakmem)" # it quotes for a shell
cc "$here/consumer/main.c" -o "$work/with_pkg_config" "$@"
LD_LIBRARY_PATH=$library "$work/with_pkg_config" "$(pkg-config --modversion hakmem)"

# and a program that was never linked to it: by a name, as LD_PRELOAD takes the blank for its end
HAKMEM_STATS_FILE=$work/stats.json LD_LIBRARY_PATH=$library LD_PRELOAD=libhakmem.so "$work/build/with_nothing"
grep -q '"refills": [1-9]' "$work/stats.json" || { echo "the preloaded library did not serve"; exit 1; }
