#!/bin/sh
# cargo_test.sh CRATE TARGET-DIRECTORY WORD...: `cargo test WORD...` for a crate; 77 without a cargo for it.
#
# SPDX-License-Identifier: MIT
"$(dirname "$0")/../../scripts/check-cargo" "$1" || exit 77
crate=$1 target=$2
shift 2
# Building takes longer than testing, and a panic says its line without these; the whole is built once.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
exec cargo test --locked --quiet --manifest-path "$crate/Cargo.toml" --target-dir "$target" "$@"
