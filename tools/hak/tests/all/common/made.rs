// SPDX-License-Identifier: MIT
//! A comparison that was never run: eleven allocators, nine rounds, and what they had resident.

use serde_json::{Value, json};

/// Name, seconds and MiB, and how far each round is from them.
pub const ALLOCATORS: [(&str, f64, f64, f64); 11] = [
    ("glibc", 0.300, 30.0, 0.01),
    ("hakmem", 0.264, 31.2, 0.012),
    ("mimalloc3", 0.270, 41.0, 0.01),
    ("snmalloc", 0.299, 33.0, 0.02),
    ("rpmalloc", 0.301, 38.0, 0.03),
    ("jemalloc", 0.310, 36.0, 0.01),
    ("tcmalloc", 0.268, 39.5, 0.02),
    ("mimalloc-deb", 0.272, 40.0, 0.01),
    ("jemalloc-deb", 0.312, 36.1, 0.02),
    ("tcmalloc-deb", 0.269, 39.4, 0.01),
    ("tbbmalloc-deb", 0.450, 60.0, 0.05),
];

/// That has to be broken where a page is narrow.
pub const LONG_WORD: &str = "/srv/some/rather/long/path/of/a/file/that/has/no/place/for/a/line/to/end.data";

pub fn comparison() -> Value {
    let allocators: Vec<Value> = ALLOCATORS
        .iter()
        .map(|(name, ..)| json!({"name": name, "version": "1.0", "library": null, "source": "made"}))
        .collect();
    let columns: Vec<Value> = ALLOCATORS.iter().map(column).collect();
    let mut results = json!({
        "format": "hak results", "version": 1, "kind": "compare", "tool_version": "0.1.0", "commit": null,
        "machine": {"architecture": "x86_64", "cpu": "Some CPU", "cores": 2, "memory_mib": 24576,
            "kernel": "Linux 6.1", "system": "Debian GNU/Linux 12 (bookworm)", "transparent_huge_pages": "madvise"},
        "started": "2026-02-01T12:00:00Z", "ended": "2026-02-01T12:01:00Z", "state": "complete", "quick": false,
        "rounds": 9, "allocators": allocators, "rows": [],
    });
    let words = ["perl", "-e", "my @a = map { \"x$_\" } 1..200000", LONG_WORD];
    results["rows"] = json!([{
        "name": words.join(" "), "family": "compare", "kind": "program", "threads": 1, "command": words,
        "figure": {"key": "wall_seconds", "more_is_better": false}, "memory": "peak resident memory",
        "not_run": null, "columns": columns,
    }]);
    results
}

fn column((name, seconds, mib, scatter): &(&str, f64, f64, f64)) -> Value {
    let sample = |round: u32| {
        // Some way off, to each side, in an order of its own for each allocator.
        let off = f64::from((round * 7 + name.len() as u32 * 5) % 9) / 4.0 - 1.0;
        let wall = seconds * (1.0 + scatter * off);
        let kib = |part: f64| (mib * 1024.0 * part) as u64;
        let course: Vec<[u64; 2]> = (0..=30u64)
            .map(|step| [(wall * 1e3 * step as f64 / 30.0) as u64, kib((step as f64 / 20.0).min(1.0).powf(0.7))])
            .collect();
        json!({
            "round": round, "figure": wall, "memory_mib": mib * (1.0 + scatter * off / 50.0),
            "usage": {"wall_seconds": wall, "user_seconds": wall * 0.9, "system_seconds": wall * 0.08,
                "peak_kib": kib(1.0 + scatter * off / 50.0), "minor_faults": kib(0.25), "major_faults": 0},
            "peak_tree_kib": kib(1.0),
            "memory_over_time": if round <= 3 { course } else { Vec::new() },
        })
    };
    json!({
        "allocator": name, "proof": {"answered_by": format!("lib{name}.so"), "evidence": "made"}, "failure": null,
        "samples": (1..=9).map(sample).collect::<Vec<_>>(),
        "system_calls": {"counted": {"mmap": 120, "munmap": 20, "brk": 3}},
    })
}
