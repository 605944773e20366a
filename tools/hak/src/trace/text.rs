// SPDX-License-Identifier: MIT
//! `hak explain` for people.

use std::fmt::Write;

use crate::trace::explain::{Band, CHAIN, Facts, LARGE, LIVES, SHORT};

pub fn text(facts: &Facts) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!(
        "{}: {} of {} in {:.1} s",
        shown(&facts.command),
        count(facts.events, "event"),
        count(facts.threads, "thread"),
        facts.seconds
    ));
    line(format!(
        "  {} of {} in all, {} of them cleared, {} aligned (to {} at most); {} refused",
        count(facts.allocations, "allocation"),
        bytes(facts.bytes),
        facts.callocs,
        facts.aligned,
        bytes(facts.largest_alignment),
        facts.refused
    ));
    line(format!(
        "  live at the peak, after {} ms: {} in {}; at the end {} in {}",
        facts.peak_ms,
        bytes(facts.peak_bytes),
        count(facts.peak_blocks, "block"),
        bytes(facts.end_bytes),
        count(facts.end_blocks, "block")
    ));
    if facts.exec_blocks > 0 {
        line(format!(
            "  exec took along {} in {}, which a replay frees",
            bytes(facts.exec_bytes),
            count(facts.exec_blocks, "block")
        ));
    }
    line(format!(
        "  {}, {} of them by another thread than the one that allocated",
        count(facts.frees, "free"),
        percent(facts.frees_by_others, facts.frees)
    ));
    line(format!(
        "  {} realloc, {} of them moved {}; {} grown or shrunk {CHAIN} times or more, the longest chain has {}",
        facts.reallocations,
        facts.moved,
        bytes(facts.moved_bytes),
        count(facts.chains, "block"),
        facts.longest_chain
    ));
    line(format!(
        "  short-lived large blocks (from {}, freed before {SHORT} more allocations): {} of {} in all",
        bytes(LARGE),
        facts.short_large,
        bytes(facts.short_large_bytes)
    ));
    line(format!(
        "  {} came to lie in a cache line with a live block of another thread (candidates for false sharing)",
        count(facts.shared_lines, "allocation")
    ));
    line(String::new());
    lives(facts, &mut line);
    line(String::new());
    fragments(facts, &mut line);
    for (number, what) in [
        (facts.lost, "events are missing, of calls that hak could not read"),
        (facts.unknown, "calls concern blocks that the trace does not know"),
        (facts.implied, "blocks were freed by calls that the trace does not have"),
    ] {
        if number > 0 {
            line(format!("{number} {what}"));
        }
    }
    out
}

/// A command line in one line: a file may come from anywhere, and what stands in it is not to steer a terminal.
pub fn shown(words: &[String]) -> String {
    let escaped = |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
    words.join(" ").chars().map(escaped).collect()
}

fn lives(facts: &Facts, line: &mut impl FnMut(String)) {
    line("Lifetimes by size: freed before so many more allocations, in % of the allocations".into());
    let heads: Vec<String> = LIVES.iter().map(|most| format!("{most:>7}")).collect();
    line(format!("{:>9} {:>11} {:>9} {}   later   never", "up to", "allocations", "bytes", heads.join(" ")));
    for band in facts.bands.iter().filter(|band| band.allocations > 0) {
        let share = |part: u64| format!("{:>7}", percent(part, band.allocations));
        let parts: Vec<String> = band.lives.iter().chain([&band.kept]).map(|part| share(*part)).collect();
        line(format!("{:>9} {:>11} {:>9} {}", limit(band), band.allocations, bytes(band.bytes), parts.join(" ")));
    }
}

fn fragments(facts: &Facts, line: &mut impl FnMut(String)) {
    let gap = facts.least_filled_page_bytes.saturating_sub(facts.least_filled_bytes);
    line(format!(
        "Fragmentation: most of the pages of live blocks was not theirs after {} ms: {} of {}",
        facts.least_filled_ms,
        bytes(gap),
        bytes(facts.least_filled_page_bytes)
    ));
    let mut bands: Vec<&Band> = facts.bands.iter().filter(|band| band.live_then > 0).collect();
    bands.sort_by_key(|band| std::cmp::Reverse(band.page_bytes_then.saturating_sub(band.bytes_then)));
    line(format!("{:>9} {:>11} {:>9} {:>9} {:>7}", "up to", "live blocks", "bytes", "of pages", "filled"));
    for band in bands.iter().take(8) {
        line(format!(
            "{:>9} {:>11} {:>9} {:>9} {:>7}",
            limit(band),
            band.live_then,
            bytes(band.bytes_then),
            bytes(band.page_bytes_then),
            percent(band.bytes_then, band.page_bytes_then)
        ));
    }
}

fn limit(band: &Band) -> String {
    bytes(band.up_to)
}

pub fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "0 %".into() } else { format!("{:.0} %", part as f64 / whole as f64 * 100.0) }
}

pub fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 100.0 && value.fract() > 0.0);
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_does_not_steer_the_terminal() {
        let words = ["sh", "-c", "a\n\u{1b}]0;x\u{7}\u{9b}1m", "\u{e4} b"].map(String::from);
        assert_eq!(shown(&words), "sh -c a\\n\\u{1b}]0;x\\u{7}\\u{9b}1m \u{e4} b");
        let facts = Facts { command: words.to_vec(), ..Facts::default() };
        assert!(text(&facts).lines().next().unwrap().starts_with("sh -c a\\n\\u{1b}]0;x"));
    }
}
