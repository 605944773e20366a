// SPDX-License-Identifier: MIT
//! The changes themselves: made in their order, and taken back in the other.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flate2::Crc;
use serde::{Deserialize, Serialize};

use crate::failure::{BAD_INPUT, failure};
use crate::install::files;
use crate::install::records::{Record, Records};

/// One change of one file, with what is needed to take it back.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A file of hak's own. Several installations may share it.
    Made { path: PathBuf, bytes: u64, crc: u32 },
    /// A text at the end of a file, which need not have been there.
    Added { path: PathBuf, text: String, made: bool },
}

/// A change with what only making it needs.
pub struct Step {
    pub change: Change,
    content: Vec<u8>,
    mode: u32,
    /// The same file of another installation does.
    may_be_there: bool,
}

/// What there was to take back in a file.
#[derive(PartialEq)]
enum Back {
    Nothing,
    Done(&'static str),
    Left(&'static str),
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

impl Step {
    pub fn make(path: PathBuf, content: Vec<u8>, mode: u32) -> Step {
        let change = Change::Made { path, bytes: content.len() as u64, crc: crc(&content) };
        Step { change, content, mode, may_be_there: false }
    }

    pub fn share(path: PathBuf, content: Vec<u8>, mode: u32) -> Step {
        Step { may_be_there: true, ..Step::make(path, content, mode) }
    }

    /// Lines at the end of a file, which is made if it is missing.
    pub fn add(path: PathBuf, lines: &str) -> Result<Step> {
        let bad = |reason: &str| failure(BAD_INPUT, format!("{}: {reason}", path.display()));
        let (old, made) = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), true),
            Err(error) => return Err(bad(&error.to_string())),
            Ok(its) if its.is_symlink() => return Err(bad("it is a link: name the file that it leads to")),
            Ok(its) if !its.is_file() => return Err(bad("it is not a regular file")),
            Ok(its) => match files::not_rewritten(&path, &its) {
                Some(reason) => return Err(bad(&format!("it {reason}"))),
                None => (fs::read(&path).map_err(|error| bad(&error.to_string()))?, false),
            },
        };
        let newline = if old.is_empty() || old.ends_with(b"\n") { "" } else { "\n" };
        let text = format!("{newline}{lines}");
        let change = Change::Added { path, text, made };
        Ok(Step { change, content: old, mode: 0o644, may_be_there: false })
    }

    fn carry_out(&self) -> Result<()> {
        let path = self.change.path();
        match &self.change {
            Change::Made { .. } if self.is_there() => Ok(()),
            Change::Made { .. } => files::make(path, &self.content, self.mode),
            Change::Added { text, made: true, .. } => files::make(path, text.as_bytes(), self.mode),
            Change::Added { text, .. } => {
                files::change(path, &self.content, &[self.content.as_slice(), text.as_bytes()].concat())
            }
        }
    }

    /// With the rights that it would be made with: others may have to read it.
    fn is_there(&self) -> bool {
        let path = self.change.path();
        let allowed = |its: fs::Metadata| its.mode() & self.mode == self.mode;
        self.may_be_there
            && fs::read(path).is_ok_and(|its| its == self.content)
            && fs::metadata(path).is_ok_and(allowed)
    }

    /// Nothing of somebody else's is in the way.
    pub fn look(&self) -> Result<()> {
        let path = self.change.path();
        let adds = matches!(self.change, Change::Added { made: false, .. });
        if !adds && !self.is_there() && fs::symlink_metadata(path).is_ok() {
            let message = format!("{} is there already, and is not replaced", path.display());
            return Err(failure(BAD_INPUT, message));
        }
        Ok(())
    }
}

impl Change {
    pub fn path(&self) -> &Path {
        match self {
            Change::Made { path, .. } | Change::Added { path, .. } => path,
        }
    }

    fn is_library(&self) -> bool {
        matches!(self, Change::Made { path, .. } if path.extension().is_some_and(|its| its == "so"))
    }

    pub fn says(&self) -> &'static str {
        match self {
            Change::Made { .. } | Change::Added { made: true, .. } => "makes",
            Change::Added { .. } => "adds to",
        }
    }

    /// `library`: what the file may not name afterwards.
    fn take_back(&self, really: bool, library: Option<&str>) -> Result<Back> {
        let path = self.path();
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Back::Nothing),
            _ if really => files::remove_temporary(path)?,
            _ => {}
        }
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Back::Nothing),
            Err(error) => return files::at(path, Err(error)),
            Ok(its) if !its.is_file() => return Ok(Back::Left("is no file of hak's any more")),
            Ok(its) => {
                let reason = files::not_rewritten(path, &its);
                if let (Change::Added { .. }, Some(reason)) = (self, reason) {
                    return Ok(Back::Left(reason));
                }
            }
        }
        let now = files::at(path, fs::read(path))?;
        match self {
            Change::Made { bytes, crc: its, .. } if now.len() as u64 != *bytes || crc(&now) != *its => {
                Ok(Back::Left("was changed since"))
            }
            Change::Made { .. } => {
                if really {
                    files::remove(path)?;
                }
                Ok(Back::Done("removes"))
            }
            Change::Added { text, made, .. } => {
                // The newline before it is left to whoever has added something since.
                let at_end = now.ends_with(text.as_bytes());
                let found = [text.as_str(), text.trim_start()]
                    .into_iter()
                    .skip((!at_end).into())
                    .find_map(|text| Some((memchr::memmem::rfind(&now, text.as_bytes())?, text.len())));
                let Some((at, length)) = found else {
                    let named = memchr::memmem::find(&now, b"hakmem").is_some();
                    return Ok(if named { Back::Left("was changed, and still names hakmem") } else { Back::Nothing });
                };
                let rest = [&now[..at], &now[at + length..]].concat();
                let empty = *made && rest.is_empty();
                if really && empty {
                    files::remove(path)?;
                } else if really {
                    files::change(path, &now, &rest)?;
                }
                if library.is_some_and(|library| memchr::memmem::find(&rest, library.as_bytes()).is_some()) {
                    return Ok(Back::Left("names the library once more than hak added it"));
                }
                Ok(Back::Done(if empty { "removes" } else { "takes out of" }))
            }
        }
    }
}

/// Nothing of the kind is installed, nothing is in the way, and the record is there. No file is changed yet.
fn begin(records: &Records, record: &mut Record, steps: &[Step], undo: &dyn Fn(&str) -> String) -> Result<()> {
    if let Some(broken) = records.broken()?.iter().find(|one| one.names(&record.name)) {
        return Err(broken.error());
    }
    if let Some(other) = records.all()?.iter().find(|one| one.name == record.name || one.target == record.target) {
        let how = if other.whole { "installed already" } else { "half installed, as hak was interrupted" };
        let message = format!("{} is {how}: {} takes it back", other.target, undo(&other.name));
        return Err(failure(BAD_INPUT, message));
    }
    for step in steps {
        step.look()?;
        let missing = files::missing_directories(step.change.path());
        let new: Vec<_> = missing.into_iter().filter(|one| !record.directories.contains(one)).collect();
        record.directories.extend(new);
    }
    let written = records.write(record);
    if written.is_err() {
        let _ = records.remove(&record.name);
    }
    written
}

/// `look` is asked before each change and after all of them; if it fails, everything is taken back. `undo` is the command
/// that takes back what is installed under a name.
pub fn carry_out(
    records: &Records,
    name: &str,
    target: &str,
    steps: &[Step],
    look: &dyn Fn(Option<&Change>) -> Result<()>,
    undo: &dyn Fn(&str) -> String,
) -> Result<()> {
    let mut record = Record::new(name, target, steps.iter().map(|step| step.change.clone()).collect());
    record.directories.clone_from(&records.made);
    if let Err(error) = begin(records, &mut record, steps, undo) {
        records.made.iter().rev().for_each(|one| drop(fs::remove_dir(one)));
        return Err(error);
    }
    let done = (|| {
        for step in steps {
            look(Some(&step.change))?;
            for one in files::missing_directories(step.change.path()) {
                files::make_directory(&one)?;
            }
            step.carry_out()?;
        }
        look(None)?;
        records.write(&Record { whole: true, ..record.clone() })
    })();
    let Err(error) = done else {
        return Ok(());
    };
    let code = crate::failure::code_of(&error);
    match take_back(records, &record, true, &mut |_| {}) {
        Ok(true) => Err(failure(code, format!("{error:#}; nothing stays changed"))),
        Ok(false) => Err(failure(code, format!("{error:#}; not all of it could be taken back: {}", undo(name)))),
        Err(other) => {
            let message = format!("{error:#}; and taking it back failed: {other:#}; try {}", undo(name));
            Err(failure(code, message))
        }
    }
}

/// Whether nothing of it is left. The record stays as long as something is.
pub fn take_back(records: &Records, record: &Record, really: bool, say: &mut dyn FnMut(String)) -> Result<bool> {
    let others = records.others(&record.name)?;
    let shared = |path: &Path| others.iter().any(|one| one.changes.iter().any(|change| change.path() == path));
    let broken = records.broken()?;
    let library = record.changes.iter().find(|change| change.is_library());
    let library = library.and_then(|change| change.path().file_name()?.to_str());
    let mut nothing_left = true;
    for change in record.changes.iter().rev() {
        let path = change.path();
        if matches!(change, Change::Made { .. }) && shared(path) {
            say(format!("leaves   {} (others use it)", path.display()));
            continue;
        }
        // Only this record may know of it in the end.
        if let (true, Some(one)) = (change.is_library(), broken.first()) {
            nothing_left = false;
            say(format!("leaves   {}: what {} tells of may load it", path.display(), one.path.display()));
            continue;
        }
        // It is the first that was made: what is left of the others may name it, and would complain if it were gone.
        if !nothing_left && change.is_library() {
            say(format!("leaves   {} (what is left may load it)", path.display()));
            continue;
        }
        match change.take_back(really, library) {
            Ok(Back::Nothing) => {}
            Ok(Back::Done(what)) => say(format!("{what:8} {}", path.display())),
            Err(error) => {
                nothing_left = false;
                let (path, error) = (path.display().to_string(), error.to_string());
                let reason = error.strip_prefix(&format!("{path}: ")).unwrap_or(&error);
                say(format!("leaves   {path}: {reason}"));
            }
            Ok(Back::Left(reason)) => {
                nothing_left = false;
                say(format!("leaves   {}: it {reason}", path.display()));
            }
        }
    }
    if really && nothing_left {
        let (last, first): (Vec<_>, Vec<_>) =
            record.directories.iter().cloned().partition(|directory| records.holds(directory));
        // While the record is there; those that hold it have to wait.
        for one in first.iter().rev() {
            let _ = fs::remove_dir(one);
        }
        records.remove(&record.name)?;
        let left = first.into_iter().filter(|one| one.exists());
        records.remove_directories(&last.into_iter().chain(left).collect::<Vec<_>>())?;
    }
    Ok(nothing_left)
}
