//! Without arguments: proves that hakmem serves it, and prints what it holds. With SIZE BATCH OPS ORDER: what
//! bench/workloads/tiny_hot.c does with these.
//!
//! SPDX-License-Identifier: MIT
use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

/// The allocator has functions of these names inside, which are none of the program's business.
#[unsafe(no_mangle)]
extern "C" fn trim(_: usize) -> usize {
    panic!("hakmem calls a function of the program")
}
#[unsafe(no_mangle)]
extern "C" fn alloc_slow(_: usize) -> *mut u8 {
    panic!("hakmem calls a function of the program")
}

fn tiny_hot(size: usize, batch: usize, ops: usize, newest_first: bool) {
    let layout = Layout::from_size_align(size, 8).expect("a size");
    let mut blocks = vec![std::ptr::null_mut(); batch];
    let cycles_per_look = 1 + 8192 / batch;
    let mut done = 0;
    while done < ops {
        for _ in 0..cycles_per_look {
            blocks.iter_mut().for_each(|block| *block = black_box(unsafe { alloc(layout) }));
            if newest_first {
                blocks.iter().rev().for_each(|block| unsafe { dealloc(*block, layout) });
            } else {
                blocks.iter().for_each(|block| unsafe { dealloc(*block, layout) });
            }
        }
        done += cycles_per_look * 2 * batch;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [size, batch, ops, order] = &arguments[..] {
        let number = |text: &String| text.parse().expect("a number");
        return tiny_hot(number(size), number(batch), number(ops), order == "lifo");
    }
    let block = vec![1u8; 1 << 20];
    hakmem::trim(0);
    assert!(hakmem::owns(block.as_ptr()));
    assert!(hakmem::stats().live >= block.len());
    println!("hakmem {} serves {} bytes", hakmem::version(), block.len());
}
