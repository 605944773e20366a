// SPDX-License-Identifier: MIT
//! The library that is preloaded: a copy of its own, so that no build or package that goes takes it along.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flate2::Crc;
use rustix::fs::StatVfsMountFlags;

use crate::failure::{BAD_INPUT, failure};
use crate::install::changes::Step;
use crate::install::{root, trust};
use crate::library;

/// The name that programs are linked with: an upgrade of the package moves it to the new file, and removes the old one.
const SONAME: &str = "libhakmem.so.0";

/// Read before `--root` is entered.
pub struct Source {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Source {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

pub fn read(given: Option<&Path>) -> Result<Source> {
    let path = library::hakmem(given, None)?;
    let bytes = fs::read(&path).map_err(|error| failure(BAD_INPUT, format!("{}: {error}", path.display())))?;
    Ok(Source { path: lasting(path), bytes })
}

/// A name in the folder that the file itself is in, as found or the one that lasts.
fn lasting(path: PathBuf) -> PathBuf {
    let linked = path.with_file_name(SONAME);
    let file = |path: &Path| path.canonicalize().ok();
    if file(&linked).is_some_and(|its| Some(its) == file(&path)) { linked } else { path }
}

/// What LD_PRELOAD, a unit, environment.d and ld.so.preload all take as it is: no blanks, no colon, nothing that one
/// of them expands or that begins a comment there.
fn check_name(path: &Path) -> Result<()> {
    let special = |c: char| c.is_whitespace() || c.is_control() || ":;,$%#\"'`\\".contains(c);
    if path.to_string_lossy().contains(special) {
        let message = format!("{path:?} holds a character that cannot be preloaded: choose another --prefix");
        return Err(failure(BAD_INPUT, message));
    }
    Ok(())
}

/// The dynamic linker maps nothing from a file system that is mounted noexec.
fn check_mount(path: &Path) -> Result<()> {
    let there = path.ancestors().find_map(|one| rustix::fs::statvfs(one).ok());
    if there.is_some_and(|its| its.f_flag.contains(StatVfsMountFlags::NOEXEC)) {
        let message = format!("{} is on a file system that is mounted noexec: choose another --prefix", path.display());
        return Err(failure(BAD_INPUT, message));
    }
    Ok(())
}

/// Where the library will be, and what puts it there. The content is in the name: versions do not meet.
pub fn place(source: Source, prefix: &Path, in_place: bool) -> Result<(PathBuf, Option<Step>)> {
    if in_place {
        let path = root::absolute(&source.path)?;
        check_name(&path)?;
        library::hakmem(Some(&path), None)?;
        check_mount(&path)?;
        return Ok((path, None));
    }
    let mut crc = Crc::new();
    crc.update(&source.bytes);
    let name = format!("libhakmem-{}-{:08x}.so", env!("CARGO_PKG_VERSION"), crc.sum());
    let path = prefix.join("lib/hakmem").join(name);
    check_name(&path)?;
    check_mount(&path)?;
    Ok((path.clone(), Some(Step::share(path, source.bytes, 0o644))))
}

/// That others than its owner can read it, and that only root can change it, as programs of others will load it.
pub fn check_for_all(library: &Path) -> Result<()> {
    let refused = |place: &Path, reason: &str| {
        let library = library.display();
        let message =
            format!("{library} would be loaded into everybody's programs, and of {} {reason}", place.display());
        failure(BAD_INPUT, message)
    };
    for one in library.ancestors() {
        let Ok(its) = one.metadata() else {
            continue; // not there yet, and made so that it holds
        };
        let needed = if its.is_dir() { 0o001 } else { 0o004 };
        let reason = if its.mode() & needed == 0 {
            "not all users may read what is there"
        } else {
            continue;
        };
        return Err(refused(one, reason));
    }
    match trust::fault(library) {
        Some((place, reason)) => Err(refused(&place, reason)),
        None => Ok(()),
    }
}
