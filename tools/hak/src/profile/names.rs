// SPDX-License-Identifier: MIT
//! Stacks by names: functions from the outermost to the innermost, without the allocator's own.

use std::collections::HashMap;

use crate::inspect::target::printable;
use crate::profile::modules::{Modules, Place};
use crate::profile::symbols::Frame;

/// What calls these is what allocates. They are the allocator's own, wherever it is linked to.
const ALLOCATING: [&str; 24] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "hak_malloc",
    "hak_calloc",
    "hak_realloc",
    "hak_reallocarray",
    "hak_aligned_alloc",
    "hak_posix_memalign",
    "hak_memalign",
    "operator new(unsigned long)",
    "operator new[](unsigned long)",
    "operator new(unsigned long, std::nothrow_t const&)",
    "operator new[](unsigned long, std::nothrow_t const&)",
    "operator new(unsigned long, std::align_val_t)",
    "operator new[](unsigned long, std::align_val_t)",
    "operator new(unsigned long, std::align_val_t, std::nothrow_t const&)",
    "operator new[](unsigned long, std::align_val_t, std::nothrow_t const&)",
];
/// Functions of a linked allocator, from the one that takes the stack on (src/front/record.c, src/api/alloc.c): `malloc` and
/// `operator new` end in a jump to them, and so are in no stack of their own.
const OWN: [&str; 25] = [
    "fill",
    "take_stack",
    "note_allocated",
    "record_allocated",
    "record_lone",
    "record_changed",
    "refill_sampled",
    "refill_or_borrow",
    "refill_among_many",
    "magazine_refill",
    "boundary_refill",
    "refill",
    "alloc_slow",
    "alloc_huge",
    "alloc_malloc",
    "alloc_calloc",
    "alloc_aligned",
    "alloc_realloc",
    "shrink_single",
    "realloc_by_copy",
    "realloc_smaller",
    "realloc_elsewhere",
    "realloc_foreign",
    "realloc_huge",
    "realloc_other",
];
/// Deeper in a stack than this the allocator's frames do not go.
const OWN_FRAMES: usize = 16;

pub const NO_STACK: &str = "[no stack]";

pub struct Names<'a> {
    modules: &'a Modules,
    /// Of libhakmem.so; a program that is linked with it has its own name.
    library: Option<usize>,
    known: HashMap<Place, Vec<Frame>>,
}

impl<'a> Names<'a> {
    /// `library`: the file in which the root lies.
    pub fn new(modules: &'a Modules, library: &str) -> Names<'a> {
        let library = library.strip_suffix(" (deleted)").unwrap_or(library);
        let is_library = |path: &str| path == library && path.contains(".so");
        let library = modules.all.iter().position(|module| is_library(&module.path));
        Names { modules, library, known: HashMap::new() }
    }

    pub fn frames(&mut self, place: Place) -> &[Frame] {
        self.known.entry(place).or_insert_with(|| self.modules.frames(place))
    }

    /// What is left of a stack without the allocator, the innermost first.
    pub fn of_program(&mut self, stack: &'a [Place]) -> &'a [Place] {
        let own = |place: &Place| place.module.is_some() && place.module == self.library;
        let mut from = stack.iter().take_while(|place| own(place)).count();
        if from == 0 {
            // The compiler's own copies and parts of a function have a suffix.
            let is_own = |frame: &Frame| OWN.contains(&frame.name.split('.').next().unwrap_or_default());
            let linked = stack.iter().take_while(|place| self.frames(**place).iter().all(is_own)).count();
            let mut last = linked.checked_sub(1);
            for (index, place) in stack.iter().enumerate().take(OWN_FRAMES).skip(linked) {
                if self.frames(*place).iter().any(|frame| ALLOCATING.contains(&frame.name.as_str())) {
                    last = Some(index);
                }
            }
            from = last.map_or(0, |last| last + 1);
        }
        &stack[from.min(stack.len())..]
    }

    /// "main;work;read", as flame graphs have it.
    pub fn line(&mut self, stack: &'a [Place]) -> String {
        let places = self.of_program(stack);
        if places.is_empty() {
            return NO_STACK.into();
        }
        let mut names: Vec<String> = Vec::new();
        for place in places {
            names.extend(self.frames(*place).iter().map(|frame| printable(&frame.name).replace(';', ":")));
        }
        names.reverse();
        names.join(";")
    }
}
