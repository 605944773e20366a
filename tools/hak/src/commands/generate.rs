// SPDX-License-Identifier: MIT
//! `hak generate DIR`: the manual pages and the shells' completions, made from the command line's definition.
//!
//! For scripts/build-hak. It has no part in that definition, or the completions would offer it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::{BAD_INPUT, failure};

const MANUAL: &str = "User Commands";
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/hak"),
    (Shell::Zsh, "zsh/site-functions/_hak"),
    (Shell::Fish, "fish/vendor_completions.d/hak.fish"),
];

/// Its title says when the manual pages were last changed.
const LIBRARY_PAGE: &str = include_str!("../../../../man/libhakmem.3");

/// The directory, if it is this command that is asked for.
pub fn asked_for() -> Option<Result<PathBuf>> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != "generate" {
        return None;
    }
    let is_directory = |word: &OsString| !word.as_bytes().starts_with(b"-");
    Some(match (arguments.next().filter(is_directory), arguments.next()) {
        (Some(directory), None) => Ok(directory.into()),
        _ => Err(failure(
            BAD_INPUT,
            "generate takes the directory to write the manual pages and the shells' completions to: hak generate DIR",
        )),
    })
}

/// One for each subcommand, too. They have no version of their own, and an empty date would not be one.
fn write_pages(command: clap::Command, directory: &Path) -> Result<()> {
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()).cloned() {
        write_pages(one, directory)?;
    }
    let page = Man::new(command).date(date()).source(concat!("hakmem ", env!("CARGO_PKG_VERSION"))).manual(MANUAL);
    page.generate_to(directory)?;
    Ok(())
}

fn date() -> &'static str {
    let title = LIBRARY_PAGE.lines().find_map(|line| line.strip_prefix(".TH LIBHAKMEM 3 "));
    title.and_then(|its| its.split(' ').next()).expect("libhakmem(3) has a date")
}

/// Below the directory as below /usr/share.
pub fn run(directory: &Path) -> Result<u8> {
    let say = |path: &Path| format!("cannot write {}", path.display());
    let pages = directory.join("man/man1");
    fs::create_dir_all(&pages).with_context(|| say(&pages))?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(command, &pages).with_context(|| say(&pages))?;
    for (shell, name) in COMPLETIONS {
        let file = directory.join(name);
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "hak", &mut text);
        fs::create_dir_all(file.parent().expect("it has a directory")).with_context(|| say(&file))?;
        fs::write(&file, text).with_context(|| say(&file))?;
    }
    Ok(0)
}
