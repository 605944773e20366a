// SPDX-License-Identifier: MIT
//! Which peers there are, and how each tells its version.

use std::fs;

use anyhow::{Context, Result};

use crate::source::Source;

pub struct Peer {
    /// Also the name of its recipe and, with "lib" and ".so" around it, of its library.
    pub name: &'static str,
    /// The crate that carries its sources.
    pub crate_name: &'static str,
    /// What the recipe needs beside CMake, Ninja and a C compiler.
    pub needs: &'static [Tool],
    pub version: fn(&Source) -> Result<String>,
    /// What a process that uses it needs in its environment to get what upstream intends.
    pub environment: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tool {
    CxxCompiler,
    Make,
}

pub const PEERS: &[Peer] = &[
    Peer {
        name: "mimalloc3",
        crate_name: "libmimalloc-sys3",
        needs: &[],
        version: mimalloc_version,
        environment: &[],
    },
    Peer {
        name: "snmalloc",
        crate_name: "snmalloc-sys",
        needs: &[Tool::CxxCompiler],
        version: snmalloc_version,
        environment: &[],
    },
    Peer {
        name: "rpmalloc",
        crate_name: "rpmalloc-sys",
        needs: &[],
        version: rpmalloc_version,
        environment: &[],
    },
    Peer {
        name: "jemalloc",
        crate_name: "tikv-jemalloc-sys",
        needs: &[Tool::CxxCompiler, Tool::Make],
        version: jemalloc_version,
        environment: &[],
    },
    Peer {
        name: "tcmalloc",
        crate_name: "libtcmalloc-sys",
        needs: &[Tool::CxxCompiler],
        version: tcmalloc_version,
        // Its per-CPU caches need the thread's restartable sequences, which glibc 2.35 and newer
        // take for themselves unless told not to. Without them it falls back to slower caches.
        environment: &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
    },
];

impl Peer {
    pub fn library(&self) -> String {
        format!("lib{}.so", self.name)
    }
}

/// The header has the version as one number, 30600 for 3.6.0.
fn mimalloc_version(source: &Source) -> Result<String> {
    let header = read(source, "c_src/mimalloc/v3/include/mimalloc.h")?;
    let number: u32 = header
        .lines()
        .find_map(|line| line.strip_prefix("#define MI_MALLOC_VERSION"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("mimalloc.h does not define MI_MALLOC_VERSION")?;
    Ok(format!(
        "{}.{}.{}",
        number / 10_000,
        number / 100 % 100,
        number % 100
    ))
}

/// Crate and allocator are released together.
fn snmalloc_version(source: &Source) -> Result<String> {
    let v = &source.version;
    Ok(format!("{}.{}.{}", v.major, v.minor, v.patch))
}

/// The newest entry of the change log, and the commit, which the crate has in its own version.
fn rpmalloc_version(source: &Source) -> Result<String> {
    let log = read(source, "rpmalloc/CHANGELOG")?;
    let release = log
        .lines()
        .next()
        .context("rpmalloc's CHANGELOG is empty")?;
    Ok(format!("{}+{}", release.trim(), source.version.build))
}

/// The crate's build metadata is what jemalloc's configure expects: 5.3.1-0-g81034ce…
fn jemalloc_version(source: &Source) -> Result<String> {
    let full = source.version.build.as_str();
    let (release, _) = full
        .split_once('-')
        .with_context(|| format!("the crate's version has no jemalloc version: {full:?}"))?;
    Ok(release.to_owned())
}

/// tcmalloc has no releases: the day on which the crate took its sources.
fn tcmalloc_version(source: &Source) -> Result<String> {
    let log = read(source, "CHANGELOG.md")?;
    let v = &source.version;
    let heading = format!("## [{}.{}.{}]", v.major, v.minor, v.patch);
    log.lines()
        .find(|line| line.starts_with(&heading))
        .and_then(|line| line.rsplit_once(" - "))
        .map(|(_, day)| day.trim().to_owned())
        .with_context(|| format!("CHANGELOG.md has no dated heading {heading}"))
}

fn read(source: &Source, file: &str) -> Result<String> {
    let path = source.directory.join(file);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}
