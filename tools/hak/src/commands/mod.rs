// SPDX-License-Identifier: MIT
//! One module for each subcommand. Each returns the exit code.

pub mod bench;
pub mod compare;
mod comparison_end;
pub mod diff;
pub mod dump;
mod exports;
pub mod generate;
pub mod inspect;
pub mod install;
pub mod peers;
mod plan;
pub mod profile;
pub mod report;
pub mod rows;
pub mod run;
mod run_statistics;
pub mod top;
