#!/usr/bin/env bash
# Checks what the dynamic linker sees of libhakmem.so: abi.sh CHECK LIBRARY
#   exports      exactly the names in exports.txt
#   tls          at most 64 bytes of static TLS, so that dlopen always works
#   needed       no library but libc (and what it is made of)
#   relocations  no relocation in the code, no executable stack
# SPDX-License-Identifier: MIT
set -euo pipefail
check=$1 library=$2
here=$(cd "$(dirname "$0")" && pwd)
: "${NM:=nm}" "${READELF:=readelf}"

fail() { printf '%s\n' "$@"; exit 1; }

case $check in
  exports)
    # Under musl without a paragraph, and with what the C library's own start-up files add.
    left_out='^# none' added='^$'
    if "$READELF" -dW "$library" | grep -q '\[libc.so\]'; then left_out='^# glibc alone' added='^_(init|fini)$'; fi
    difference=$(diff <(sed "/$left_out/,/^\$/d" "$here/exports.txt" | grep -v -e '^#' -e '^$' | LC_ALL=C sort) \
      <("$NM" -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | grep -Ev "$added" |
        LC_ALL=C sort)) ||
      fail "exported names differ from tests/api/exports.txt (<: missing, >: should be hidden):" "$difference"
    ;;
  tls)
    bytes=$("$READELF" -lW "$library" | awk '$1 == "TLS" {print $6}')
    [ -n "$bytes" ] || fail "no TLS segment: the thread's heap has to be found without a call"
    [ $((bytes)) -le 64 ] || fail "$((bytes)) bytes of static TLS, 64 are allowed"
    ;;
  needed)
    "$READELF" -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r name; do
      case $name in
        libc.so|libc.so.*|ld-linux*.so.*|libpthread.so.*) ;;
        *) fail "needs $name" ;;
      esac
    done
    ;;
  relocations)
    dynamic=$("$READELF" -dW "$library")
    ! grep -q TEXTREL <<<"$dynamic" || fail "relocations in the code"
    stack=$("$READELF" -lW "$library" | awk '$1 == "GNU_STACK" {print $7}')
    [ "$stack" = RW ] || fail "the stack would be executable: GNU_STACK is '$stack'"
    ;;
  *) fail "no such check: $check" ;;
esac
