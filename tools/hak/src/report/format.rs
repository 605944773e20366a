// SPDX-License-Identifier: MIT
//! Numbers and words for people.
//!
//! Ratios are the same everywhere: how many times as much as the allocator that is compared with, so
//! less is better and 1.00 is that allocator itself.

use crate::results::Row;
use crate::stats::{Difference, Estimate};

/// Three significant digits or a little more, with a unit prefix above a thousand.
pub fn number(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        x if x >= 1e9 => (value / 1e9, " G"),
        x if x >= 1e6 => (value / 1e6, " M"),
        x if x >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        x if x >= 100.0 || x == 0.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 => 2,
        x if x >= 0.1 => 3,
        x if x >= 0.01 => 4,
        _ => 5,
    };
    format!("{scaled:.digits$}{prefix}")
}

pub fn ratio(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}x") } else { format!("{value:.2}x") }
}

/// "0.88x ± 0.03", or without the uncertainty where that is none.
pub fn estimate(estimate: &Estimate) -> String {
    let around = estimate.uncertainty();
    let around = if around >= 10.0 { format!("{around:.0}") } else { format!("{around:.2}") };
    if around == "0.00" { ratio(estimate.ratio) } else { format!("{} ± {around}", ratio(estimate.ratio)) }
}

pub fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

/// Of a ratio of times, with its uncertainty: "12 % faster (± 3 %)".
pub fn time(estimate: &Estimate) -> String {
    change(estimate, ["slower", "faster"], ["as slow", "as fast"])
}

pub fn memory(estimate: &Estimate) -> String {
    if estimate.ratio < 0.5 {
        // A third of the memory is not three times anything.
        return percents(estimate, "less memory");
    }
    change(estimate, ["more memory", "less memory"], ["the memory", ""])
}

/// In percent up to the double and down to the half, beyond that in times.
fn change(estimate: &Estimate, percent_words: [&str; 2], times_words: [&str; 2]) -> String {
    let times = |ratio: f64, around: f64, words: &str| {
        let around = format!("{around:.2}");
        let around = if around == "0.00" { String::new() } else { format!(" (± {around})") };
        format!("{ratio:.2} times {words}{around}")
    };
    match estimate.ratio {
        ratio if ratio > 2.0 => times(ratio, estimate.uncertainty(), times_words[0]),
        ratio if ratio < 0.5 => times(1.0 / ratio, (1.0 / estimate.low - 1.0 / estimate.high) / 2.0, times_words[1]),
        ratio if ratio >= 1.0 => percents(estimate, percent_words[0]),
        _ => percents(estimate, percent_words[1]),
    }
}

/// With a decimal if the uncertainty is below one percent, and without the uncertainty if it is none.
fn percents(estimate: &Estimate, words: &str) -> String {
    let (value, around) = ((estimate.ratio - 1.0).abs() * 100.0, estimate.uncertainty() * 100.0);
    if around >= 0.95 {
        return format!("{value:.0} % {words} (± {around:.0} %)");
    }
    if around >= 0.05 {
        return format!("{value:.1} % {words} (± {around:.1} %)");
    }
    let value = if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    format!("{} % {words}", value.strip_suffix(".0").unwrap_or(&value))
}

pub fn mean(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.3}"))
}

/// Beside a ratio.
pub fn difference(difference: Difference) -> &'static str {
    match difference {
        Difference::Real => "",
        Difference::Noise => "noise",
        Difference::Unknown => "?",
    }
}

/// As it would be typed into a shell.
pub fn command(words: &[String]) -> String {
    shell_words::join(words)
}

/// A row that has no name of its own is named by its command.
pub fn title(row: &Row) -> String {
    if row.name == row.command.join(" ") { command(&row.command) } else { row.name.clone() }
}

/// Lines of at most this many letters, of words that are not longer.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.into());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let values = [0.0, 0.001234, 0.01234, 0.1234, 1.234, 12.34, 123.4, 1234.0, 12340.0, 1.5e6, 2.5e9];
        let texts = ["0", "0.00123", "0.0123", "0.123", "1.23", "12.3", "123", "1234", "12.3 k", "1.50 M", "2.50 G"];
        assert_eq!(values.map(number), texts);
    }

    #[test]
    fn changes_are_said_in_words() {
        let of = |ratio: f64, around: f64| Estimate { ratio, low: ratio - around, high: ratio + around };
        assert_eq!(time(&of(0.88, 0.03)), "12 % faster (± 3 %)");
        assert_eq!(time(&of(1.042, 0.004)), "4.2 % slower (± 0.4 %)");
        assert_eq!(time(&of(3.0, 0.2)), "3.00 times as slow (± 0.20)");
        assert_eq!(time(&of(0.25, 0.0)), "4.00 times as fast");
        assert_eq!(memory(&of(1.04, 0.0)), "4 % more memory");
        assert_eq!(memory(&of(0.3, 0.02)), "70 % less memory (± 2 %)");
        assert_eq!(memory(&of(2.5, 0.02)), "2.50 times the memory (± 0.02)");
        assert_eq!(estimate(&of(0.88, 0.03)), "0.88x ± 0.03");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three", 8), "one two\nthree");
        assert_eq!(wrapped("longer than that", 5), "longer\nthan\nthat");
    }

    #[test]
    fn commands_are_quoted() {
        let words = ["perl", "-e", "print \"a b\"", ""].map(String::from);
        let quoted = command(&words);
        assert_eq!(shell_words::split(&quoted).unwrap(), words);
        assert_eq!(quoted, "perl -e 'print \"a b\"' ''");
        assert_eq!(command(&["ls".into(), "-l".into()]), "ls -l");
    }
}
