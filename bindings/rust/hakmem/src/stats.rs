//! The allocator's own account of the heap. Nothing here allocates.
//!
//! SPDX-License-Identifier: MIT
use core::ffi::{c_char, c_void};
use core::{fmt, slice, str};

/// A picture of the heap: see [`stats()`].
pub type Stats = hakmem_sys::hak_stats_t;
/// What of the heap is in memory: see [`account()`].
pub type Account = hakmem_sys::hak_account_t;

/// What the heap holds.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;
/// let before = hakmem::stats().live;
/// let block = vec![0u8; 1 << 20];
/// assert!(hakmem::stats().live >= before + block.len());
/// ```
pub fn stats() -> Stats {
    let mut stats = Stats::default();
    unsafe { hakmem_sys::hak_stats(&mut stats, size_of::<Stats>()) };
    stats
}

/// What of the heap is in memory. Asks the system page by page: it takes time in proportion to what is
/// mapped, 3 to 7 milliseconds for each GiB.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;
/// let account = hakmem::account();
/// assert_eq!(account.mapped, account.resident + account.returned);
/// ```
pub fn account() -> Account {
    let mut account = Account::default();
    unsafe { hakmem_sys::hak_account(&mut account, size_of::<Account>()) };
    account
}

struct Sink<'a> {
    out: &'a mut dyn fmt::Write,
    result: fmt::Result,
}

/// Writes the statistics, the account and a table of the size classes in use as one JSON object. `out`
/// may allocate. Fails if `out` does. If that panics, the program ends: no panic passes through the allocator.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;
/// let mut text = String::new();
/// hakmem::write_json(&mut text)?;
/// assert!(text.starts_with('{') && text.trim_end().ends_with('}'));
/// # Ok::<(), std::fmt::Error>(())
/// ```
pub fn write_json(out: &mut dyn fmt::Write) -> fmt::Result {
    unsafe extern "C" fn write(context: *mut c_void, text: *const c_char, bytes: usize) -> bool {
        // SAFETY: `context` is the sink below, and the allocator gives `bytes` bytes of text.
        let (sink, text) = unsafe { (&mut *context.cast::<Sink>(), slice::from_raw_parts(text.cast::<u8>(), bytes)) };
        sink.result = str::from_utf8(text).map_err(|_| fmt::Error).and_then(|text| sink.out.write_str(text));
        sink.result.is_ok()
    }
    let mut sink = Sink { out, result: Ok(()) };
    unsafe { hakmem_sys::hak_stats_json(write, (&raw mut sink).cast()) };
    sink.result
}
