//! A program whose blocks come from the crate: every size, alignment and way that a Rust program has.
//!
//! SPDX-License-Identifier: MIT
use std::alloc::{GlobalAlloc, Layout, alloc_zeroed, dealloc};
use std::hint::black_box;
use std::process::Command;
use std::thread;

#[global_allocator]
static ALLOCATOR: hakmem::Hakmem = hakmem::Hakmem;

const SIZES: [usize; 9] = [1, 8, 24, 100, 1024, 5000, 70_000, 1 << 20, 9 << 20];
const ALIGNMENTS: [usize; 7] = [1, 8, 16, 32, 64, 4096, 1 << 16];

// The compiler knows what these do, and would leave out what is not looked at.
unsafe fn alloc(layout: Layout) -> *mut u8 {
    black_box(unsafe { std::alloc::alloc(layout) })
}
unsafe fn realloc(block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    black_box(unsafe { std::alloc::realloc(block, layout, new_size) })
}

fn layouts() -> impl Iterator<Item = Layout> {
    let of = |size| ALIGNMENTS.into_iter().map(move |alignment| Layout::from_size_align(size, alignment).unwrap());
    SIZES.into_iter().flat_map(of)
}

fn check(block: *mut u8, layout: Layout) {
    assert!(!block.is_null(), "{layout:?}");
    assert!(hakmem::owns(block), "{layout:?}");
    assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
    assert!(unsafe { hakmem::usable_size(block) } >= layout.size(), "{layout:?}");
}

#[test]
fn blocks_have_their_size_and_alignment() {
    for layout in layouts() {
        unsafe {
            let blocks: Vec<_> = (0..3).map(|_| alloc(layout)).collect();
            for block in blocks {
                check(block, layout);
                block.write_bytes(0xab, layout.size());
                dealloc(block, layout);
            }
        }
    }
}

#[test]
fn zeroed_blocks_are_zero_where_others_have_written() {
    for layout in layouts() {
        unsafe {
            for _ in 0..2 {
                let block = alloc_zeroed(layout);
                check(block, layout);
                assert!(std::slice::from_raw_parts(block, layout.size()).iter().all(|byte| *byte == 0), "{layout:?}");
                block.write_bytes(0xff, layout.size());
                dealloc(block, layout);
            }
        }
    }
}

#[test]
fn realloc_keeps_contents_and_alignment() {
    for layout in layouts() {
        for new_size in SIZES {
            unsafe {
                let block = alloc(layout);
                block.write_bytes(0x5a, layout.size());
                let block = realloc(block, layout, new_size);
                let new_layout = Layout::from_size_align(new_size, layout.align()).unwrap();
                check(block, new_layout);
                let kept = std::slice::from_raw_parts(block, layout.size().min(new_size));
                assert!(kept.iter().all(|byte| *byte == 0x5a), "{layout:?} to {new_size}");
                dealloc(block, new_layout);
            }
        }
    }
}

#[test]
fn what_cannot_be_had_is_null() {
    let layout = Layout::from_size_align(isize::MAX as usize - 4096, 8).unwrap();
    unsafe {
        assert!(alloc(layout).is_null());
        assert!(black_box(alloc_zeroed(layout)).is_null());
        let small = Layout::new::<[u8; 64]>();
        let block = alloc(small);
        assert!(realloc(block, small, layout.size()).is_null());
        dealloc(block, small);
        let aligned = Layout::from_size_align(64, 64).unwrap();
        let block = alloc(aligned);
        assert!(realloc(block, aligned, layout.size()).is_null());
        dealloc(block, aligned); // is still there
    }
    assert!(Vec::<u8>::new().try_reserve(isize::MAX as usize).is_err());
}

#[test]
fn threads_free_what_others_have_allocated() {
    let (send, receive) = std::sync::mpsc::channel::<Vec<String>>();
    let consumer = thread::spawn(move || receive.iter().flatten().map(|text| text.len()).sum::<usize>());
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let send = send.clone();
            thread::spawn(move || (0..100).for_each(|i| send.send(vec!["x".repeat(i); 50]).unwrap()))
        })
        .collect();
    drop(send);
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    assert_eq!(consumer.join().unwrap(), 4 * 50 * (0..100).sum::<usize>());
}

#[test]
fn all_values_are_one_heap() {
    let layout = Layout::new::<u64>();
    unsafe { hakmem::Hakmem.dealloc(alloc(layout), layout) };
    let own = Box::new(1);
    assert!(hakmem::owns(&raw const *own));
    assert!(!hakmem::owns("a constant of the program"));
}

#[test]
fn a_library_thread_is_there_with_the_feature_only() {
    let names = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name =
            |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("comm")).ok();
        tasks.filter_map(name).collect::<Vec<_>>()
    };
    thread::spawn(|| ()).join().unwrap();
    // It gives itself its name when it runs.
    let named = |names: Vec<String>| names.iter().any(|name| name == "hakmem-int\n");
    let mut is_there = named(names());
    for _ in 0..100 {
        if is_there {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(20));
        is_there = named(names());
    }
    assert_eq!(is_there, cfg!(feature = "background"), "{:?}", names());
}

/// Runs a test of this program alone in a process with HAK_CHILD set, and gives its output.
fn child(test: &str, environment: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("HAK_CHILD", "1").envs(environment.iter().copied());
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_wrong_layout_is_reported_with_debug_assertions() {
    if std::env::var_os("HAK_CHILD").is_some() {
        return unsafe { dealloc(alloc(Layout::new::<[u8; 48]>()), Layout::new::<[u8; 480]>()) };
    }
    let (succeeded, said) = child("a_wrong_layout_is_reported_with_debug_assertions", &[]);
    assert_eq!(succeeded, !cfg!(debug_assertions), "{said}");
    assert_eq!(said.contains("hakmem: "), cfg!(debug_assertions), "{said}");
}

#[test]
fn a_double_free_is_reported() {
    if std::env::var_os("HAK_CHILD").is_some() {
        let layout = Layout::new::<[u8; 48]>();
        unsafe {
            let block = alloc(layout);
            dealloc(block, layout);
            dealloc(block, layout);
        }
        return hakmem::thread_flush();
    }
    let (succeeded, said) = child("a_double_free_is_reported", &[]);
    assert!(!succeeded && said.contains("hakmem: double free"), "{said}");
}

#[test]
fn settings_are_read_and_the_report_is_written() {
    if std::env::var_os("HAK_CHILD").is_some() {
        return;
    }
    let environment = [("HAKMEM_STATS", "1"), ("HAKMEM_STATE", "1")];
    let (succeeded, said) = child("settings_are_read_and_the_report_is_written", &environment);
    assert!(succeeded, "{said}");
    assert!(said.contains("unknown environment variable HAKMEM_STATE"), "{said}");
    assert!(said.contains(hakmem::version()), "{said}");
}
