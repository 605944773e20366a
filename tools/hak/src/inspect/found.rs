// SPDX-License-Identifier: MIT
//! Finds hakmem's root in a process.
//!
//! By its symbol, in the file that the process has mapped: the library, or an executable that is linked with
//! libhakmem.a. Where that file is gone, is another one by now, or has no symbols left, by its mark in the
//! mapped data. Either way the memory itself says whether it is the root: it holds its own address.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;

use crate::elf;
use crate::failure::{BAD_INPUT, failure};
use crate::files;
use crate::inspect::fields::{self, MARK, Root};
use crate::inspect::target::{Mapping, Target, printable};

pub struct Found {
    pub root: Root,
    pub file: String,
    /// What the user has to know about how it was found.
    pub remark: Option<String>,
}

/// A file of which code is mapped.
struct Object<'a> {
    path: &'a str,
    mappings: Vec<&'a Mapping>,
}

/// What looking into the file gave.
enum Symbol {
    At(u64),
    None { is_hakmem: bool },
    NoFile(String),
}

const DELETED: &str = " (deleted)";

pub fn find(target: &Target) -> Result<Found> {
    search(target, &target.mappings()?)?.ok_or_else(|| {
        let message = format!(
            "process {} ({}) does not run under hakmem: none of its files has the symbol {}",
            target.pid,
            target.program(),
            fields::SYMBOL
        );
        failure(BAD_INPUT, message)
    })
}

/// `None`: it does not run under hakmem.
pub fn search(target: &Target, mappings: &[Mapping]) -> Result<Option<Found>> {
    let mut older = None;
    let mut objects = objects(mappings);
    let executable = std::fs::read_link(target.file("exe")).ok().map(|path| path.to_string_lossy().into_owned());
    let is_executable = |object: &Object| executable.as_deref() == Some(object.path);
    // Where it most likely is.
    objects.sort_by_key(|object| (!object.path.contains("hakmem"), !is_executable(object)));
    for object in &objects {
        let symbol = symbol(target, object, is_executable(object));
        let remark = match &symbol {
            Symbol::At(at) if fields::is_root(target, *at) => return found(target, object, *at, None).map(Some),
            Symbol::At(_) => "the file is not the one that the process has mapped".into(),
            // Data of a library that has symbols, and not this one, is not searched.
            Symbol::None { is_hakmem: true } => {
                older = Some(object.path);
                continue;
            }
            Symbol::None { .. } if !is_executable(object) => continue,
            Symbol::None { .. } => "it has no symbols".into(),
            Symbol::NoFile(reason) => reason.clone(),
        };
        if let Some(at) = marked(target, object) {
            let remark = format!(
                "{}: {remark}; the tables were found by their mark in the process's memory",
                printable(object.path)
            );
            return found(target, object, at, Some(remark)).map(Some);
        }
    }
    match older {
        Some(path) => {
            let reason = "of a version that cannot be inspected: it has no symbol";
            let path = printable(path);
            Err(failure(BAD_INPUT, format!("{path} in process {} is {reason} {}", target.pid, fields::SYMBOL)))
        }
        None => Ok(None),
    }
}

fn found(target: &Target, object: &Object, at: u64, remark: Option<String>) -> Result<Found> {
    Ok(Found { root: Root::read(target, at)?, file: object.path.into(), remark })
}

fn objects(mappings: &[Mapping]) -> Vec<Object<'_>> {
    let mut objects: Vec<Object> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| mapping.inode != 0) {
        match objects.iter_mut().find(|object| object.path == mapping.path) {
            Some(object) => object.mappings.push(mapping),
            None => objects.push(Object { path: &mapping.path, mappings: vec![mapping] }),
        }
    }
    // Of a process in an emulator, no code is executable; a library that is linked statically is not found there.
    let may_be_it = |object: &Object| object.path.rsplit('/').next().is_some_and(|name| name.starts_with("libhakmem"));
    objects.retain(|object| may_be_it(object) || object.mappings.iter().any(|mapping| mapping.executable));
    objects
}

fn symbol(target: &Target, object: &Object, is_executable: bool) -> Symbol {
    let first = object.mappings[0];
    let file = match open(target, object, is_executable) {
        Ok(file) => file,
        Err(reason) => return Symbol::NoFile(reason),
    };
    match elf::symbol(&file, fields::SYMBOL.as_bytes()) {
        Ok(found) => match found.value {
            Some(value) => Symbol::At(first.from.wrapping_sub(found.first_address).wrapping_add(value)),
            None => Symbol::None { is_hakmem: found.defines_hakmem },
        },
        Err(error) => Symbol::NoFile(format!("it cannot be read ({error})")),
    }
}

/// The file as the process has it, which may be in another root, or have no name any more.
fn open(target: &Target, object: &Object, is_executable: bool) -> Result<File, String> {
    let first = object.mappings[0];
    if is_executable && let Ok(file) = File::open(target.file("exe")) {
        return Ok(file);
    }
    if let Ok(file) = File::open(target.file(&format!("map_files/{:x}-{:x}", first.from, first.to))) {
        return Ok(file);
    }
    if object.path.ends_with(DELETED) {
        return Err("the file has been deleted or replaced since the process mapped it".into());
    }
    let file = files::open_regular(Path::new(&target.file(&format!("root{}", object.path))));
    let file = file.map_err(|error| format!("the file cannot be opened ({error})"))?;
    match file.metadata() {
        Ok(metadata) if metadata.ino() == first.inode => Ok(file),
        _ => Err("the file is another one than the process has mapped".into()),
    }
}

/// In its data, not its code.
fn marked(target: &Target, object: &Object) -> Option<u64> {
    const MOST_BYTES: u64 = 256 << 20;
    for mapping in object.mappings.iter().filter(|mapping| mapping.readable && !mapping.executable) {
        if mapping.to - mapping.from > MOST_BYTES {
            continue;
        }
        let Ok(bytes) = target.read(mapping.from, usize::try_from(mapping.to - mapping.from).ok()?) else { continue };
        let places = memchr::memmem::find_iter(&bytes, MARK).map(|offset| mapping.from + offset as u64);
        if let Some(at) = places.into_iter().find(|at| fields::is_root(target, *at)) {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_library_may_be() {
        let of = |path: &str, executable| Mapping {
            from: 0,
            to: 4096,
            readable: true,
            writable: false,
            executable,
            offset: 0,
            inode: 1,
            path: path.into(),
        };
        // The second one as in an emulator.
        let all =
            [of("/bin/a", true), of("/a/libhakmem.so.0.1.0", false), of("/hakmem/data", false), of("/a/b.so", false)];
        let paths: Vec<&str> = objects(&all).iter().map(|object| object.path).collect();
        assert_eq!(paths, ["/bin/a", "/a/libhakmem.so.0.1.0"]);
    }
}
