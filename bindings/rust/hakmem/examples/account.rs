//! Fills a heap, frees half of it, and prints its own account each time.
//!
//!     cargo run --release --features stats --example account
//!
//! SPDX-License-Identifier: MIT
#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

fn print(when: &str) {
    let (stats, account) = (hakmem::stats(), hakmem::account());
    let kib = |bytes: usize| bytes / 1024;
    println!("{when}:");
    println!("  {:>8} KiB in blocks that the program holds", kib(stats.live));
    println!("  {:>8} KiB in blocks that wait to be used again", kib(stats.cached + stats.free_in_slabs));
    println!("  {:>8} KiB mapped, of which", kib(account.mapped));
    println!("  {:>8} KiB are resident, and", kib(account.resident));
    println!("  {:>8} KiB were given back or never used", kib(account.returned));
}

fn main() {
    println!("hakmem {}", hakmem::version());
    print("at the start");
    let mut blocks: Vec<Vec<u8>> = (0..20_000).map(|i| vec![1; 100 + i % 5000]).collect();
    print("with 20000 blocks");
    blocks.truncate(10_000);
    print("with half of them freed");
    hakmem::trim(0);
    print("after trim");
}
