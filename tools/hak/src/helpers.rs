// SPDX-License-Identifier: MIT
//! The C helpers, embedded by the build and written out for as long as the tool runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Access, access};

use crate::failure::{BAD_INPUT, failure};
use crate::library;
use crate::temporary::Temporary;

const LAUNCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launch"));
const TRACE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace"));
const REPLAY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/replay"));
const PROBE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe"));

/// Removed with the directory when dropped.
pub struct Helpers {
    directory: Temporary,
    pub launch: PathBuf,
    pub probe: PathBuf,
    pub trace: PathBuf,
    pub replay: PathBuf,
}

impl Helpers {
    pub fn unpack() -> Result<Helpers> {
        let directory = Temporary::make()?;
        if !library::can_be_preloaded(directory.path()) {
            let path = directory.path().display();
            let message =
                format!("what lies in {path} cannot be preloaded; set TMPDIR to a path without space, colon and $");
            return Err(failure(BAD_INPUT, message));
        }
        let launch = directory.path().join("launch");
        let probe = directory.path().join("probe.so");
        let trace = directory.path().join("trace.so");
        let replay = directory.path().join("replay");
        for (path, bytes) in [(&launch, LAUNCH), (&probe, PROBE), (&trace, TRACE), (&replay, REPLAY)] {
            fs::write(path, bytes)
                .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        access(&launch, Access::EXEC_OK).map_err(|error| {
            let path = launch.display();
            let message = format!("cannot start {path}: {error}; set TMPDIR to a path that is not mounted noexec");
            failure(BAD_INPUT, message)
        })?;
        Ok(Helpers { directory, launch, probe, trace, replay })
    }

    /// For the files of single runs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}
