// SPDX-License-Identifier: MIT
//! `hak`: runs, compares and measures programs under hakmem and other memory allocators.

mod allocators;
mod analysis;
mod cli;
mod commands;
mod elf;
mod failure;
mod figure;
mod helpers;
mod huge_pages;
mod interrupt;
mod library;
mod machine;
mod measure;
mod places;
mod process;
mod program;
mod progress;
mod proof;
mod report;
mod results;
mod sampling;
mod stats;
mod suite;
mod syscalls;
mod warm;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    // `hak peers | head` ends quietly. SAFETY: no other thread runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };

    let result = match Cli::parse().command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Compare(arguments) => commands::compare::run(arguments),
        Command::Peers(arguments) => commands::peers::run(&arguments),
        Command::Bench(arguments) => commands::bench::run(arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("hak: {error:#}");
            ExitCode::from(failure::code_of(&error))
        }
    }
}
