// SPDX-License-Identifier: MIT
//! Files made, changed and removed in one step each.
//!
//! A new text is written beside its place under a name that only hak uses, and moved there when it is whole and on
//! disk: a new file never takes the place of one that is there, and a changed one only that of the bytes it was made from.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::failure::{SOMETHING_FAILED, failure};
use crate::files::open_directory;

const ACCESS_LIST: &str = "system.posix_acl_access";

/// The file that it is about need not be the one that is to be there in the end.
pub fn at<T>(path: &Path, done: io::Result<T>) -> Result<T> {
    done.map_err(|error| failure(SOMETHING_FAILED, format!("{}: {error}", path.display())))
}

/// What a path has before it is moved. Left behind only by a tool that was killed, and removed by the next.
pub fn temporary(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".hak-install-");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().expect("an absolute path of a file has a directory")
}

/// So that after a loss of power there is not the record without the change, or the other way round.
fn keep(directory: &Path) -> Result<()> {
    match File::open(directory).and_then(|its| its.sync_all()) {
        // Some file systems have no such thing for directories.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
        other => at(directory, other),
    }
}

/// Why a file is not given a new text: it would be another file, with the rights and under the name of one alone.
pub fn not_rewritten(path: &Path, its: &fs::Metadata) -> Option<&'static str> {
    if its.nlink() > 1 {
        Some("has other names, too, under which the text would stay as it is")
    } else if matches!(rustix::fs::getxattr(path, ACCESS_LIST, &mut [0u8; 1][..]), Ok(_) | Err(Errno::RANGE)) {
        Some("has an access control list, which would be lost")
    } else {
        None
    }
}

fn written(path: &Path, bytes: &[u8], mode: u32, like: Option<&fs::Metadata>) -> Result<()> {
    remove(path)?;
    let mut file = at(path, OpenOptions::new().write(true).create_new(true).mode(0o600).open(path))?;
    let whole = (|| {
        file.write_all(bytes)?;
        if let Some(old) = like {
            fchown(&file, Some(old.uid()), Some(old.gid())).map_err(|error| {
                let what = format!("user {} and group {} cannot be kept: {error}", old.uid(), old.gid());
                io::Error::new(error.kind(), what)
            })?;
            // The directory may have given it a list of its own, which the old one has not.
            let _ = rustix::fs::fremovexattr(&file, ACCESS_LIST);
        }
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    })();
    if whole.is_err() {
        let _ = fs::remove_file(path);
    }
    at(path, whole)
}

fn moved(step: io::Result<()>, temporary: &Path, path: &Path) -> Result<()> {
    if step.is_err() {
        let _ = fs::remove_file(temporary);
    }
    at(path, step)
}

/// A new file; an error if there is anything of that name.
pub fn make(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let temporary = temporary(path);
    written(&temporary, bytes, mode, None)?;
    let step = match renameat_with(CWD, &temporary, CWD, path, RenameFlags::NOREPLACE) {
        // File systems that do not know the flag.
        Err(Errno::INVAL | Errno::NOSYS) => fs::hard_link(&temporary, path).and_then(|()| fs::remove_file(&temporary)),
        other => other.map_err(Into::into),
    };
    moved(step, &temporary, path)?;
    keep(directory_of(path))
}

/// New bytes for a file that has `old` ones; mode and owner stay.
pub fn change(path: &Path, old: &[u8], new: &[u8]) -> Result<()> {
    let temporary = temporary(path);
    let its = at(path, fs::symlink_metadata(path))?;
    written(&temporary, new, its.permissions().mode() & 0o7777, Some(&its))?;
    let step = match fs::read(path) {
        Ok(now) if now == old => fs::rename(&temporary, path),
        Ok(_) => Err(io::Error::other("somebody changes it at the moment")),
        Err(error) => Err(error),
    };
    moved(step, &temporary, path)?;
    keep(directory_of(path))
}

/// A record, which is hak's own and may be replaced.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = temporary(path);
    written(&temporary, bytes, 0o644, None)?;
    moved(fs::rename(&temporary, path), &temporary, path)?;
    keep(directory_of(path))
}

/// Nothing, if there is none.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => at(path, other),
    }
}

/// What a killed hak left beside a file. A directory of that name is somebody else's.
pub fn remove_temporary(path: &Path) -> Result<()> {
    let temporary = temporary(path);
    if temporary.symlink_metadata().is_ok_and(|its| its.is_dir()) { Ok(()) } else { remove(&temporary) }
}

/// The directories that have to be made for a file, outermost first.
pub fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        directory_of(path).ancestors().take_while(|one| one.symlink_metadata().is_err()).map(Into::into).collect();
    missing.reverse();
    missing
}

/// Of a directory that was just made, whatever the umask: not of what somebody has put into its place since.
fn open_up(path: &Path) -> io::Result<()> {
    open_directory(path)?.set_permissions(Permissions::from_mode(0o755))
}

pub fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => at(path, open_up(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => at(path, Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_a_new_directorys_place_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("theirs")).unwrap();
        fs::set_permissions(path("theirs"), Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("theirs", path("new")).unwrap();
        assert!(open_up(&path("new")).is_err());
        assert_eq!(fs::metadata(path("theirs")).unwrap().mode() & 0o7777, 0o700);
        make_directory(&path("own")).unwrap();
        assert_eq!(fs::metadata(path("own")).unwrap().mode() & 0o7777, 0o755);
    }
}
