// SPDX-License-Identifier: MIT
//! Writes what was asked for to where it was asked for.
//!
//! A regular file is replaced in one step: a reader sees the old one or the new one. Links are followed. What is
//! no regular file, such as a device or a FIFO, is written in place. No directory is made here. What cannot be
//! written is an error with a reason, and known before the measurement if it can be.

use std::fmt::Display;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use rustix::fs::{Access, access, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;
use tempfile::NamedTempFile;

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};

/// The kernel follows as many (MAXSYMLINKS).
const MOST_LINKS: usize = 40;

#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    Standard,
    /// A regular file, which is there or can be.
    Whole(PathBuf),
    /// A device, a FIFO, an open file of a process, or a file whose directory takes no new ones.
    InPlace(PathBuf),
}

impl Output {
    /// Of a name as it is given on the command line; `-` is standard output.
    pub fn of(name: &Path) -> Result<Output> {
        let bad = |reason: &dyn Display| failure(BAD_INPUT, cannot_write(&name.display(), reason));
        let output = match name {
            _ if name == Path::new("-") => Output::Standard,
            _ => match follow(name).map_err(|error| bad(&error))? {
                Output::Whole(path) if is_anothers(&path) => Output::InPlace(path),
                output => output,
            },
        };
        match &output {
            Output::Standard => {
                check_standard().map_err(|error| failure(BAD_INPUT, cannot_write(&Output::Standard, &error)))?;
            }
            Output::InPlace(path) => access(path, Access::WRITE_OK).map_err(|error| bad(&io::Error::from(error)))?,
            Output::Whole(path) if path.is_dir() => return Err(bad(&"it is a directory")),
            Output::Whole(path) => match new_file_beside(path) {
                Err(_) if path.exists() && access(path, Access::WRITE_OK).is_ok() => {
                    return Ok(Output::InPlace(path.clone()));
                }
                made => drop(made.map_err(|error| bad(&error))?),
            },
        }
        Ok(output)
    }

    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let failed = |error: io::Error| failure(SOMETHING_FAILED, cannot_write(self, &error));
        match self {
            Output::Standard => return print_bytes(bytes),
            Output::Whole(path) => replace(path, bytes),
            Output::InPlace(path) => write_in_place(path, bytes),
        }
        .map_err(failed)
    }

    /// Whether it can be written again and then holds the new text alone.
    pub fn can_be_replaced(&self) -> bool {
        matches!(self, Output::Whole(_))
    }
}

/// Whether it is what a program that hak starts writes to as well: standard output or standard error, by whatever name.
/// Where nothing comes of what is written, as in /dev/null, that does no harm.
pub fn is_also_the_programs(output: &Output) -> bool {
    let (Output::Whole(path) | Output::InPlace(path)) = output else {
        return true;
    };
    let Ok(its) = fs::metadata(path) else {
        return false;
    };
    let is_it = |stream: BorrowedFd| {
        let is_same = fstat(stream).is_ok_and(|one| (one.st_dev, one.st_ino) == (its.dev(), its.ino()));
        is_same && (!its.file_type().is_char_device() || stream.is_terminal())
    };
    is_it(io::stdout().as_fd()) || is_it(io::stderr().as_fd())
}

impl Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Output::Standard => f.write_str("standard output"),
            Output::Whole(path) | Output::InPlace(path) => path.display().fmt(f),
        }
    }
}

/// A regular file, by whatever name; one that is not there yet, by its own.
#[derive(PartialEq)]
enum Place {
    Standard,
    There(u64, u64),
    New(PathBuf),
}

impl Place {
    fn of(output: &Output) -> Option<Place> {
        let (Output::Whole(path) | Output::InPlace(path)) = output else {
            return Some(Place::Standard);
        };
        Place::of_file(path).or_else(|| {
            let directory = directory_of(path).canonicalize().ok()?;
            (!path.exists()).then(|| Place::New(directory.join(path.file_name().unwrap_or_default())))
        })
    }

    fn of_file(path: &Path) -> Option<Place> {
        let metadata = fs::metadata(path).ok()?;
        metadata.is_file().then(|| Place::There(metadata.dev(), metadata.ino()))
    }
}

/// Refuses what would be lost: one of two outputs that are the same file, and a file that is read, or run.
pub fn keep_apart<'a>(
    outputs: impl IntoIterator<Item = &'a Output>,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let read: Vec<Place> = read.into_iter().filter_map(Place::of_file).collect();
    let mut seen = Vec::new();
    for output in outputs {
        let Some(place) = Place::of(output) else {
            continue;
        };
        if read.contains(&place) {
            return Err(failure(BAD_INPUT, cannot_write(output, &"it is what is read, or run")));
        }
        if seen.contains(&place) {
            return Err(failure(BAD_INPUT, format!("only one file can be {output}")));
        }
        seen.push(place);
    }
    Ok(())
}

fn cannot_write(what: &dyn Display, reason: &dyn Display) -> String {
    format!("cannot write {what}: {reason}")
}

/// To where a name leads. Links in /proc stand for open files and are not names of anything: what they lead to
/// is written through them.
fn follow(name: &Path) -> io::Result<Output> {
    let mut path = name.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Output::Whole(path)),
            Err(error) => return Err(error),
            Ok(metadata) if metadata.is_symlink() => {
                let directory = directory_of(&path).canonicalize()?;
                if directory.starts_with("/proc") {
                    let own = Path::new("/proc").join(std::process::id().to_string()).join("fd/1");
                    let is_standard = directory.join(path.file_name().unwrap_or_default()) == own;
                    return Ok(if is_standard { Output::Standard } else { Output::InPlace(path) });
                }
                path = directory.join(fs::read_link(&path)?);
            }
            Ok(metadata) if metadata.is_file() || metadata.is_dir() => return Ok(Output::Whole(path)),
            Ok(_) => return Ok(Output::InPlace(path)),
        }
    }
    Err(Errno::LOOP.into())
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Another user's file, in a directory in which only its owner may replace a file (sticky(7)).
fn is_anothers(path: &Path) -> bool {
    let (Ok(file), Ok(directory)) = (fs::symlink_metadata(path), fs::metadata(directory_of(path))) else {
        return false;
    };
    let own = geteuid();
    let is_ours = |owner: u32| own.is_root() || owner == own.as_raw();
    file.is_file() && directory.mode() & libc::S_ISVTX != 0 && !is_ours(file.uid()) && !is_ours(directory.uid())
}

fn new_file_beside(path: &Path) -> io::Result<NamedTempFile> {
    // As any new file, with what the user's umask leaves.
    let permissions = Permissions::from_mode(0o666);
    tempfile::Builder::new()
        .prefix(".hak-")
        .suffix(".tmp")
        .permissions(permissions)
        .tempfile_in(directory_of(path))
        .map_err(without_path)
}

/// The error also names the temporary file, which tells the user nothing.
fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    io::Error::other(text.split_once(" at path ").map_or(text.clone(), |(reason, _)| reason.to_owned()))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = new_file_beside(path)?;
    file.write_all(bytes).map_err(without_path)?;
    if let Ok(old) = fs::metadata(path) {
        // Who may not give it away keeps it.
        let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
        file.as_file().set_permissions(old.permissions())?;
    }
    // Or a power cut could leave the new name with nothing in it.
    file.as_file().sync_data()?;
    match file.persist(path) {
        // Something is mounted there, or the directory keeps others' files: the name stays, the text is a new one.
        Err(error) if [Errno::BUSY, Errno::PERM].contains(&errno_of(&error.error)) => {
            write_in_place(path, bytes).map_err(|_| error.error)
        }
        persisted => persisted.map(drop).map_err(|error| error.error),
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// What others have written to an open file stays; a file by its own name gets a new text.
fn write_in_place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    if fs::symlink_metadata(path)?.is_file() {
        options.write(true).truncate(true);
    } else {
        options.append(true);
    }
    options.open(path)?.write_all(bytes)
}

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_closed() {
    // SAFETY: it takes a number and changes nothing.
    IS_CLOSED.store(unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0, Ordering::Relaxed);
}

/// The C library calls it before std puts /dev/null in the place of what is closed.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// An error if standard output was closed when hak was started.
pub fn check_standard() -> io::Result<()> {
    if IS_CLOSED.load(Ordering::Relaxed) { Err(Errno::BADF.into()) } else { Ok(()) }
}

/// To standard output. A closed pipe and a full disk are errors like any other. Names in it may be anybody's.
pub fn print(text: &str) -> Result<()> {
    print_bytes(shown_safely(text).as_bytes())
}

/// What has colours, and names that were made safe.
pub fn print_coloured(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = check_standard().and_then(|()| out.write_all(bytes)).and_then(|()| out.flush());
    written.map_err(|error| cannot_print(&error))
}

pub fn cannot_print(error: &io::Error) -> anyhow::Error {
    failure(SOMETHING_FAILED, cannot_write(&Output::Standard, error))
}

/// A line to standard error. Where that is closed there is nobody to tell it. Names and values in it may be anybody's.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", shown_safely(&line.to_string()));
}

/// Without what a terminal would obey, but for the ends of lines and tabulators.
pub fn shown_safely(text: &str) -> String {
    without_controls(text, "\n\t")
}

pub fn without_controls(text: &str, but: &str) -> String {
    let shown = |letter: char| if letter.is_control() && !but.contains(letter) { '?' } else { letter };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, text: &str) {
        Output::of(path).unwrap().write(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_file_is_replaced_and_keeps_its_rights() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        write(&file, "new");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&file).unwrap().ino();
        write(&file, "newer");
        assert_eq!(fs::read_to_string(&file).unwrap(), "newer");
        let after = fs::metadata(&file).unwrap();
        assert_ne!(after.ino(), before, "it is another file");
        assert_eq!(after.permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn links_stay_links_also_those_to_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("d")).unwrap();
        symlink("d/target", path("inner")).unwrap();
        symlink(path("inner"), path("outer")).unwrap();
        for text in ["first", "second"] {
            write(&path("outer"), text);
            assert!(fs::symlink_metadata(path("outer")).unwrap().is_symlink());
            assert!(fs::symlink_metadata(path("inner")).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(path("d/target")).unwrap(), text);
        }
        symlink("round", path("round")).unwrap();
        let error = Output::of(&path("round")).unwrap_err().to_string();
        assert!(error.contains("Too many levels of symbolic links"), "{error}");
    }

    #[test]
    fn no_directory_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let error = Output::of(&directory.path().join("no/file")).unwrap_err().to_string();
        assert!(error.ends_with("/no/file: No such file or directory (os error 2)"), "{error}");
        assert!(!directory.path().join("no").exists());
        let error = Output::of(directory.path()).unwrap_err().to_string();
        assert!(error.ends_with("it is a directory"), "{error}");
    }

    #[test]
    fn outputs_are_kept_apart_by_whatever_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let output = |name: &str| Output::of(&path(name)).unwrap();
        write(&path("there"), "text");
        symlink("there", path("link")).unwrap();
        let none: [&Path; 0] = [];
        for (one, other, apart) in [
            ("there", "new", true),
            ("there", "there", false),
            ("there", "link", false),
            ("new", "./new", false),
            ("new", "newer", true),
        ] {
            assert_eq!(keep_apart([&output(one), &output(other)], none).is_ok(), apart, "{one} and {other}");
        }
        let null = Output::of(Path::new("/dev/null")).unwrap();
        assert!(keep_apart([&null, &null], none).is_ok());
        let error = keep_apart([&Output::Standard, &Output::Standard], none).unwrap_err().to_string();
        assert_eq!(error, "only one file can be standard output");
        let error = keep_apart([&output("link")], [path("there").as_path()]).unwrap_err().to_string();
        assert!(error.ends_with("it is what is read, or run"), "{error}");
        assert!(keep_apart([&output("new")], [path("there").as_path(), Path::new("/no/such")]).is_ok());
    }

    #[test]
    fn the_names_of_standard_output_are_known() {
        for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert_eq!(Output::of(Path::new(name)).unwrap(), Output::Standard, "{name}");
        }
        assert_eq!(Output::of(Path::new("/dev/null")).unwrap(), Output::InPlace("/dev/null".into()));
    }
}
