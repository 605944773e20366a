//! Heaps of the program's own: their blocks, their limit, and that all goes with them.
//!
//! SPDX-License-Identifier: MIT
use std::alloc::{GlobalAlloc, Layout};
use std::thread;

use hakmem::{Hakmem, Heap, HeapStats};

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).unwrap()
}

#[test]
fn the_structure_has_the_librarys_size() {
    assert_eq!(Heap::new(0).unwrap().stats().struct_bytes, size_of::<HeapStats>());
}

#[test]
fn blocks_are_the_heaps_own() {
    let heap = Heap::new(0).unwrap();
    for align in [1, 16, 64, 4096] {
        for bytes in [1, 100, 5000, 300_000] {
            let (small, large) = (layout(bytes, align), layout(bytes * 3, align));
            unsafe {
                let zeroed = heap.alloc_zeroed(small);
                assert!(!zeroed.is_null() && heap.owns(zeroed) && zeroed.addr().is_multiple_of(align));
                assert!((0..bytes).all(|i| *zeroed.add(i) == 0));
                zeroed.write_bytes(7, bytes);
                let grown = heap.realloc(zeroed, small, large.size());
                assert!(heap.owns(grown) && grown.addr().is_multiple_of(align));
                assert!((0..bytes).all(|i| *grown.add(i) == 7));
                heap.dealloc(grown, large);
                // What the global allocator does is good for these as well.
                Hakmem.dealloc(heap.alloc(small), small);
            }
        }
    }
    assert_eq!(heap.stats().live, 0);
}

#[test]
fn a_limit_is_kept() {
    let heap = Heap::new(4 << 20).unwrap();
    let block = layout(100_000, 1);
    let count = (0..1000).take_while(|_| unsafe { !heap.alloc(block).is_null() }).count();
    assert!((16..=41).contains(&count), "{count} blocks");
    let stats = heap.stats();
    assert!(stats.taken <= stats.limit && stats.limit == 4 << 20 && stats.refused > 0, "{stats:?}");
    heap.set_limit(0);
    assert!(!unsafe { heap.alloc(block) }.is_null());
}

#[test]
fn threads_share_one_and_all_goes_with_it() {
    let heap = Heap::new(0).unwrap();
    let mut address = 0;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope
                .spawn(|| (0..10_000).for_each(|i| assert!(!unsafe { heap.alloc(layout(1 + i % 3000, 1)) }.is_null())));
        }
        address = unsafe { heap.alloc(layout(100, 1)) }.addr();
    });
    assert!(heap.stats().live >= 4 * 10_000 * 1500 - (4 << 20));
    assert!(heap.owns(address as *const u8));
    drop(heap);
    assert!(!hakmem::owns(address as *const u8));
}
