// SPDX-License-Identifier: MIT
//! Whether an allocator is the newest one that its project has released: by bench/peers/upstream.toml, which
//! people keep.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

const LIST: &str = include_str!("../../../bench/peers/upstream.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Upstream {
    looked_at: String,
    newest: BTreeMap<String, String>,
}

static UPSTREAM: LazyLock<Upstream> = LazyLock::new(|| toml::from_str(LIST).expect("a test reads it"));

/// For a column "newest upstream".
pub fn newest(allocator: &str, version: &str) -> String {
    match UPSTREAM.newest.get(allocator) {
        Some(newest) if is_older(version, newest) => format!("{newest} is out"),
        Some(_) => "the same".into(),
        None => "-".into(),
    }
}

/// What the column means.
pub fn explained() -> String {
    format!(
        "Newest upstream: what the allocator's own project had released by {}, where that is known.",
        UPSTREAM.looked_at
    )
}

/// By the numbers at their beginnings: 2.0.9+ds-2 is 2.0.9. What has no number is taken for older.
fn is_older(version: &str, newest: &str) -> bool {
    numbers(version) < numbers(newest)
}

fn numbers(version: &str) -> Vec<u64> {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let mut numbers: Vec<u64> = version[..end].split('.').filter_map(|part| part.parse().ok()).collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, newest) in [("3.3.2", "3.7.0"), ("1.4.3+b097fd0", "2.0.0"), ("2.9", "2.10"), ("unknown", "1")] {
            assert!(is_older(version, newest), "{version} {newest}");
        }
        for (version, newest) in [("5.3.1", "5.3.1"), ("5.3.1-2", "5.3.1"), ("2.0", "2.0.0"), ("10.1", "9.9")] {
            assert!(!is_older(version, newest), "{version} {newest}");
        }
    }

    #[test]
    fn the_list_is_of_known_peers_and_has_a_day() {
        let names: Vec<String> = crate::allocators::known(None).into_iter().map(|one| one.name).collect();
        assert!(UPSTREAM.newest.keys().all(|name| names.contains(name)), "{:?}", UPSTREAM.newest);
        assert!(UPSTREAM.newest.values().all(|version| !numbers(version).is_empty()));
        let day: Vec<usize> = UPSTREAM.looked_at.split('-').map(str::len).collect();
        assert_eq!(day, [4, 2, 2], "{}", UPSTREAM.looked_at);
        assert_eq!(newest("rpmalloc", "1.0"), format!("{} is out", UPSTREAM.newest["rpmalloc"]));
        assert_eq!(newest("rpmalloc", &UPSTREAM.newest["rpmalloc"]), "the same");
        assert_eq!(newest("tcmalloc", "2025-06-16"), "-");
    }
}
