// SPDX-License-Identifier: MIT
//! Foretells addresses from those before, so that most need no or few bytes. Whoever writes and whoever reads a trace
//! foretell alike. What is kept for that is small and of a fixed size, so that it stays in a processor's cache: a
//! table of all live blocks would not, and the program would wait for it.
//!
//! hakmem gives a thread first what it freed last of a size class, and each 64 KiB have blocks of one class. Where
//! that does not hold, what is foretold is wrong, and the address takes more bytes.

/// Threads that have the same remainder share what is kept.
const GROUPS: usize = 8;
/// Of each class, of what was freed: a power of two.
const DEPTH: usize = 32;
const CLASSES: usize = 128;
const UNIT_SHIFT: u32 = 16;
const UNITS: usize = 4096;

/// Addresses without their lowest 4 bits.
struct Group {
    /// By class: what was freed, the last one at `top`; 0 where it was taken since.
    freed: Box<[[u64; DEPTH]; CLASSES]>,
    top: [u8; CLASSES],
    /// By class.
    allocated: [u64; CLASSES],
    last_allocated: u64,
    last_freed: u64,
}

pub struct Predictor {
    groups: [Group; GROUPS],
    /// By unit: the class of the block that was allocated there last. Units that are far apart share one.
    classes: Box<[u8; UNITS]>,
}

/// Steps of 16 bytes, and four for each doubling above 1 KiB; all large ones are one.
#[inline]
fn class_of(size: u64) -> usize {
    if size <= 1024 {
        return size.div_ceil(16) as usize;
    }
    let log2 = (size - 1).ilog2();
    let quarter = ((size - 1) >> (log2 - 2)) & 3;
    (65 + (log2 as usize - 10) * 4 + quarter as usize).min(CLASSES - 1)
}

impl Predictor {
    pub fn new() -> Predictor {
        let group = |_| Group {
            freed: Box::new([[0; DEPTH]; CLASSES]),
            top: [0; CLASSES],
            allocated: [0; CLASSES],
            last_allocated: 0,
            last_freed: 0,
        };
        Predictor { groups: std::array::from_fn(group), classes: Box::new([0; UNITS]) }
    }

    /// Where a block of that size will be, and what to tell its place from if it is not there.
    #[inline]
    pub fn allocation(&self, thread: u32, size: u64) -> (u64, u64) {
        let (group, class) = (&self.groups[thread as usize % GROUPS], class_of(size));
        (group.freed[class][group.top[class] as usize % DEPTH], group.allocated[class])
    }

    #[inline]
    pub fn allocated(&mut self, thread: u32, size: u64, address: u64) {
        let (group, class) = (&mut self.groups[thread as usize % GROUPS], class_of(size));
        let top = &mut group.top[class];
        let last = &mut group.freed[class][*top as usize % DEPTH];
        if *last == address {
            *last = 0;
            *top = top.wrapping_sub(1);
        }
        group.allocated[class] = address;
        group.last_allocated = address;
        self.classes[unit(address)] = class as u8;
    }

    /// What the thread allocated last, and what it freed last.
    #[inline]
    pub fn free(&self, thread: u32) -> (u64, u64) {
        let group = &self.groups[thread as usize % GROUPS];
        (group.last_allocated, group.last_freed)
    }

    #[inline]
    pub fn freed(&mut self, thread: u32, address: u64) {
        let class = self.classes[unit(address)] as usize;
        let group = &mut self.groups[thread as usize % GROUPS];
        group.last_freed = address;
        let top = &mut group.top[class % CLASSES];
        *top = top.wrapping_add(1);
        group.freed[class % CLASSES][*top as usize % DEPTH] = address;
    }
}

fn unit(address: u64) -> usize {
    (address >> (UNIT_SHIFT - 4)) as usize % UNITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_as_fine_as_they_are_said_to_be() {
        let classes = [(0, 0), (1, 1), (16, 1), (17, 2), (1024, 64), (1025, 65), (1280, 65), (1281, 66), (2048, 68)];
        for (size, class) in classes {
            assert_eq!(class_of(size), class, "{size}");
        }
        let mut before = 0;
        for size in (0..1 << 20).chain([u64::MAX]) {
            let class = class_of(size);
            assert!(class == before || class == before + 1 || size == u64::MAX, "{size}");
            before = class;
        }
        assert_eq!(before, CLASSES - 1);
    }

    #[test]
    fn what_was_freed_last_comes_first() {
        let mut predictor = Predictor::new();
        for address in [100, 200, 300] {
            predictor.allocated(1, 40, address);
        }
        predictor.freed(1, 200);
        predictor.freed(1, 100);
        assert_eq!(predictor.free(1), (300, 100));
        assert_eq!(predictor.allocation(1, 48), (100, 300));
        predictor.allocated(1, 33, 100);
        assert_eq!(predictor.allocation(1, 48), (200, 100));
        assert_eq!(predictor.allocation(2, 48), (0, 0), "another thread");
    }
}
