// SPDX-License-Identifier: MIT
//! What is shown of a run besides its figure. Less is better for all of it.

use crate::results::{Row, Sample};
use crate::stats::{self, Difference, Summary};

pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    of: fn(&Sample) -> f64,
}

pub const METRICS: [Metric; 6] = [
    Metric { name: "wall time", unit: "s", of: |sample| sample.usage.wall_seconds },
    Metric { name: "user time", unit: "s", of: |sample| sample.usage.user_seconds },
    Metric { name: "system time", unit: "s", of: |sample| sample.usage.system_seconds },
    Metric { name: "peak memory", unit: "MiB", of: |sample| sample.usage.peak_kib as f64 / 1024.0 },
    Metric { name: "minor page faults", unit: "", of: |sample| sample.usage.minor_faults as f64 },
    Metric { name: "major page faults", unit: "", of: |sample| sample.usage.major_faults as f64 },
];

pub struct Line {
    pub allocator: String,
    pub summary: Summary,
    pub samples: Vec<f64>,
    /// To the smallest median; `None` when that is zero and this is not.
    pub ratio: Option<f64>,
    /// From the best; `None` for the best.
    pub difference: Option<Difference>,
}

/// Of a row's allocators that count, best median first.
pub fn lines(row: &Row, metric: &Metric) -> Vec<Line> {
    let mut lines: Vec<Line> = row
        .columns
        .iter()
        .filter(|column| column.counts())
        .filter_map(|column| {
            let samples = column.values(|sample| Some((metric.of)(sample)));
            Some(Line {
                allocator: column.allocator.clone(),
                summary: Summary::of(&samples)?,
                samples,
                ratio: Some(1.0),
                difference: None,
            })
        })
        .collect();
    lines.sort_by(|a, b| a.summary.median.total_cmp(&b.summary.median));
    if let Some((best, others)) = lines.split_first_mut() {
        for line in others {
            line.ratio = ratio(line.summary.median, best.summary.median);
            line.difference = Some(stats::difference(&line.samples, &best.samples));
        }
    }
    lines
}

pub fn ratio(value: f64, best: f64) -> Option<f64> {
    if value == best { Some(1.0) } else { (best > 0.0).then(|| value / best) }
}
