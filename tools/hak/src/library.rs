// SPDX-License-Identifier: MIT
//! Finds shared libraries: hakmem's own, and those that the system has.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::elf::{self, Elf};
use crate::failure::{BAD_INPUT, failure};
use crate::places::{self, Build};

/// The library that `given` names, else next to this program, installed beside it, of the build
/// tree, or known to the dynamic linker.
pub fn hakmem(given: Option<&Path>, build: Option<&Path>) -> Result<PathBuf> {
    let path = find_hakmem(given, build)?;
    if !describe(&path)?.defines_hakmem {
        let message = format!(
            "{} is not hakmem: it has no function hak_stats; a program is run under other allocators with \
             hak compare --allocator NAME={}",
            path.display(),
            path.display()
        );
        return Err(failure(BAD_INPUT, message));
    }
    Ok(path)
}

fn find_hakmem(given: Option<&Path>, build: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return usable(path);
    }
    if let Some(build) = build {
        return usable(&Build::find(Some(build)).library());
    }
    let mut tried = beside_this_program();
    tried.push(Build::find(None).library());
    if let Some(path) = tried.iter().find(|path| path.exists()) {
        return usable(path);
    }
    if let Some(path) = installed("libhakmem.so.0") {
        return usable(&path);
    }
    let tried: Vec<_> = tried.iter().map(|path| path.display().to_string()).collect();
    let message = format!(
        "cannot find libhakmem.so: neither at {}, nor known to the dynamic linker; name it with --library FILE",
        tried.join(", ")
    );
    Err(failure(BAD_INPUT, message))
}

fn beside_this_program() -> Vec<PathBuf> {
    let Some(own) = places::own_directory() else {
        return Vec::new();
    };
    let lib = own.join("../lib");
    vec![
        own.join("libhakmem.so"),
        lib.join("libhakmem.so"),
        lib.join(places::multiarch()).join("libhakmem.so"),
        own.join("../lib64/libhakmem.so"),
    ]
}

/// ld.so(8): the list is separated by spaces or colons, and what follows a $ may be expanded, as $LIB is; there is no way
/// of escaping them.
pub fn can_be_preloaded(path: &Path) -> bool {
    !path.to_string_lossy().contains([' ', ':', '$'])
}

/// What a value of LD_PRELOAD names beside hakmem: another one, of the session or of a wrapper that `hak install` has
/// made, would be a second allocator in the program.
pub fn others_preloaded(list: &OsStr) -> Vec<PathBuf> {
    let entries = list.as_bytes().split(|byte| b" :".contains(byte)).filter(|entry| !entry.is_empty());
    entries.map(|entry| PathBuf::from(OsStr::from_bytes(entry))).filter(|entry| !is_named_hakmem(entry)).collect()
}

/// As it is built, or as `hak install` names it.
fn is_named_hakmem(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    match name.strip_prefix(b"libhakmem") {
        Some([b'-', digit, ..]) => digit.is_ascii_digit(),
        Some(rest) => rest.starts_with(b".so"),
        None => false,
    }
}

/// The library's absolute path, if LD_PRELOAD can carry it.
pub fn usable(path: &Path) -> Result<PathBuf> {
    let bad = |reason: &str| failure(BAD_INPUT, format!("{}: {reason}", path.display()));
    let absolute = path.canonicalize().map_err(|error| bad(&error.to_string()))?;
    // Keep the name that was asked for: it is what a proof shows.
    let named = match (absolute.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.join(name).exists() => parent.join(name),
        _ => absolute,
    };
    if !can_be_preloaded(&named) {
        return Err(bad("a path with a space, a colon or a $ cannot be preloaded"));
    }
    describe(&named)?;
    Ok(named)
}

/// The library's ELF header, which programs are compared with.
pub fn describe(path: &Path) -> Result<Elf> {
    elf::read(path)?.ok_or_else(|| {
        let message = format!("{} is not a shared library", path.display());
        failure(BAD_INPUT, message)
    })
}

/// A library by its soname: in the usual directories, or in the dynamic linker's cache.
pub fn installed(soname: &str) -> Option<PathBuf> {
    let multiarch = places::multiarch();
    let usual = [
        format!("/usr/local/lib/{multiarch}"),
        "/usr/local/lib".into(),
        format!("/usr/lib/{multiarch}"),
        format!("/lib/{multiarch}"),
        "/usr/lib64".into(),
        "/usr/lib".into(),
    ];
    let found = usual.iter().map(|directory| Path::new(directory).join(soname)).find(|path| path.exists());
    found.or_else(|| in_cache(&linker_cache()?, soname))
}

fn linker_cache() -> Option<String> {
    let ldconfig = ["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"];
    let output =
        ldconfig.iter().find_map(|program| Command::new(program).arg("-p").stderr(Stdio::null()).output().ok())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A line reads `name (libc6,x86-64) => path`; the same name may be there for other architectures.
fn in_cache(cache: &str, soname: &str) -> Option<PathBuf> {
    let machine = elf::read(Path::new("/proc/self/exe")).ok()??.machine;
    cache.lines().find_map(|line| {
        let (name, path) = line.trim().split_once(" => ")?;
        let path = Path::new(path);
        let fits = name.split(' ').next() == Some(soname) && elf::read(path).ok()??.machine == machine;
        fits.then(|| path.to_path_buf())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_lines_are_matched_by_whole_name_and_architecture() {
        let libc = installed("libc.so.6").expect("the C library is installed");
        let cache =
            format!("\tlibc.so.6 (libc6) => /nowhere/libc.so.6\n\tlibc.so.6 (libc6,x86-64) => {}\n", libc.display());
        assert_eq!(in_cache(&cache, "libc.so.6"), Some(libc));
        assert_eq!(in_cache(&cache, "libc.so"), None);
    }

    #[test]
    fn of_what_is_preloaded_only_hakmem_is_left_out() {
        let others = |list: &str| others_preloaded(OsStr::new(list));
        let none: [PathBuf; 0] = [];
        assert_eq!(others(""), none);
        assert_eq!(others("/a/libhakmem.so::libhakmem.so.0 /b/libhakmem-0.1.0-0123abcd.so"), none);
        let all = ["/hakmem/libown.so", "libhakmem_probe.so", "/libhakmem-own.so", "$LIB/libx.so"].map(PathBuf::from);
        assert_eq!(others("/hakmem/libown.so:libhakmem_probe.so /libhakmem-own.so:/libhakmem.so:$LIB/libx.so"), all);
    }

    #[test]
    fn paths_that_cannot_be_preloaded_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a b.so", "a:b.so", "a$LIB.so", "$.so"] {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            let error = usable(&path).unwrap_err().to_string();
            assert!(error.contains("cannot be preloaded"), "{error}");
        }
        let text = directory.path().join("text.so");
        std::fs::write(&text, "text").unwrap();
        let error = usable(&text).unwrap_err().to_string();
        assert!(error.contains("not a shared library"), "{error}");
    }
}
