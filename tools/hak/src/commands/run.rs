// SPDX-License-Identifier: MIT
//! `hak run`

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::Result;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::cli::Run;
use crate::commands::run_statistics;
use crate::failure::{BAD_INPUT, CANNOT_RUN, SOMETHING_FAILED, failure};
use crate::family::Family;
use crate::inherited;
use crate::library;
use crate::program::{self, Way};
use crate::temporary::Temporary;

pub fn run(arguments: Run) -> Result<u8> {
    let mut command = command(&arguments.command, &arguments.env, arguments.library.as_deref())?;
    if arguments.stats {
        let taken = |name: &OsString| name == "HAKMEM_STATS_FILE";
        if env::var_os("HAKMEM_STATS_FILE").is_some() || arguments.env.iter().any(|(name, _)| taken(name)) {
            let message = "--stats needs HAKMEM_STATS_FILE for itself, and it is set already";
            return Err(failure(BAD_INPUT, message));
        }
        return with_statistics(command);
    }
    inherited::hand_on(&mut command);
    let error = command.exec();
    Err(cannot_start(&command, &error))
}

/// The command, under hakmem.
pub fn command(words: &[OsString], env: &[(OsString, OsString)], library: Option<&Path>) -> Result<Command> {
    let library = library::hakmem(library, None)?;
    let [name, words @ ..] = words else {
        unreachable!("clap requires a command");
    };
    // The new program's PATH is the one that counts, as with env(1).
    let path =
        env.iter().rev().find(|(name, _)| name == "PATH").map_or_else(program::own_path, |(_, path)| path.clone());
    let way = program::check_to_start(name, &library::describe(&library)?, &path)?;

    let mut command = Command::new(name);
    command.args(words).envs(env.iter().cloned());
    if way == Way::Preloaded {
        let given = env.iter().rev().find(|(name, _)| name == "LD_PRELOAD");
        let others = given.map(|(_, value)| value.clone()).or_else(|| env::var_os("LD_PRELOAD"));
        let others = library::others_preloaded(&others.unwrap_or_default());
        let list = [library].into_iter().chain(others).map(PathBuf::into_os_string);
        command.env("LD_PRELOAD", list.collect::<Vec<_>>().join(OsStr::new(":")));
    }
    Ok(command)
}

/// One more library, in front of those that are preloaded.
pub fn put_in_front(command: &mut Command, library: &Path) -> Result<()> {
    let others = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, value)| value);
    let Some(others) = others.map(OsString::from) else {
        let message = "it is linked with libhakmem.a, in front of which nothing can be preloaded; link it without";
        return Err(failure(CANNOT_RUN, format!("cannot trace {}: {message}", command.get_program().display())));
    };
    command.env("LD_PRELOAD", [library.as_os_str(), &others].join(OsStr::new(":")));
    Ok(())
}

pub fn cannot_start(command: &Command, error: &std::io::Error) -> anyhow::Error {
    failure(CANNOT_RUN, format!("cannot start {}: {error}", command.get_program().display()))
}

/// The allocator's own readable report goes to the program's standard error, which many programs,
/// such as those of GNU coreutils, close before they end. So its other form is asked for, the file.
fn with_statistics(mut command: Command) -> Result<u8> {
    let directory = Temporary::make()?;
    command.env("HAKMEM_STATS_FILE", directory.path().join("%p"));
    let mut family = Family::start(&mut command).map_err(|error| cannot_start(&command, &error))?;
    let status = family.wait();
    run_statistics::print(directory.path(), family.first(), status);
    drop(directory);
    Ok(end_as(status, true))
}

/// A program that a signal killed should look so to hak's parent too. The memory that it dumped is not
/// replaced by hak's. Where the program has succeeded, and hak has not, that is the code.
pub fn end_as(status: ExitStatus, is_well: bool) -> u8 {
    if let Some(signal) = status.signal() {
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    match status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX) {
        0 if !is_well => SOMETHING_FAILED,
        code => code,
    }
}
