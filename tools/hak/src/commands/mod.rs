// SPDX-License-Identifier: MIT
//! One module for each subcommand. Each returns the exit code.

pub mod bench;
mod benchmark;
pub mod compare;
mod comparison_end;
pub mod diff;
pub mod dump;
pub mod explain;
mod exports;
pub mod generate;
pub mod inspect;
pub mod install;
pub mod peers;
pub mod plan;
pub mod profile;
pub mod replay;
pub mod report;
mod resume;
pub mod rows;
pub mod run;
mod run_statistics;
pub mod top;
pub mod trace;
