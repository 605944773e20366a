// SPDX-License-Identifier: MIT
//! Directories in TMPDIR that hak removes at its end, and the next hak where it was killed.

use std::env;
use std::fs::{self, DirEntry, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, FlockOperation, flock, statat};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::files::open_directory;
use crate::interrupt;

const PREFIX: &str = "hak-";
/// Of a directory that has it, whoever made it holds a lock: so the next hak knows what a hak that was killed has left.
const MARK: &str = "made-by-hak";

/// Removed when dropped.
pub struct Temporary {
    directory: TempDir,
    _lock: File,
}

impl Temporary {
    pub fn make() -> Result<Temporary> {
        Temporary::make_in(&env::temp_dir())
    }

    pub fn make_in(place: &Path) -> Result<Temporary> {
        sweep(place);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place);
        let directory = directory.context("cannot make a temporary directory")?;
        interrupt::remove_at_end(directory.path().to_path_buf());
        let lock = lock(directory.path()).with_context(|| format!("cannot lock {}", directory.path().display()))?;
        Ok(Temporary { directory, _lock: lock })
    }

    /// Beside the mark.
    pub fn path(&self) -> &Path {
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
        let runs = Temporary::make_in(place.path()).unwrap();
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
        Temporary::make_in(place.path()).unwrap();
        assert!(!path("hak-left").exists());
        assert!(runs.path().exists() && path("elsewhere").join(MARK).exists());
        for name in stays {
            assert!(path(name).symlink_metadata().is_ok(), "{name}");
        }
    }
}
