//! What workloads/tiny_hot.c does with `--order lifo`, through the crate: batches of equal small blocks, allocated
//! and freed again and again, the newest first. A difference to that is what the crate costs, and Rust.
//!
//! The allocator is in the program, whatever is preloaded. That it answered is asked of itself.
//!
//! SPDX-License-Identifier: MIT
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::hint::black_box;
use std::process::exit;
use std::ptr;
use std::time::{Duration, Instant};

use lexopt::prelude::*;

#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

/// The table of blocks lies on the stack, so that it is no part of the heap that is measured.
const MOST: usize = 4096;

const HELP: &str = "\
tiny_hot_rust: tiny_hot --order lifo through the crate hakmem
  --size       of every block, 16 or more (default 16)
  --batch      blocks live at the peak, up to 4096 (default 100)
  --seconds    length of the timed section (default 0.3)
  --ops        operations instead of a length
  --verify     fill every block and check it before it is freed";

struct Options {
    size: usize,
    batch: usize,
    seconds: f64,
    ops: Option<u64>,
    verify: bool,
}

fn options() -> Result<Options, lexopt::Error> {
    let mut options = Options { size: 16, batch: 100, seconds: 0.3, ops: None, verify: false };
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next()? {
        match word {
            Long("size") => options.size = words.value()?.parse()?,
            Long("batch") => options.batch = words.value()?.parse()?,
            Long("seconds") => options.seconds = words.value()?.parse()?,
            Long("ops") => options.ops = Some(words.value()?.parse()?),
            Long("verify") => options.verify = true,
            Long("help") => {
                println!("{HELP}");
                exit(0);
            }
            _ => return Err(word.unexpected()),
        }
    }
    let fits = (16..=1 << 20).contains(&options.size)
        && (1..=MOST).contains(&options.batch)
        && (0.001..=3600.0).contains(&options.seconds)
        && options.ops != Some(0);
    if fits { Ok(options) } else { Err("a value is out of its range; see --help".into()) }
}

/// When a section ends.
enum End {
    Ops(u64),
    At(Instant),
}

impl End {
    fn is_reached(&self, ops: u64) -> bool {
        match self {
            End::Ops(most) => ops >= *most,
            End::At(time) => Instant::now() >= *time,
        }
    }
}

/// `VERIFY` is a constant, so that the timed loop carries no trace of it.
#[inline(always)]
fn take<const VERIFY: bool>(layout: Layout) -> *mut u8 {
    // SAFETY: sizes are above 0, and the first and the last byte are the block's.
    unsafe {
        let block = alloc(layout);
        if block.is_null() {
            handle_alloc_error(layout);
        }
        if VERIFY {
            assert!(block.addr().is_multiple_of(16), "block {block:p} is not aligned to 16");
            (0..layout.size()).for_each(|i| block.add(i).write(payload(block, i)));
        } else {
            block.write_volatile(1);
            block.add(layout.size() - 1).write_volatile(2);
        }
        black_box(block)
    }
}

#[inline(always)]
fn give<const VERIFY: bool>(block: *mut u8, layout: Layout) {
    // SAFETY: it is from `take`, which has written all of it if it is to be checked, and it is given once.
    unsafe {
        if VERIFY {
            let damaged = (0..layout.size()).find(|i| block.add(*i).read() != payload(block, *i));
            assert_eq!(damaged, None, "payload damaged: block {block:p} of {} bytes, at this offset", layout.size());
            // So that one that is handed out twice is found by its second holder.
            block.write_bytes(0, layout.size());
            black_box(block);
        }
        dealloc(block, layout);
    }
}

/// Depends on the block and on the place in it, so that another's or a shifted one does not pass; never 0.
fn payload(block: *mut u8, index: usize) -> u8 {
    ((block.addr() >> 4).wrapping_add(index).wrapping_mul(0x9e37_79b9) >> 16) as u8 | 1
}

fn cycles<const VERIFY: bool>(blocks: &mut [*mut u8], layout: Layout, end: &End) -> u64 {
    let per_look = 1 + 8192 / blocks.len();
    let mut ops = 0;
    loop {
        for _ in 0..per_look {
            blocks.iter_mut().for_each(|block| *block = take::<VERIFY>(layout));
            blocks.iter().rev().for_each(|block| give::<VERIFY>(*block, layout));
        }
        ops += (2 * blocks.len() * per_look) as u64;
        if end.is_reached(ops) {
            return ops;
        }
    }
}

/// The object that serves allocations: this program, if the block is of the heap in it.
fn answered_by(layout: Layout) -> String {
    let block = take::<false>(layout);
    assert!(hakmem::owns(block), "the crate's allocator did not serve a block of {} bytes", layout.size());
    give::<false>(block, layout);
    std::env::current_exe().expect("the program has a path").display().to_string()
}

fn main() {
    let options = options().unwrap_or_else(|error| {
        eprintln!("tiny_hot_rust: {error}");
        exit(2);
    });
    let layout = Layout::from_size_align(options.size, 8).expect("sizes have a limit");
    let mut table = [ptr::null_mut(); MOST];
    let blocks = &mut table[..options.batch];
    let malloc_from = answered_by(layout);
    let mut section = |ops: Option<u64>, seconds: f64| {
        let start = Instant::now();
        let end = ops.map_or_else(|| End::At(start + Duration::from_secs_f64(seconds)), End::Ops);
        let cycles = if options.verify { cycles::<true> } else { cycles::<false> };
        (cycles(blocks, layout, &end), start.elapsed().as_secs_f64())
    };
    // A tenth before, as in C.
    section(options.ops.map(|ops| ops / 10 + 1), (options.seconds / 10.0).clamp(options.seconds.min(0.01), 0.1));
    let (ops, seconds) = section(options.ops, options.seconds);
    println!(
        "workload=tiny_hot_rust order=lifo size={} batch={} ops={ops} seconds={seconds:.6} ops_per_s={:.0} \
         metric=ops_per_s malloc_from={malloc_from} check={}",
        options.size,
        options.batch,
        ops as f64 / seconds,
        if options.verify { "ok" } else { "off" }
    );
}
