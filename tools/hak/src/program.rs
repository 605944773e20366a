// SPDX-License-Identifier: MIT
//! Decides, before a program is started, whether a preloaded library can serve it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::elf::{self, Elf};
use crate::env_command;
use crate::failure::{CANNOT_RUN, NOT_FOUND, failure};
use crate::output;

/// The kernel follows at most this many `#!` lines (BINPRM_MAX_RECURSION).
const MAX_INTERPRETERS: usize = 5;

/// What serves a program with memory.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// What is preloaded.
    Preloaded,
    /// Its own malloc, whatever is preloaded.
    Own(Own),
}

/// A program, or its interpreter, that has its malloc in its own executable.
#[derive(Debug, PartialEq, Eq)]
pub struct Own {
    file: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hakmem,
    Static,
    Malloc,
}

impl Own {
    pub fn is_hakmem(&self) -> bool {
        self.kind == Kind::Hakmem
    }

    /// Why it cannot be compared, and how it could be.
    pub fn says(&self) -> String {
        let (reason, instead) = match self.kind {
            Kind::Hakmem => ("is linked with libhakmem.a, which goes before a preloaded allocator", "without it"),
            Kind::Static => ("is statically linked, so nothing can be preloaded", "dynamically"),
            Kind::Malloc => ("brings its own malloc, which goes before a preloaded one", "without it"),
        };
        format!("{} {reason}: it is measured only as shipped. Linked {instead}, it can be compared.", self.file)
    }

    fn refused(&self) -> anyhow::Error {
        let reason = match self.kind {
            Kind::Hakmem | Kind::Malloc => "it brings its own malloc, which goes before a preloaded one",
            Kind::Static => "it is statically linked, so nothing can be preloaded; link it with libhakmem.a instead",
        };
        failure(CANNOT_RUN, format!("cannot serve {}: {reason}", self.file))
    }
}

/// Finds the command as `execvp` would, and refuses it if neither hakmem's `library` nor libhakmem.a serves it.
pub fn check(command: &OsStr, library: &Elf) -> Result<Way> {
    check_along(command, library, &own_path())
}

/// The same where the program gets another PATH than hak has, along which it is looked for then.
pub fn check_along(command: &OsStr, library: &Elf, path: &OsStr) -> Result<Way> {
    match check_file(&find_along(command, path)?, &Search { library, path }, MAX_INTERPRETERS)? {
        Way::Own(own) if !own.is_hakmem() => Err(own.refused()),
        way => Ok(way),
    }
}

/// The same of a program that is started right away: one that may be executed but not read is so without being looked at.
pub fn check_to_start(command: &OsStr, library: &Elf, path: &OsStr) -> Result<Way> {
    let found = find_along(command, path)?;
    if access(&found, Access::READ_OK) != Err(Errno::ACCESS) {
        return check_along(command, library, path);
    }
    refuse_gained_rights(&found)?;
    let shown = found.display();
    output::say(format_args!("hak: {shown} may not be read, so hak cannot tell whether hakmem can serve it"));
    Ok(Way::Preloaded)
}

/// The same for any allocator that is preloaded. A program with a malloc of its own is not refused.
pub fn check_for_comparison(command: &OsStr, library: &Elf) -> Result<Way> {
    check_file(&find(command)?, &Search { library, path: &own_path() }, MAX_INTERPRETERS)
}

/// What serves it, and where it and what env(1) starts are looked for.
struct Search<'a> {
    library: &'a Elf,
    path: &'a OsStr,
}

/// Without one, the C library's own.
pub fn own_path() -> OsString {
    env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into())
}

/// The file that `execvp` would start.
pub fn find(command: &OsStr) -> Result<PathBuf> {
    find_along(command, &own_path())
}

fn find_along(command: &OsStr, path: &OsStr) -> Result<PathBuf> {
    let shown = command.display();
    match which::which_in(command, Some(path), env::current_dir().unwrap_or_default()) {
        Ok(path) => Ok(path),
        Err(_) if command.as_bytes().contains(&b'/') && Path::new(command).is_dir() => {
            Err(failure(CANNOT_RUN, format!("{shown} is a directory")))
        }
        Err(_) if command.as_bytes().contains(&b'/') && Path::new(command).exists() => {
            Err(failure(CANNOT_RUN, format!("{shown} is not executable")))
        }
        Err(_) if command.as_bytes().contains(&b'/') => Err(not_seen(command)),
        Err(_) if command.is_empty() => Err(failure(NOT_FOUND, "the name of the program is empty")),
        Err(_) => Err(failure(NOT_FOUND, format!("no such program: {shown}"))),
    }
}

/// It may be there: links that lead in a circle, or a directory that may not be searched, hide it.
fn not_seen(path: &OsStr) -> anyhow::Error {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) if ![ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            failure(CANNOT_RUN, format!("{shown}: {error}"))
        }
        _ => failure(NOT_FOUND, format!("no such program: {shown}")),
    }
}

fn check_file(path: &Path, search: &Search, interpreters_left: usize) -> Result<Way> {
    match elf::read(path)? {
        Some(program) => check_elf(path, &program, search.library),
        None => check_script(path, search, interpreters_left),
    }
}

fn refused(path: &Path, reason: &str) -> anyhow::Error {
    failure(CANNOT_RUN, format!("cannot serve {}: {reason}", path.display()))
}

fn refuse_gained_rights(path: &Path) -> Result<()> {
    match gains_rights(path)? {
        Some(reason) => {
            Err(refused(path, &format!("{reason}, and the dynamic linker ignores LD_PRELOAD for such programs")))
        }
        None => Ok(()),
    }
}

fn check_elf(path: &Path, program: &Elf, library: &Elf) -> Result<Way> {
    let refuse = |reason: String| Err(refused(path, &reason));
    if (program.bits, program.machine) != (library.bits, library.machine) {
        return refuse(format!(
            "it is a {}-bit {} program, and the library is for {}-bit {}",
            program.bits,
            elf::machine_name(program.machine),
            library.bits,
            elf::machine_name(library.machine),
        ));
    }
    let Some(interpreter) = &program.interpreter else {
        if is_glibc_loader(&path.canonicalize()?) {
            return Ok(Way::Preloaded); // started as a program; it honours LD_PRELOAD
        }
        return own(path, Kind::Static);
    };
    if !is_glibc_loader(Path::new(interpreter)) {
        let libc = if interpreter.contains("musl") { "musl" } else { "another C library" };
        return refuse(format!("it is built for {libc} (its loader is {interpreter}), and the library needs glibc"));
    }
    if !Path::new(interpreter).exists() {
        return refuse(format!("its loader {interpreter} is missing"));
    }
    refuse_gained_rights(path)?;
    if program.defines_malloc {
        return own(path, Kind::Malloc);
    }
    if let Some(sanitizer) = &program.sanitizer {
        return refuse(format!(
            "it is built with a sanitizer, whose library {sanitizer} brings its own malloc and has to be loaded before \
             anything else; build it without -fsanitize"
        ));
    }
    Ok(Way::Preloaded)
}

fn own(path: &Path, kind: Kind) -> Result<Way> {
    let kind = if elf::contains_hakmem(path)? { Kind::Hakmem } else { kind };
    Ok(Way::Own(Own { file: path.display().to_string(), kind }))
}

fn is_glibc_loader(loader: &Path) -> bool {
    let name = loader.file_name().unwrap_or_default().as_bytes();
    [&b"ld-linux"[..], b"ld64.so", b"ld.so"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether starting the file changes whose rights it has, as the kernel decides for AT_SECURE.
pub fn gains_rights(path: &Path) -> Result<Option<String>> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let mode = metadata.permissions().mode();
    if mode & 0o4000 != 0 && metadata.uid() != uid.as_raw() {
        return Ok(Some("it is set-uid to another user".into()));
    }
    // Without the group's right to execute, the bit once meant mandatory locking.
    if mode & 0o2010 == 0o2010 && metadata.gid() != gid.as_raw() {
        return Ok(Some("it is set-gid to another group".into()));
    }
    let mut capabilities = [0u8; 64];
    let has_capabilities = rustix::fs::getxattr(path, "security.capability", &mut capabilities[..]).is_ok();
    if has_capabilities && !uid.is_root() {
        return Ok(Some("it has file capabilities".into()));
    }
    Ok(None)
}

/// Follows `#!` to the program that really runs. A text without it is run by sh, as execvp does.
fn check_script(path: &Path, search: &Search, interpreters_left: usize) -> Result<Way> {
    if interpreters_left == 0 {
        let message = format!("{}: too many interpreters of interpreters", path.display());
        return Err(failure(CANNOT_RUN, message));
    }
    let context = |what: &Path| format!("as the interpreter of {}: {}", path.display(), what.display());
    let Some((interpreter, argument)) = interpreter(path)? else {
        return check_file(Path::new("/bin/sh"), search, interpreters_left - 1);
    };
    let interpreter = interpreter.as_path();
    if !interpreter.exists() {
        let message = format!("{}: its interpreter {} is missing", path.display(), interpreter.display());
        return Err(failure(CANNOT_RUN, message));
    }
    let way = check_interpreter(interpreter, search, interpreters_left, &context)?;

    // `env` only hands over: what counts is what it starts.
    if is_env(interpreter) {
        let started = started_by_env(&argument);
        if let Some(lost) = started.lost {
            let message = format!("cannot serve {}: its first line takes LD_PRELOAD away ({lost})", path.display());
            return Err(failure(CANNOT_RUN, message));
        }
        if let Some(program) = started.command.first() {
            let program = find_along(OsStr::from_bytes(program), search.path)?;
            return check_interpreter(&program, search, interpreters_left, &context);
        }
    }
    Ok(way)
}

/// By its own name or that of what it is a link to.
pub fn is_env(program: &Path) -> bool {
    let named = |path: &Path| path.file_name() == Some(OsStr::new("env"));
    named(program) || program.canonicalize().is_ok_and(|path| named(&path))
}

/// The kernel gives it all that follows in a first line as one word.
fn started_by_env(argument: &str) -> env_command::Started {
    let split = |text: &str| Some(text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect());
    let words = if argument.is_empty() { Vec::new() } else { vec![argument.as_bytes().to_vec()] };
    env_command::started(&words, &split)
}

/// What a script's first line names, and what follows there. `None`: it has no such line, or is no script.
fn interpreter(path: &Path) -> Result<Option<(PathBuf, String)>> {
    Ok(first_line(path)?.strip_prefix(b"#!").and_then(named_in))
}

/// As the kernel reads it: other white space, such as the carriage return of a line from elsewhere, is part of a name.
fn named_in(line: &[u8]) -> Option<(PathBuf, String)> {
    let is_blank = |byte: &u8| b" \t".contains(byte);
    let start = line.iter().position(|byte| !is_blank(byte))?;
    let end = line.iter().rposition(|byte| !is_blank(byte))?;
    let line = &line[start..=end];
    let name = line.split(is_blank).next()?;
    Some((OsStr::from_bytes(name).into(), String::from_utf8_lossy(&line[name.len()..]).trim().to_owned()))
}

/// The files that the kernel and env(1) read a script with, and theirs, and whether one was looked for along PATH.
pub fn interpreters(script: &Path) -> Result<(Vec<PathBuf>, bool)> {
    let (mut all, mut searched) = (Vec::new(), false);
    let mut next = interpreter(script)?;
    while let (Some((file, argument)), true) = (next, all.len() <= 2 * MAX_INTERPRETERS) {
        let mut last = file.clone();
        all.push(file);
        if is_env(&last)
            && let Some(program) = started_by_env(&argument).command.first()
        {
            last = find(OsStr::from_bytes(program))?;
            searched |= !program.contains(&b'/');
            all.push(last.clone());
        }
        next = interpreter(&last)?;
    }
    Ok((all, searched))
}

fn check_interpreter(
    interpreter: &Path,
    search: &Search,
    interpreters_left: usize,
    context: &dyn Fn(&Path) -> String,
) -> Result<Way> {
    match check_file(interpreter, search, interpreters_left - 1) {
        Ok(Way::Own(own)) => Ok(Way::Own(Own { file: format!("{} ({})", own.file, context(interpreter)), ..own })),
        Err(error) => {
            let code = crate::failure::code_of(&error);
            Err(failure(code, format!("{error} ({})", context(interpreter))))
        }
        way => way,
    }
}

fn first_line(path: &Path) -> Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4096).read_to_end(&mut start))
        .with_context(|| format!("cannot read {}", path.display()))?;
    let end = start.iter().position(|&byte| byte == b'\n');
    start.truncate(end.unwrap_or(start.len()));
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_is_read_as_the_kernel_reads_it() {
        let read = |line: &[u8]| named_in(line).map(|(name, argument)| (name.into_os_string(), argument));
        let named = |name: &[u8], argument: &str| Some((OsStr::from_bytes(name).to_owned(), argument.to_owned()));
        assert_eq!(read(b"/bin/sh"), named(b"/bin/sh", ""));
        assert_eq!(read(b" \t/bin/sh \t-e -u "), named(b"/bin/sh", "-e -u"));
        assert_eq!(read(b"/\xff/sh x"), named(b"/\xff/sh", "x"));
        assert_eq!(read(b"/bin/sh\r"), named(b"/bin/sh\r", ""));
        assert_eq!((read(b""), read(b" \t")), (None, None), "that is none");
    }
}
