#!/bin/sh
# The crates of bindings/rust, as somebody who works on them and somebody who uses them would try them.
#
#   rust.sh tests TARGET            their tests in each form that they can be compiled in
#   rust.sh package TARGET WORK     makes packages, and below WORK builds a program that has only these
#
# TARGET is cargo's target directory. 77 without a cargo that is new enough.
#
# SPDX-License-Identifier: MIT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
crates=$root/bindings/rust
"$root/scripts/check-cargo" "$crates" || exit 77
what=$1 target=$2
export CARGO_TARGET_DIR="$target" CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
cd "$crates"

case $what in
tests)
  if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; fi
  cargo test --locked --quiet --features stats                                   # as is, and its documentation
  cargo test --locked --quiet --release --tests --no-default-features --features stats,malloc
  cargo run --locked --quiet --features stats --example account
  ;;
package)
  work=$3
  rm -rf "$work" "$target/package"
  mkdir -p "$work"
  # What the sources are just now, whether they have been committed or not.
  cargo package --locked --quiet --workspace --allow-dirty --no-verify 2>"$work/log" || { cat "$work/log"; exit 1; }
  for crate in "$target"/package/*.crate; do tar -xzmf "$crate" -C "$work"; done # new: cargo looks at times
  cp -r "$here/rust_user" "$work/user"
  cp Cargo.lock "$work/user/"
  cd "$work/user"
  cargo build --quiet --release
  said=$("$target/release/user")
  echo "$said"
  version=$("$root/scripts/version")
  [ "$said" = "hakmem $version serves 1048576 bytes" ]
  # What only `hak inspect` looks for is there, although nothing refers to it.
  grep -q "hakmem's tables" "$target/release/user"
  # Another C library is refused in words.
  if problem=$(cargo check --quiet --target x86_64-unknown-linux-musl 2>&1); then
    echo "it builds for musl"
    exit 1
  fi
  case $problem in
  *"hakmem needs glibc"*) ;;
  *) echo "$problem" && exit 1 ;;
  esac
  ;;
*)
  echo "rust.sh: '$what' is neither tests nor package" >&2
  exit 2
  ;;
esac
