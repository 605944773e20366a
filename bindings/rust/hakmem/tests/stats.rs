//! The figures, as Rust sees them, are those of the library that was compiled.
//!
//! SPDX-License-Identifier: MIT
use std::fmt;

#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

#[test]
fn structures_have_the_librarys_size() {
    assert_eq!(hakmem::stats().struct_bytes, size_of::<hakmem::Stats>());
    assert_eq!(hakmem::account().struct_bytes, size_of::<hakmem::Account>());
}

#[test]
fn figures_follow_the_program() {
    const BYTES: usize = 64 << 20;
    let block = std::hint::black_box(vec![1u8; BYTES]);
    let (stats, account) = (hakmem::stats(), hakmem::account());
    assert!(stats.live >= BYTES && stats.huge_bytes >= BYTES, "{stats:?}");
    assert!(stats.committed <= stats.reserved, "{stats:?}");
    assert_eq!(account.is_measured, 1);
    assert!(account.resident_live >= BYTES, "{account:?}");
    assert_eq!(account.mapped, account.resident + account.returned);
    drop(block);
    hakmem::trim(0);
    assert!(hakmem::stats().peak_in_use >= BYTES);
    assert!(hakmem::account().resident < BYTES);
}

#[test]
fn a_soft_limit_is_told() {
    hakmem::set_soft_limit(1 << 30);
    assert_eq!(hakmem::stats().soft_limit, 1 << 30);
    hakmem::set_soft_limit(0);
    assert_eq!(hakmem::stats().soft_limit, 0);
}

#[test]
fn json_has_the_figures() {
    let mut text = String::new();
    hakmem::write_json(&mut text).unwrap();
    for word in ["\"peak_in_use\": ", "\"resident_live\": ", hakmem::version()] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn json_stops_where_the_writer_fails() {
    struct Full(usize);
    impl fmt::Write for Full {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            self.0 += 1;
            if self.0 == 2 { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut full = Full(0);
    assert!(hakmem::write_json(&mut full).is_err());
    assert_eq!(full.0, 2);
}
