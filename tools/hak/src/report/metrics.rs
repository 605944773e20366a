// SPDX-License-Identifier: MIT
//! What is shown of a run besides its figure. Less is better for all of it.

use crate::analysis::Against;
use crate::report::format;
use crate::results::{Column, Row, Sample};
use crate::stats::{CONFIDENCE, Difference, Evidence, Ratios, Summary};

pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    of: fn(&Sample) -> Option<f64>,
}

pub const WALL: Metric = Metric { name: "wall time", unit: "s", of: |sample| Some(sample.usage.wall_seconds) };
pub const PEAK: Metric =
    Metric { name: "peak memory", unit: "MiB", of: |sample| Some(sample.usage.peak_kib as f64 / 1024.0) };
/// Without the time in which other work had the processors.
pub const PROCESSOR: Metric =
    Metric { name: "processor time", unit: "s", of: |sample| Some(sample.usage.processor_seconds()) };
pub const USER: Metric = Metric { name: "user time", unit: "s", of: |sample| Some(sample.usage.user_seconds) };
pub const SYSTEM: Metric = Metric { name: "system time", unit: "s", of: |sample| Some(sample.usage.system_seconds) };

pub const METRICS: [Metric; 8] = [
    WALL,
    PROCESSOR,
    USER,
    SYSTEM,
    PEAK,
    Metric {
        name: "peak memory of all processes",
        unit: "MiB",
        of: |sample| Some(sample.peak_tree_kib? as f64 / 1024.0),
    },
    Metric { name: "minor page faults", unit: "", of: |sample| Some(sample.usage.minor_faults as f64) },
    Metric { name: "major page faults", unit: "", of: |sample| Some(sample.usage.major_faults as f64) },
];

impl Metric {
    /// "wall time (s)".
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.name.into() } else { format!("{} ({})", self.name, self.unit) }
    }
}

pub struct Line {
    pub allocator: String,
    pub summary: Summary,
    pub samples: Vec<f64>,
    /// To the one that it is compared with; that one has none.
    pub ratios: Option<Ratios>,
    pub is_base: bool,
    against_best: bool,
}

impl Line {
    /// What the ratio's cell says.
    pub fn ratio(&self) -> String {
        let Some(ratios) = &self.ratios else {
            return if self.is_base { format::ratio(1.0) } else { "-".into() };
        };
        let text = ratios.estimate(CONFIDENCE).map(|estimate| format::estimate(&estimate));
        text.unwrap_or_else(|| format::ratio(ratios.ratio()))
    }

    /// Beside it.
    pub fn remark(&self) -> &'static str {
        let base = if self.against_best { "best" } else { "base" };
        self.difference().map_or(base, format::difference)
    }

    /// Whether it is not known to be another value than that of the base.
    pub fn is_noise(&self) -> bool {
        self.difference().is_some_and(|difference| difference != Difference::Real)
    }

    pub fn difference(&self) -> Option<Difference> {
        if self.is_base {
            return None;
        }
        Some(self.ratios.as_ref().map_or(Difference::Unknown, Ratios::difference))
    }
}

struct Measured {
    allocator: String,
    rounds: Vec<(u32, f64)>,
    summary: Summary,
}

/// Of a row's allocators that count: the one that others are compared with, then the best median first.
pub fn lines(row: &Row, metric: &Metric, against: Against) -> Vec<Line> {
    let rounds = |column: &Column| -> Vec<(u32, f64)> {
        column.samples.iter().filter_map(|sample| Some((sample.round, (metric.of)(sample)?))).collect()
    };
    let columns = row.columns.iter().filter(|column| column.counts());
    let measured = |column: &Column| {
        let rounds = rounds(column);
        let summary = Summary::of(&rounds.iter().map(|(_, value)| *value).collect::<Vec<_>>())?;
        Some(Measured { allocator: column.allocator.clone(), rounds, summary })
    };
    let mut found: Vec<Measured> = columns.filter_map(measured).collect();
    found.sort_by(|a, b| a.summary.median.total_cmp(&b.summary.median));
    let base = match against {
        Against::One(name) => found.iter().position(|one| one.allocator == name),
        Against::Best => (!found.is_empty()).then_some(0),
    };
    if let Some(base) = base {
        found[..=base].rotate_right(1);
    }
    let base_rounds = base.map(|_| found[0].rounds.clone());
    let line = |(index, one): (usize, Measured)| Line {
        ratios: base_rounds.as_ref().filter(|_| index > 0).and_then(|base| Ratios::paired(&one.rounds, base)),
        samples: one.rounds.into_iter().map(|(_, value)| value).collect(),
        allocator: one.allocator,
        summary: one.summary,
        is_base: base.is_some() && index == 0,
        against_best: against == Against::Best,
    };
    found.into_iter().enumerate().map(line).collect()
}

/// Of counts that were taken once.
pub fn ratio(value: f64, base: f64) -> Option<f64> {
    if value == base { Some(1.0) } else { (base > 0.0).then(|| value / base) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::row_of;

    #[test]
    fn the_base_comes_first_and_then_the_best() {
        let row = row_of(&[("a", &[3.0]), ("glibc", &[2.0]), ("b", &[1.0]), ("failed", &[])]);
        let names = |against: Against| -> Vec<(String, Option<f64>)> {
            let lines = lines(&row, &WALL, against).into_iter();
            lines.map(|line| (line.allocator, line.ratios.map(|ratios| ratios.ratio()))).collect()
        };
        let pairs = |pairs: [(&str, Option<f64>); 3]| pairs.map(|(name, ratio)| (name.to_owned(), ratio)).to_vec();
        assert_eq!(names(Against::One("glibc")), pairs([("glibc", None), ("b", Some(0.5)), ("a", Some(1.5))]));
        let best = names(Against::Best);
        assert_eq!((best[0].0.as_str(), best[0].1, best[1].1), ("b", None, Some(2.0)));
        assert_eq!(names(Against::One("failed")), pairs([("b", None), ("glibc", None), ("a", None)]));
    }
}
