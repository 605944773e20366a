// SPDX-License-Identifier: MIT
//! The C helpers, embedded by the build and written out for as long as the tool runs.

use std::env;
use std::fs::{self, DirEntry, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Access, AtFlags, FlockOperation, access, flock, statat};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::failure::{BAD_INPUT, failure};
use crate::files::open_directory;
use crate::interrupt;

const LAUNCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launch"));
const TRACE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace"));
const REPLAY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/replay"));
const PROBE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe"));

const PREFIX: &str = "hak-";
/// Of a directory that has it, whoever made it holds a lock: so the next hak knows what a hak that was killed has left.
const MARK: &str = "made-by-hak";

/// Removed with the directory when dropped.
pub struct Helpers {
    directory: TempDir,
    pub launch: PathBuf,
    pub probe: PathBuf,
    pub trace: PathBuf,
    pub replay: PathBuf,
    _lock: File,
}

impl Helpers {
    pub fn unpack() -> Result<Helpers> {
        Helpers::unpack_in(&env::temp_dir())
    }

    fn unpack_in(place: &Path) -> Result<Helpers> {
        sweep(place);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place);
        let directory = directory.context("cannot make a temporary directory")?;
        interrupt::remove_at_end(directory.path().to_path_buf());
        let lock = lock(directory.path()).with_context(|| format!("cannot lock {}", directory.path().display()))?;
        if directory.path().to_string_lossy().contains([' ', ':']) {
            let path = directory.path().display();
            let message =
                format!("what lies in {path} cannot be preloaded; set TMPDIR to a path without space and colon");
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
        Ok(Helpers { directory, launch, probe, trace, replay, _lock: lock })
    }

    /// For the files of single runs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// The mark comes last. A file system may have no locks: then nobody sweeps there.
fn lock(directory: &Path) -> io::Result<File> {
    let lock = open_directory(directory)?;
    if flock(&lock, FlockOperation::LockExclusive).is_ok() {
        fs::write(directory.join(MARK), "")?;
    }
    Ok(lock)
}

fn sweep(place: &Path) {
    let is_ours = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
    for entry in fs::read_dir(place).into_iter().flatten().flatten().filter(is_ours) {
        let _ = remove_if_left(&entry.path()); // what is in use or not ours stays
    }
}

fn remove_if_left(path: &Path) -> io::Result<()> {
    let directory = open_directory(path)?;
    if directory.metadata()?.uid() != geteuid().as_raw() {
        return Ok(());
    }
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    // With the lock: of a directory that another one has removed meanwhile, the mark is gone as well.
    statat(&directory, MARK, AtFlags::SYMLINK_NOFOLLOW)?;
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn what_a_killed_one_has_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let runs = Helpers::unpack_in(place.path()).unwrap();
        for name in ["hak-left", "hak-anothers", "other-left", "elsewhere", "hak-unmarked"] {
            fs::create_dir(path(name)).unwrap();
            if name != "hak-unmarked" {
                fs::write(path(name).join(MARK), "").unwrap();
            }
        }
        fs::write(path("hak-file"), "").unwrap();
        symlink(path("elsewhere"), path("hak-link")).unwrap();
        let mut stays = vec!["other-left", "elsewhere", "hak-unmarked", "hak-file", "hak-link"];
        if geteuid().is_root() {
            chown(path("hak-anothers"), Some(65534), None).unwrap();
            stays.push("hak-anothers");
        }
        Helpers::unpack_in(place.path()).unwrap();
        assert!(!path("hak-left").exists());
        assert!(runs.launch.exists() && path("elsewhere").join(MARK).exists());
        for name in stays {
            assert!(path(name).symlink_metadata().is_ok(), "{name}");
        }
    }
}
