// SPDX-License-Identifier: MIT
//! Names of addresses in a file: by its symbols and DWARF, and by those that are kept apart from it, as distributions
//! keep them. The file's build id leads there: to `/usr/lib/debug`, or what a debuginfod client has fetched.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::env;
use std::fmt::Write;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use addr2line::{Loader, gimli};
use object::Object;

use crate::files;

/// A function in a stack, one of several where they are inlined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub name: String,
    pub file: Option<String>,
    pub line: Option<u32>,
}

pub struct Symbols {
    own: Option<Loader>,
    build_id: Vec<u8>,
    /// Looked for when the first name is wanted: the process that is profiled has ended by then, or nearly.
    apart: OnceCell<Option<Loader>>,
}

impl Symbols {
    /// Of a file that has this build id, or none.
    pub fn of(file: &Path, build_id: &[u8]) -> Symbols {
        Symbols { own: Loader::new(file).ok(), build_id: build_id.to_vec(), apart: OnceCell::new() }
    }

    /// The functions at an address as the file has it, the innermost first; none that has no name.
    pub fn frames(&self, at: u64) -> Vec<Frame> {
        let apart = self.apart.get_or_init(|| Apart::of(&self.build_id).find());
        let all = || apart.iter().chain(&self.own);
        let frames = all().map(|symbols| inlined(symbols, at)).find(|frames| !frames.is_empty());
        frames.unwrap_or_else(|| {
            let name = all().find_map(|symbols| symbols.find_symbol(at));
            let frame = |name| Frame { name: demangled(Cow::Borrowed(name), None), file: None, line: None };
            name.map(frame).into_iter().collect()
        })
    }
}

fn inlined(symbols: &Loader, at: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    if let Ok(mut found) = symbols.find_frames(at) {
        while let Ok(Some(frame)) = found.next() {
            let name = frame.function.as_ref().and_then(|name| Some(demangled(name.raw_name().ok()?, name.language)));
            let place = frame.location;
            let file = place.as_ref().and_then(|place| place.file).map(str::to_owned);
            if let Some(name) = name {
                frames.push(Frame { name, file, line: place.and_then(|place| place.line) });
            }
        }
    }
    frames
}

/// Without the mark of a mangled name, a short one could be the code of a type: `f` is that of `float`.
fn demangled(name: Cow<str>, language: Option<gimli::DwLang>) -> String {
    let is_mangled = ["_Z", "__Z", "_R"].iter().any(|mark| name.starts_with(mark));
    if is_mangled { addr2line::demangle_auto(name, language).into_owned() } else { name.into_owned() }
}

/// What a file's symbols and DWARF are called where they are kept apart from it.
struct Apart<'a> {
    build_id: &'a [u8],
    paths: Vec<PathBuf>,
}

impl Apart<'_> {
    fn of(build_id: &[u8]) -> Apart<'_> {
        let mut hex = String::new();
        for byte in build_id {
            let _ = write!(hex, "{byte:02x}");
        }
        // Fewer bytes than this name no file.
        let (Some(first), Some(rest)) = (hex.get(..2), hex.get(2..)) else {
            return Apart { build_id, paths: Vec::new() };
        };
        let mut paths = vec![PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"))];
        paths.extend(fetched().map(|cache| cache.join(hex).join("debuginfo")));
        Apart { build_id, paths }
    }

    fn file(&self) -> Option<(&PathBuf, File)> {
        self.paths.iter().find_map(|path| {
            let file = files::open_regular(path).ok()?;
            let is_it = object::File::parse(&*files::map(&file).ok()?).is_ok_and(|elf| id_of(&elf) == self.build_id);
            is_it.then_some((path, file))
        })
    }

    fn find(&self) -> Option<Loader> {
        let (path, file) = self.file()?;
        // What several packages have in common may be in another file yet: .gnu_debugaltlink.
        let bytes = files::map(&file).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let common = elf.gnu_debugaltlink().ok().flatten().and_then(|(name, id)| {
            let beside = path.parent()?.join(str::from_utf8(name).ok()?);
            let its = Apart { build_id: id, paths: [vec![beside], Apart::of(id).paths].concat() };
            its.file().map(|(_, file)| file)
        });
        Loader::new_with_sup(again(&file), common.as_ref().map(again)).ok()
    }
}

/// Where debuginfod's clients keep what they have fetched, as its manual says.
fn fetched() -> Option<PathBuf> {
    let at = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    at("DEBUGINFOD_CACHE_PATH")
        .or_else(|| Some(at("XDG_CACHE_HOME")?.join("debuginfod_client")))
        .or_else(|| Some(at("HOME")?.join(".cache/debuginfod_client")))
}

/// A name for who opens a file once more, that leads to this one and no other.
fn again(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Of a file that has none, no bytes.
pub fn id_of(elf: &object::File) -> Vec<u8> {
    elf.build_id().ok().flatten().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use addr2line::gimli::{DW_LANG_C_plus_plus, DW_LANG_Rust};

    use super::*;

    #[test]
    fn names_that_are_not_mangled_stay() {
        for name in ["f", "i", "St", "main"] {
            for language in [None, Some(DW_LANG_C_plus_plus), Some(DW_LANG_Rust)] {
                assert_eq!(demangled(name.into(), language), name);
            }
        }
        assert_eq!(demangled("_ZN3one5otherEv".into(), None), "one::other()");
        assert_eq!(demangled("_Znwm".into(), Some(DW_LANG_C_plus_plus)), "operator new(unsigned long)");
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo".into(), Some(DW_LANG_Rust)), "mycrate::foo");
    }

    #[test]
    fn a_build_id_that_is_too_short_leads_nowhere() {
        assert!(Apart::of(&[]).paths.is_empty());
        assert_eq!(Apart::of(&[0xab, 0x0c]).paths[0], Path::new("/usr/lib/debug/.build-id/ab/0c.debug"));
    }
}
