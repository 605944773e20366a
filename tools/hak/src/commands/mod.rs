// SPDX-License-Identifier: MIT
//! One module for each subcommand. Each returns the exit code.

pub mod bench;
pub mod compare;
pub mod peers;
pub mod report;
pub mod rows;
pub mod run;
