//! Whose blocks the C parts of a program get: hakmem's with the feature `malloc`, and only then.
//!
//! SPDX-License-Identifier: MIT
use std::ffi::{CStr, CString, c_char, c_void};

#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn strdup(text: *const c_char) -> *mut c_char;
}

#[test]
fn malloc_of_the_program() {
    unsafe {
        let block = malloc(100);
        assert_eq!(hakmem::owns(block), cfg!(feature = "malloc"));
        free(block);
    }
}

#[test]
fn malloc_of_the_c_library() {
    let text = CString::new("a copy made by a function of the C library").unwrap();
    unsafe {
        let copy = strdup(text.as_ptr());
        assert_eq!(hakmem::owns(copy), cfg!(feature = "malloc"));
        assert_eq!(CStr::from_ptr(copy), text.as_c_str());
        free(copy.cast());
    }
}

#[test]
fn rust_has_its_blocks_from_hakmem_either_way() {
    let block = Box::new([0u8; 100]);
    assert!(hakmem::owns(&raw const *block));
}
