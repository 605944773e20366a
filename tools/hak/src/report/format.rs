// SPDX-License-Identifier: MIT
//! Numbers and words for people.

use crate::stats::Difference;

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

pub fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

pub fn mean(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.3}"))
}

/// Beside a ratio.
pub fn difference(difference: Option<Difference>) -> &'static str {
    match difference {
        None => "best",
        Some(Difference::Real) => "",
        Some(Difference::Noise) => "noise",
        Some(Difference::Unknown) => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_short() {
        let values = [0.0, 0.001234, 0.01234, 0.1234, 1.234, 12.34, 123.4, 1234.0, 12340.0, 1.5e6, 2.5e9];
        let texts = ["0", "0.00123", "0.0123", "0.123", "1.23", "12.3", "123", "1234", "12.3 k", "1.50 M", "2.50 G"];
        assert_eq!(values.map(number), texts);
    }
}
