// SPDX-License-Identifier: MIT
//! What was installed, as files that `hak uninstall` reads: one for each installation, written before it begins.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::install::changes::Change;
use crate::install::files;

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Record {
    pub version: u32,
    pub name: String,
    /// What the user named: the script, the unit, the system.
    pub target: String,
    /// false: hak began with it, and may have been interrupted anywhere.
    pub whole: bool,
    /// Those that were made for it, outermost first.
    pub directories: Vec<PathBuf>,
    pub changes: Vec<Change>,
}

impl Record {
    pub fn new(name: &str, target: &str, changes: Vec<Change>) -> Record {
        Record {
            version: VERSION,
            name: name.into(),
            target: target.into(),
            whole: false,
            directories: Vec::new(),
            changes,
        }
    }
}

/// The records below a prefix, while nobody else changes them.
pub struct Records {
    directory: PathBuf,
    /// What this run has made for them.
    pub made: Vec<PathBuf>,
    _lock: File,
}

/// What lies among the records and is none, or one that only a newer hak can read.
pub struct Broken {
    pub path: PathBuf,
    reason: String,
}

impl Broken {
    /// Whether a record of that name would be where it is.
    pub fn names(&self, name: &str) -> bool {
        self.path.file_stem().is_some_and(|its| its == name)
    }

    pub fn error(&self) -> anyhow::Error {
        let message = format!("{} is no record of hak: {}", self.path.display(), self.reason);
        failure(BAD_INPUT, message + "; nothing of what it tells of is taken back")
    }
}

fn cannot(path: &Path, error: &dyn std::fmt::Display) -> anyhow::Error {
    failure(SOMETHING_FAILED, format!("{}: {error}", path.display()))
}

pub fn directory(prefix: &Path) -> PathBuf {
    prefix.join("lib/hakmem/installed")
}

impl Records {
    /// Makes the directory where it is missing.
    pub fn open(prefix: &Path) -> Result<Records> {
        let directory = directory(prefix);
        let missing = files::missing_directories(&directory.join("one"));
        let mut made = Vec::new();
        let opened = (|| {
            for one in &missing {
                files::make_directory(one)?;
                made.push(one.clone());
            }
            let lock = File::open(&directory).map_err(|error| cannot(&directory, &error))?;
            let busy = || cannot(&directory, &"another hak is at work there");
            flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
                rustix::io::Errno::WOULDBLOCK => busy(),
                other => cannot(&directory, &other),
            })?;
            // One that was removed in the meantime keeps nobody out.
            let locked = lock.metadata().map_err(|error| cannot(&directory, &error))?;
            if !fs::metadata(&directory).is_ok_and(|now| (now.dev(), now.ino()) == (locked.dev(), locked.ino())) {
                return Err(busy());
            }
            Ok(lock)
        })();
        match opened {
            Ok(lock) => {
                remove_unfinished(&directory);
                Ok(Records { directory, made, _lock: lock })
            }
            Err(error) => {
                made.iter().rev().for_each(|one| drop(fs::remove_dir(one)));
                Err(error)
            }
        }
    }

    pub fn all(&self) -> Result<Vec<Record>> {
        Ok(read_all(&self.directory)?.0)
    }

    pub fn broken(&self) -> Result<Vec<Broken>> {
        Ok(read_all(&self.directory)?.1)
    }

    pub fn others(&self, name: &str) -> Result<Vec<Record>> {
        Ok(self.all()?.into_iter().filter(|one| one.name != name).collect())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }

    pub fn write(&self, record: &Record) -> Result<()> {
        let file = self.file(&record.name);
        let text = serde_json::to_string_pretty(record)? + "\n";
        files::replace(&file, text.as_bytes())
    }

    pub fn remove(&self, name: &str) -> Result<()> {
        let file = self.file(name);
        files::remove_temporary(&file).and_then(|()| files::remove(&file))
    }

    /// What is left of the place where there is no record any more: hak may have been killed before the first.
    pub fn remove_if_empty(&self) {
        if fs::remove_dir(&self.directory).is_ok() {
            let _ = self.directory.parent().map(fs::remove_dir);
        }
    }

    pub fn holds(&self, directory: &Path) -> bool {
        self.directory.starts_with(directory)
    }

    /// Those that hak made and that have become empty; the others' are handed on to a record that is left.
    pub fn remove_directories(&self, directories: &[PathBuf]) -> Result<()> {
        let (mut left, mut failed) = (Vec::new(), None);
        for one in directories.iter().rev() {
            match fs::remove_dir(one) {
                Ok(()) => {}
                // What is no directory, a link to one say, has been put there by somebody else.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => {
                    left.insert(0, one.clone());
                    if error.kind() != io::ErrorKind::DirectoryNotEmpty {
                        failed.get_or_insert_with(|| cannot(one, &error));
                    }
                }
            }
        }
        self.hand_on(left)?;
        failed.map_or(Ok(()), Err)
    }

    fn hand_on(&self, mut left: Vec<PathBuf>) -> Result<()> {
        if left.is_empty() || !self.directory.exists() {
            return Ok(());
        }
        if let Some(mut heir) = self.all()?.into_iter().next() {
            left.retain(|one| !heir.directories.contains(one));
            heir.directories.splice(0..0, left);
            return self.write(&heir);
        }
        Ok(())
    }
}

/// A killed hak's; there is one at a time.
fn remove_unfinished(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(b".hak-install-") && name.ends_with(b".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Without a lock, to be shown; empty where nothing was ever installed. What cannot be read is no reason to be silent
/// about the others.
pub fn read_all(directory: &Path) -> Result<(Vec<Record>, Vec<Broken>)> {
    let (mut records, mut broken) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((records, broken)),
        entries => entries.map_err(|error| cannot(directory, &error))?,
    };
    for entry in entries {
        let path = entry.map_err(|error| cannot(directory, &error))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match read(&path) {
            Ok(record) => records.push(record),
            Err(reason) => broken.push(Broken { path, reason }),
        }
    }
    records.sort_by(|a, b| a.name.cmp(&b.name));
    broken.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((records, broken))
}

fn read(path: &Path) -> Result<Record, String> {
    // Nothing that has to be waited for.
    if !path.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".into());
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    // What a newer one looks like need not be known to say that it is.
    let its: Versioned = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if its.version > VERSION {
        return Err("a newer hak has written it".into());
    }
    let record: Record = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if path.file_stem().is_none_or(|its| its != record.name.as_str()) {
        return Err(format!("it is that of {}", record.name));
    }
    if record.changes.iter().any(|change| !change.path().is_absolute() || change.path().file_name().is_none()) {
        return Err("it names a file that is not absolute".into());
    }
    Ok(record)
}
