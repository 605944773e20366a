#!/bin/sh
# cargo_test.sh CRATE TARGET-DIRECTORY: runs a crate's tests; 77 without a cargo for it.
#
# SPDX-License-Identifier: MIT
"$(dirname "$0")/../../scripts/check-cargo" "$1" || exit 77
exec cargo test --locked --quiet --manifest-path "$1/Cargo.toml" --target-dir "$2"
