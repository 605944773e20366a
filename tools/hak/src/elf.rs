// SPDX-License-Identifier: MIT
//! What has to be known of an executable or library before it is started.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, FileKind, ReadCache, elf};

#[derive(Debug, Default)]
pub struct Elf {
    pub bits: u8,
    pub machine: u16,
    pub interpreter: Option<String>,
    /// It exports a `malloc`. An executable's own goes before any library's.
    pub defines_malloc: bool,
    /// It exports a function that only hakmem has.
    pub defines_hakmem: bool,
    /// A library of a sanitizer's with a malloc of its own, which it is linked with.
    pub sanitizer: Option<String>,
}

/// A name that libhakmem.a brings into every program, also into one without symbols.
const MARK: &[u8] = b"HAKMEM_ABORT_ON_ERROR\0";

/// Whether a program was linked with libhakmem.a.
pub fn contains_hakmem(path: &Path) -> Result<bool> {
    let say = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(say)?;
    // SAFETY: a program that somebody changes meanwhile may be misjudged.
    let bytes = unsafe { memmap2::Mmap::map(&file) }.with_context(say)?;
    Ok(memchr::memmem::find(&bytes, MARK).is_some())
}

/// `None` if the file is no ELF file at all.
pub fn read(path: &Path) -> Result<Option<Elf>> {
    let say = || format!("cannot read {}", path.display());
    let cache = ReadCache::new(File::open(path).with_context(say)?);
    let elf = match FileKind::parse(&cache) {
        Ok(FileKind::Elf64) => describe::<elf::FileHeader64<Endianness>>(&cache, 64),
        Ok(FileKind::Elf32) => describe::<elf::FileHeader32<Endianness>>(&cache, 32),
        _ => return Ok(None),
    };
    elf.map(Some).with_context(|| format!("{} is a damaged ELF file", path.display()))
}

fn describe<H: FileHeader<Endian = Endianness>>(data: &ReadCache<File>, bits: u8) -> object::read::Result<Elf> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let mut found = Elf { bits, machine: header.e_machine(endian).0, ..Elf::default() };
    for segment in header.program_headers(endian, data)? {
        if let Some(name) = segment.interpreter(endian, data)? {
            found.interpreter = Some(text(name));
        }
    }
    let sections = header.sections(endian, data)?;
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
    let defines = |name: &[u8]| {
        let is_it = |symbol: &H::Sym| symbol.name(endian, symbols.strings()) == Ok(name);
        symbols.iter().any(|symbol| !symbol.is_undefined(endian) && is_it(symbol))
    };
    found.defines_malloc = defines(b"malloc");
    found.defines_hakmem = defines(b"hak_stats");
    let dynamic = sections.dynamic_table(endian, data)?;
    for entry in dynamic.iter().filter(|entry| entry.tag == elf::DT_NEEDED) {
        let name = text(dynamic.string(entry)?);
        if is_a_sanitizers(&name) {
            found.sanitizer = Some(name);
        }
    }
    Ok(found)
}

/// As gcc names it, libasan.so.8, or clang, libclang_rt.asan-x86_64.so. UndefinedBehaviorSanitizer leaves malloc alone.
fn is_a_sanitizers(library: &str) -> bool {
    let name = library.rsplit('/').next().unwrap_or_default();
    let name = name.strip_prefix("libclang_rt.").or_else(|| name.strip_prefix("lib")).unwrap_or_default();
    let word = name.split(['.', '-']).next().unwrap_or_default();
    ["asan", "hwasan", "lsan", "tsan"].contains(&word) && name.contains(".so")
}

/// Where a file has a symbol.
#[derive(Debug, Default)]
pub struct Symbol {
    /// Its address in the file's own numbering.
    pub value: Option<u64>,
    /// Where the file begins, in the same numbering: its first segment.
    pub first_address: u64,
    pub defines_hakmem: bool,
}

/// Among the dynamic symbols, or all symbols where there are others.
pub fn symbol(file: &File, name: &[u8]) -> Result<Symbol> {
    // SAFETY: a file that somebody changes meanwhile may be misjudged.
    let bytes = unsafe { memmap2::Mmap::map(file) }?;
    let bytes: &[u8] = &bytes;
    let header = elf::FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut found = Symbol::default();
    let segments = header.program_headers(endian, bytes)?;
    if let Some(first) = segments.iter().find(|segment| segment.p_type(endian) == elf::PT_LOAD) {
        found.first_address = first.p_vaddr(endian) - first.p_offset(endian);
    }
    let sections = header.sections(endian, bytes)?;
    for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        let symbols = sections.symbols(endian, bytes, kind)?;
        for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined(endian)) {
            match symbol.name(endian, symbols.strings()) {
                Ok(its) if its == name => found.value = Some(symbol.st_value(endian)),
                Ok(b"hak_stats") => found.defines_hakmem = true,
                _ => {}
            }
        }
        if found.value.is_some() {
            break;
        }
    }
    Ok(found)
}

/// That it says it was compiled by; of several, each once.
pub fn compiler(path: &Path) -> Result<Option<String>> {
    let cache = ReadCache::new(File::open(path)?);
    let header = elf::FileHeader64::<Endianness>::parse(&cache)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, &cache)?;
    let Some((_, section)) = sections.section_by_name(endian, b".comment") else { return Ok(None) };
    let mut names: Vec<String> = Vec::new();
    for name in section.data(endian, &cache)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(text) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok((!names.is_empty()).then(|| names.join("; ")))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The architecture's name as `uname -m` has it.
pub fn machine_name(machine: u16) -> String {
    match machine {
        3 => "i386".into(),
        40 => "arm".into(),
        62 => "x86_64".into(),
        183 => "aarch64".into(),
        21 => "ppc64".into(),
        22 => "s390x".into(),
        243 => "riscv".into(),
        258 => "loongarch".into(),
        other => format!("machine {other}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn libraries_of_sanitizers_are_known_by_their_names() {
        for name in ["libasan.so.8", "libtsan.so.2", "liblsan.so.0", "libhwasan.so.0", "libclang_rt.asan-x86_64.so"] {
            assert!(super::is_a_sanitizers(name), "{name}");
        }
        for name in ["libubsan.so.1", "libc.so.6", "asan.so", "libasana.so.1", "libclang_rt.ubsan_standalone.so"] {
            assert!(!super::is_a_sanitizers(name), "{name}");
        }
    }
}
