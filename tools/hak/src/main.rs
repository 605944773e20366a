// SPDX-License-Identifier: MIT
//! `hak`: runs, compares and measures programs under hakmem and other memory allocators.

mod allocators;
mod analysis;
mod baseline;
mod change;
mod cli;
mod commands;
mod crossover;
mod elf;
mod env_command;
mod failure;
mod family;
mod figure;
mod files;
mod fingerprint;
mod helpers;
mod hooks;
mod huge_pages;
mod inherited;
mod input;
mod inspect;
mod install;
mod interrupt;
mod library;
mod limits;
mod machine;
#[cfg(test)]
mod made;
mod means;
mod measure;
mod output;
mod places;
mod process;
mod profile;
mod program;
mod progress;
mod proof;
mod report;
mod resampling;
mod results;
mod sampling;
mod stats;
mod suite;
mod suite_verdict;
mod sweep;
mod syscalls;
mod temporary;
mod top;
mod trace;
mod upstream;
mod verdict;
mod warm;
mod work;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use cli::{Cli, Command};
use failure::BAD_INPUT;

fn main() -> ExitCode {
    interrupt::outlive_size_limits();
    let result = match commands::generate::asked_for() {
        Some(directory) => directory.and_then(|directory| commands::generate::run(&directory)),
        None => parse().map_or_else(|code| code, |cli| run(cli.command)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::say(format_args!("hak: {error:#}"));
            ExitCode::from(failure::code_of(&error))
        }
    }
}

/// Help and versions that were asked for go to standard output, and what is wrong to standard error.
fn parse() -> std::result::Result<Cli, Result<u8>> {
    let mut words: Vec<OsString> = env::args_os().collect();
    // `hak help run --help` asks for no more than `hak help run`.
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    Cli::try_parse_from(words).map_err(|error| {
        if error.use_stderr() {
            let _ = error.print();
            return Ok(BAD_INPUT);
        }
        let printed = output::check_standard().and_then(|()| error.print());
        printed.map(|()| 0).map_err(|error| output::cannot_print(&error))
    })
}

fn run(command: Command) -> Result<u8> {
    match command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Compare(arguments) => commands::compare::run(*arguments),
        Command::Peers(arguments) => commands::peers::run(&arguments),
        Command::Bench(arguments) => commands::bench::run(arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Inspect(arguments) => commands::inspect::run(&arguments),
        Command::Dump(arguments) => commands::dump::run(&arguments),
        Command::Top(arguments) => commands::top::run(&arguments),
        Command::Profile(arguments) => commands::profile::run(&arguments),
        Command::Trace(arguments) => commands::trace::run(&arguments),
        Command::Replay(arguments) => commands::replay::run(&arguments),
        Command::Explain(arguments) => commands::explain::run(&arguments),
        Command::Diff(arguments) => commands::diff::run(&arguments),
        Command::Install(arguments) => commands::install::install(&arguments),
        Command::Uninstall(arguments) => commands::install::uninstall(&arguments),
    }
}
