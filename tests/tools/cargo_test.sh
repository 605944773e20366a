#!/bin/sh
# cargo_test.sh CRATE TARGET-DIRECTORY: runs a crate's tests; 77 without a cargo for it.
#
# SPDX-License-Identifier: MIT
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$1/Cargo.toml")
version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
if [ -z "$version" ] || ! printf '%s\n' "$needed" "$version" | sort -CV; then
  echo "this needs cargo $needed or newer, and there is ${version:-none}"
  exit 77
fi
exec cargo test --locked --quiet --manifest-path "$1/Cargo.toml" --target-dir "$2"
