//! The memory allocator hakmem as its header `hakmem.h` declares it: the C sources come along, and are
//! compiled into the program under names of their own. The crate `hakmem` makes it the allocator of a
//! Rust program.
//!
//! The header, in `c/include` of this crate, says what each function promises. A build script of a
//! crate that depends on this one finds its folder in the variable `DEP_HAKMEM_INCLUDE`.
//!
//! SPDX-License-Identifier: MIT
#![no_std]
#![allow(non_camel_case_types)]

mod stats;

use core::ffi::{c_char, c_int, c_void};
use core::marker::PhantomData;

pub use stats::{hak_account_t, hak_heap_stats_t, hak_stats_t};

/// A heap of the program's own: a number in a pointer's clothes, at which nothing lies.
#[repr(C)]
pub struct hak_heap_t {
    _nothing: [u8; 0],
    _marker: PhantomData<*mut u8>,
}

/// Takes a piece of text, which does not end with a zero byte; returns false to stop.
pub type hak_write_fn = unsafe extern "C" fn(context: *mut c_void, text: *const c_char, bytes: usize) -> bool;

unsafe extern "C" {
    pub fn hak_malloc(bytes: usize) -> *mut c_void;
    pub fn hak_calloc(count: usize, bytes: usize) -> *mut c_void;
    pub fn hak_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    pub fn hak_reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void;
    pub fn hak_aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
    pub fn hak_posix_memalign(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int;
    pub fn hak_free(block: *mut c_void);
    pub fn hak_free_sized(block: *mut c_void, bytes: usize);
    pub fn hak_free_aligned_sized(block: *mut c_void, alignment: usize, bytes: usize);
    pub fn hak_usable_size(block: *const c_void) -> usize;

    pub fn hak_heap_new(limit_bytes: usize) -> *mut hak_heap_t;
    pub fn hak_heap_set_limit(heap: *mut hak_heap_t, limit_bytes: usize);
    pub fn hak_heap_destroy(heap: *mut hak_heap_t);
    pub fn hak_heap_malloc(heap: *mut hak_heap_t, bytes: usize) -> *mut c_void;
    pub fn hak_heap_calloc(heap: *mut hak_heap_t, count: usize, bytes: usize) -> *mut c_void;
    pub fn hak_heap_aligned_alloc(heap: *mut hak_heap_t, alignment: usize, bytes: usize) -> *mut c_void;
    pub fn hak_heap_realloc(heap: *mut hak_heap_t, block: *mut c_void, bytes: usize) -> *mut c_void;
    pub fn hak_heap_free(heap: *mut hak_heap_t, block: *mut c_void);
    pub fn hak_heap_owns(heap: *const hak_heap_t, address: *const c_void) -> bool;
    pub fn hak_heap_stats(heap: *const hak_heap_t, out: *mut hak_heap_stats_t, out_bytes: usize);

    pub fn hak_owns(address: *const c_void) -> bool;
    pub fn hak_thread_flush();
    pub fn hak_thread_idle() -> usize;
    pub fn hak_trim(keep_bytes: usize) -> bool;
    pub fn hak_set_soft_limit(bytes: usize);
    pub fn hak_version() -> *const c_char;
    pub fn hak_stats(out: *mut hak_stats_t, out_bytes: usize);
    pub fn hak_account(out: *mut hak_account_t, out_bytes: usize);
    pub fn hak_stats_json(write: hak_write_fn, context: *mut c_void);
}
