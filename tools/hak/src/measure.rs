// SPDX-License-Identifier: MIT
//! A run under an allocator: one with proof, which is not timed, and timed ones.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde::Deserialize;

use crate::allocators::Allocator;
use crate::helpers::Helpers;
use crate::library;
use crate::process::{self, End, Job, Usage};
use crate::proof::{self, Proof};
use crate::sampling::Memory;

/// Why there is no result.
pub enum Stop {
    Failed(String),
    Interrupted,
}

pub struct Ran {
    pub status: ExitStatus,
    pub usage: Usage,
    pub memory: Memory,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// What is preloaded for the user goes behind the allocator.
pub fn users_preload() -> Vec<PathBuf> {
    library::others_preloaded(&std::env::var_os("LD_PRELOAD").unwrap_or_default())
}

/// What an allocator needs set, for any form of run.
pub fn add_environment(job: &mut Job, allocator: &Allocator) {
    let pairs = allocator.environment.iter();
    job.environment.extend(pairs.map(|(name, value)| (name.into(), Some(value.into()))));
}

/// `job` names no LD_PRELOAD yet.
pub fn run(helpers: &Helpers, mut job: Job, allocator: &Allocator, last: &[&Path]) -> Result<Ran, Stop> {
    add_environment(&mut job, allocator);
    job.environment.push(("LD_PRELOAD".into(), allocator.preload(last)));
    run_as_it_is(helpers, &job)
}

pub fn run_as_it_is(helpers: &Helpers, job: &Job) -> Result<Ran, Stop> {
    match process::run(helpers, job) {
        Ok(End::Done { status, usage, memory, stdout, stderr }) => Ok(Ran { status, usage, memory, stdout, stderr }),
        Ok(End::TimedOut) => {
            let seconds = job.timeout.unwrap_or_default().as_secs_f64();
            Err(Stop::Failed(format!("timed out after {seconds} s")))
        }
        Ok(End::Interrupted) => Err(Stop::Interrupted),
        Err(error) => Err(Stop::Failed(format!("{error:#}"))),
    }
}

/// A run with the probe.
pub struct Proven {
    pub ran: Ran,
    pub proof: Result<Proof, String>,
    /// The object that served the program in place of the C library; with nothing preloaded, its own.
    pub brought: Option<PathBuf>,
}

/// The same with the probe, and what it found.
pub fn prove(helpers: &Helpers, mut job: Job, allocator: &Allocator, last: &[&Path]) -> Result<Proven, Stop> {
    let failed = |error: std::io::Error| Stop::Failed(format!("cannot prepare the proof: {error}"));
    let directory = tempfile::tempdir_in(helpers.directory()).map_err(failed)?;
    let written = directory.path().join("probe");
    let mut set = |name: &str, value: OsString| job.environment.push((name.into(), Some(value)));
    set("HAK_PROBE_FILE", written.clone().into());
    if allocator.library.is_some() {
        set("HAKMEM_STATS_FILE", directory.path().join("%p.json").into());
    }
    let mut last = last.to_vec();
    last.push(&helpers.probe);
    let ran = run(helpers, job, allocator, &last)?;
    let text = fs::read(&written).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let proof = proof::judge(&text, allocator, refills(directory.path()));
    Ok(Proven { ran, proof, brought: proof::brought(&text) })
}

/// The sum over all processes that wrote hakmem's statistics; `None` if none did.
fn refills(directory: &Path) -> Option<u64> {
    #[derive(Deserialize)]
    struct Statistics {
        refills: u64,
    }
    let files = fs::read_dir(directory).ok()?.flatten();
    files
        .filter_map(|file| {
            let text = fs::read_to_string(file.path()).ok()?;
            Some(serde_json::from_str::<Statistics>(&text).ok()?.refills)
        })
        .reduce(|sum, one| sum + one)
}

/// "exit code 1: the last lines of its error output".
pub fn describe_end(ran: &Ran) -> String {
    let tail = process::tail(&ran.stderr);
    let end = process::describe(ran.status);
    if tail.is_empty() { end } else { format!("{end}: {tail}") }
}
