// SPDX-License-Identifier: MIT
//! Files that the tool has not made. What lies under a name may be anything: who opens a FIFO waits for a writer, and a
//! device may never end.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use rustix::fs::OFlags;

use crate::trace;
use crate::trace::write::MAGIC;

/// Of a name that nobody has given: one that was found, or follows from another. It is looked at once it is open, so
/// that nothing else can come in its place; that opening does not wait says O_NONBLOCK.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

/// A directory itself, and not what a link leads to.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Not `fs::write`, which would make a file where there is none.
pub fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

pub fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: whoever writes to programs' files and their symbols while they are in use breaks more than this.
    unsafe { Mmap::map(file) }
}

/// Of a text, at a time.
const PIECE: u64 = 1 << 20;

fn refuse_device(kind: FileType) -> io::Result<()> {
    if kind.is_block_device() || kind.is_char_device() { Err(io::Error::other("it is a device")) } else { Ok(()) }
}

/// A file that is opened more than once, of a name that the user has given, who may mean a pipe: that is copied first, to a
/// file without a name, which is gone with hak however it ends.
pub struct Whole {
    name: PathBuf,
    copy: Option<File>,
}

impl Whole {
    pub fn of(name: &Path) -> io::Result<Whole> {
        let kind = fs::metadata(name)?.file_type();
        refuse_device(kind)?;
        let mut copy = None;
        if kind.is_fifo() || kind.is_socket() {
            io::copy(&mut File::open(name)?, copy.insert(tempfile::tempfile()?))?;
        }
        Ok(Whole { name: name.into(), copy })
    }

    /// At its beginning.
    pub fn open(&self) -> io::Result<File> {
        match &self.copy {
            Some(copy) => File::open(format!("/proc/self/fd/{}", copy.as_raw_fd())),
            None => File::open(&self.name),
        }
    }

    pub fn name(&self) -> &Path {
        &self.name
    }
}

/// Of a name that the user has given, who may mean a pipe; of a device, no text would ever be whole.
pub fn text(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    refuse_device(file.metadata()?.file_type())?;
    let mut text = Vec::new();
    // The one kind of file that hak writes and that is no text: it may be large, and is known by its beginning.
    (&mut file).take(MAGIC.len() as u64).read_to_end(&mut text)?;
    if trace::read::is_trace(&text) {
        return Err(io::Error::other("it is a trace of hak trace, which hak explain and hak replay read"));
    }
    // A file that was meant for another command may be larger than the memory, and is none after the first piece.
    let (mut checked, mut is_whole) = (0, false);
    while !is_whole {
        is_whole = (&mut file).take(PIECE).read_to_end(&mut text)? == 0;
        let piece = &text[checked..];
        if memchr::memchr(0, piece).is_some() {
            return Err(io::Error::other("it is no text: it has a byte of 0"));
        }
        checked += match str::from_utf8(piece) {
            Ok(_) => piece.len(),
            // The end of a letter is in the next piece.
            Err(error) if error.error_len().is_none() && !is_whole => error.valid_up_to(),
            Err(_) => return Err(io::Error::other("it is no text in UTF-8")),
        };
    }
    String::from_utf8(text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_not_opened_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "its text").unwrap();
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        assert_eq!(io::read_to_string(open_regular(&path("file")).unwrap()).unwrap(), "its text");
        for other in [path("fifo"), directory.path().into(), "/dev/zero".into()] {
            assert_eq!(open_regular(&other).unwrap_err().to_string(), "it is no regular file", "{other:?}");
        }
        assert_eq!(open_regular(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_comes_through_a_pipe_can_be_read_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "its text").unwrap();
        assert_eq!(io::read_to_string(Whole::of(&path("file")).unwrap().open().unwrap()).unwrap(), "its text");
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        let mut writer = Command::new("sh").args(["-c", "echo its text > \"$0\""]).arg(path("fifo")).spawn().unwrap();
        let whole = Whole::of(&path("fifo")).unwrap();
        for _ in 0..2 {
            assert_eq!(io::read_to_string(whole.open().unwrap()).unwrap(), "its text\n");
        }
        writer.wait().unwrap();
        assert_eq!(whole.name(), path("fifo"));
        assert!(Whole::of(Path::new("/dev/zero")).is_err());
        assert!(Whole::of(&path("none")).is_err());
    }

    /// Of 1 TiB, more than any memory.
    #[test]
    fn of_what_is_no_text_hardly_anything_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        assert_eq!(text(file.path()).unwrap_err().to_string(), "it is no text: it has a byte of 0");
    }

    #[test]
    fn a_text_may_come_through_a_pipe_and_not_from_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut writer = Command::new("sh").args(["-c", "echo its text > \"$0\""]).arg(&fifo).spawn().unwrap();
        assert_eq!(text(&fifo).unwrap(), "its text\n");
        writer.wait().unwrap();
        assert_eq!(text(Path::new("/dev/zero")).unwrap_err().to_string(), "it is a device");
        let text_of = |bytes: &[u8]| {
            std::fs::write(directory.path().join("file"), bytes).unwrap();
            text(&directory.path().join("file")).map_err(|error| error.to_string())
        };
        assert!(text_of(MAGIC).unwrap_err().contains("it is a trace of hak trace"));
        assert_eq!(text_of(&MAGIC[..12]).unwrap(), "hakmem trace");
        assert_eq!(text_of(b"a text that is longer than that").unwrap(), "a text that is longer than that");
        let no_text = "it is no text in UTF-8";
        assert_eq!(text_of(b"gr\xFC\xDFe").unwrap_err(), no_text);
        assert_eq!(text_of("grü".as_bytes()).unwrap(), "grü");
        assert_eq!(text_of(b"gr\xC3").unwrap_err(), no_text);
        // A letter that two pieces have.
        for before in PIECE as usize + MAGIC.len() - 2..PIECE as usize + MAGIC.len() + 2 {
            let long = "x".repeat(before) + "ü";
            assert!(text_of(long.as_bytes()).unwrap() == long, "{before}");
            assert_eq!(text_of(&long.as_bytes()[..=before]).unwrap_err(), no_text, "{before}");
        }
    }
}
