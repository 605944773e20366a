// SPDX-License-Identifier: MIT
//! What code a process has mapped: stacks unwound by it, with frame pointers and `.eh_frame`, and the names of
//! addresses (symbols.rs). Where a file is not to be had, or has no names, an address is called by the file's name and
//! its place in there.

use std::fs;
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use framehop::{ExplicitModuleSectionInfo, Module as Unwound, Unwinder};
use memmap2::Mmap;
use object::{Object, ObjectSection, ObjectSegment};

use crate::files;
use crate::inspect::target::{Mapping, Target};
use crate::profile::ring::Registers;
use crate::profile::symbols::{Frame, Symbols, id_of};

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{CacheAarch64 as Cache, PtrAuthMask, UnwindRegsAarch64 as Regs, UnwinderAarch64 as Unwinding};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{CacheX86_64 as Cache, UnwindRegsX86_64 as Regs, UnwinderX86_64 as Unwinding};

/// No stack of more frames is of any use to a reader.
const MOST_FRAMES: usize = 512;

pub struct Module {
    pub name: String,
    pub path: String,
    pub from: u64,
    pub to: u64,
    pub offset: u64,
    /// From an address in the file to that in the process.
    bias: u64,
    inode: u64,
    symbols: Option<Symbols>,
}

#[derive(Default)]
pub struct Modules {
    pub all: Vec<Module>,
    unwinder: Unwinding<Section>,
    cache: Cache,
}

/// An address in code, of a module by its index if it is in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    pub module: Option<usize>,
    pub address: u64,
}

impl Modules {
    /// Looks for what is new. Modules that are gone stay known, unless others lie there now.
    pub fn look(&mut self, target: &Target) -> Result<()> {
        for mapping in target.mappings()?.iter().filter(|mapping| mapping.executable && mapping.inode != 0) {
            let known = self
                .all
                .iter()
                .any(|module| module.from <= mapping.from && mapping.to <= module.to && module.inode == mapping.inode);
            if !known {
                self.add(target, mapping);
            }
        }
        Ok(())
    }

    fn add(&mut self, target: &Target, mapping: &Mapping) {
        let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path).to_owned();
        let name = Path::new(&path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned());
        let file = file_of(target, mapping, &path);
        let loaded = file.as_deref().and_then(|file| load(file, mapping));
        let bias = loaded.as_ref().map_or(mapping.from.wrapping_sub(mapping.offset), |loaded| loaded.bias);
        let build_id = loaded.as_ref().map_or_else(Vec::new, |loaded| loaded.build_id.clone());
        if let Some(loaded) = loaded {
            self.unwinder.add_module(Unwound::new(name.clone(), mapping.from..mapping.to, bias, loaded.sections));
        }
        let symbols = file.map(|file| Symbols::of(&file, &build_id));
        self.all.push(Module {
            name,
            path,
            from: mapping.from,
            to: mapping.to,
            offset: mapping.offset,
            bias,
            inode: mapping.inode,
            symbols,
        });
    }

    /// The newest first: it may lie where another was.
    fn index(&self, address: u64) -> Option<usize> {
        self.all.iter().rposition(|module| (module.from..module.to).contains(&address))
    }

    /// From the innermost outwards, each within the call. Also whether the stack that was kept was too short.
    pub fn unwind(&mut self, registers: &Registers) -> (Vec<Place>, bool) {
        let base = registers.all[0];
        let mut read = |at: u64| {
            let from = usize::try_from(at.wrapping_sub(base)).map_err(|_| ())?;
            let bytes = from.checked_add(8).and_then(|to| registers.stack.get(from..to)).ok_or(())?;
            Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| ())?))
        };
        let mut addresses = Vec::new();
        let mut frames = self.unwinder.iter_frames(registers.pc, regs(registers), &mut self.cache, &mut read);
        let ended = loop {
            match frames.next() {
                Ok(Some(frame)) if addresses.len() < MOST_FRAMES => addresses.push(frame.address_for_lookup()),
                Ok(Some(_)) => break false,
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let places = addresses.iter().map(|address| Place { module: self.index(*address), address: *address });
        (places.collect(), !ended)
    }

    /// The functions there, the innermost first. At least one.
    pub fn frames(&self, place: Place) -> Vec<Frame> {
        let Some(module) = place.module.map(|index| &self.all[index]) else {
            return vec![Frame { name: format!("{:#x}", place.address), file: None, line: None }];
        };
        let inside = place.address.wrapping_sub(module.bias);
        let mut frames = module.symbols.as_ref().map_or_else(Vec::new, |symbols| symbols.frames(inside));
        if frames.is_empty() {
            frames.push(Frame { name: format!("{}+{inside:#x}", module.name), file: None, line: None });
        }
        frames
    }
}

#[cfg(target_arch = "x86_64")]
fn regs(registers: &Registers) -> Regs {
    Regs::new(registers.pc, registers.all[0], registers.all[1])
}

#[cfg(target_arch = "aarch64")]
fn regs(registers: &Registers) -> Regs {
    Regs::new_with_ptr_auth_mask(PtrAuthMask::new_24_40(), registers.all[2], registers.all[0], registers.all[1])
}

/// The file that is mapped, if it can still be had: by its name, or by what the process has of it.
fn file_of(target: &Target, mapping: &Mapping, path: &str) -> Option<PathBuf> {
    let names = [
        PathBuf::from(path),
        PathBuf::from(target.file("root") + path),
        PathBuf::from(target.file(&format!("map_files/{:x}-{:x}", mapping.from, mapping.to))),
    ];
    names.into_iter().find(|name| fs::metadata(name).is_ok_and(|file| file.is_file() && file.ino() == mapping.inode))
}

/// Of a file that is mapped here: a copy of the code of a large program would take longer than some programs run.
struct Section {
    file: Arc<Mmap>,
    place: Range<usize>,
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.file[self.place.clone()]
    }
}

struct Loaded {
    bias: u64,
    build_id: Vec<u8>,
    sections: ExplicitModuleSectionInfo<Section>,
}

fn load(path: &Path, mapping: &Mapping) -> Option<Loaded> {
    let bytes = Arc::new(files::map(&files::open_regular(path).ok()?).ok()?);
    let elf = object::File::parse(&**bytes).ok()?;
    let segment = elf.segments().find(|segment| {
        let (from, length) = segment.file_range();
        from < mapping.offset + (mapping.to - mapping.from) && mapping.offset < from + length
    })?;
    let bias =
        mapping.from.wrapping_sub(mapping.offset).wrapping_sub(segment.address().wrapping_sub(segment.file_range().0));
    let section = |name: &str| elf.section_by_name(name);
    let range = |name: &str| section(name).map(|section| section.address()..section.address() + section.size());
    let data = |name: &str| {
        let (from, length) = section(name)?.file_range()?;
        let place = usize::try_from(from).ok()?..usize::try_from(from.checked_add(length)?).ok()?;
        bytes.get(place.clone())?;
        Some(Section { file: Arc::clone(&bytes), place })
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        // Of other systems' files.
        stubs_svma: None,
        stub_helper_svma: None,
        unwind_info: None,
        text_segment_svma: None,
        text_segment: None,
    };
    let build_id = id_of(&elf);
    Some(Loaded { bias, build_id, sections })
}
