// SPDX-License-Identifier: MIT
//! Builds other allocators as shared objects for `LD_PRELOAD`, from sources that come as crates.

mod catalogue;
mod file;
mod peer;
mod recipe;
mod source;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use catalogue::Entry;
use peer::{Peer, PEERS};
use recipe::Outcome;
use source::Sources;

/// Build the newest mimalloc, snmalloc, rpmalloc, jemalloc and tcmalloc as shared objects.
///
/// A peer that cannot be built is named with the reason, the others are built all the same, and
/// the exit status is 1. What is up to date is not built again.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Where the libraries and peers.json go [default: build/peers in the source tree]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The directory of this package: its recipes and its lock file are read when it runs.
const HOME: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> ExitCode {
    let options = Options::parse();
    let out = options
        .out
        .unwrap_or_else(|| Path::new(HOME).join("../../build/peers"));
    match build_all(&out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("build-peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every peer was built.
fn build_all(out: &Path) -> Result<bool> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let out = out
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", out.display()))?;
    let sources = Sources::fetch(Path::new(HOME))?;

    let mut entries = Vec::new();
    for peer in PEERS {
        print!("{:<10} ", peer.name);
        let _ = std::io::stdout().flush();
        match build_one(peer, &sources, &out) {
            Ok((entry, outcome)) => {
                let outcome = match outcome {
                    Outcome::Built => "built",
                    Outcome::Unchanged => "up to date",
                };
                println!("{:<14} {outcome}", entry.version);
                entries.push(entry);
            }
            Err(reason) => {
                println!("FAILED");
                eprintln!("build-peers: {} was not built: {reason:#}", peer.name);
                // A library of an earlier run must not pass for what the lock file says now.
                let _ = std::fs::remove_file(out.join(peer.library()));
            }
        }
    }
    catalogue::write(&out, &entries)?;
    println!(
        "{} of {} in {}",
        entries.len(),
        PEERS.len(),
        out.join(catalogue::FILE).display()
    );
    Ok(entries.len() == PEERS.len())
}

fn build_one(peer: &Peer, sources: &Sources, out: &Path) -> Result<(Entry, Outcome)> {
    let source = sources.of(peer)?;
    let version = (peer.version)(&source)?;
    let outcome = recipe::run(peer, &source, Path::new(HOME), out)?;
    Ok((Entry::new(peer, &source, version), outcome))
}
