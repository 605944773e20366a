// SPDX-License-Identifier: MIT
//! Every sample as a line of CSV. Rows and allocators without a sample have one line with the reason.
//!
//! The ratios are to what the baseline took in the same round: 1 is as much, and less is better.

use std::collections::BTreeMap;
use std::fmt::Display;

use anyhow::Result;

use crate::analysis::Measure;
use crate::baseline;
use crate::results::{Column, Results, Row, Sample};

const HEADER: [&str; 28] = [
    "family",
    "row",
    "kind",
    "threads",
    "allocator",
    "version",
    "round",
    "figure",
    "value",
    "memory",
    "memory_mib",
    "wall_seconds",
    "user_seconds",
    "system_seconds",
    "peak_kib",
    "minor_faults",
    "major_faults",
    "served_by",
    "failure",
    "commit",
    "huge_pages",
    "latency",
    "peak_tree_kib",
    "parameters",
    "baseline",
    "time_ratio",
    "memory_ratio",
    "memories",
];

pub fn samples(results: &Results) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for row in &results.rows {
        let base = baseline::of_row(results, row);
        for column in &row.columns {
            if column.samples.is_empty() {
                writer.write_record(record(results, row, column, None, base))?;
            }
            for sample in &column.samples {
                writer.write_record(record(results, row, column, Some(sample), base))?;
            }
        }
    }
    Ok(writer.into_inner()?)
}

fn record(results: &Results, row: &Row, column: &Column, sample: Option<&Sample>, base: Option<&str>) -> Vec<String> {
    let allocator = results.allocators.iter().find(|allocator| allocator.name == column.allocator);
    let of = |value: &dyn Fn(&Sample) -> String| sample.map(value).unwrap_or_default();
    let failure = row.not_run.as_ref().map(|reason| format!("not run: {reason}"));
    vec![
        row.family.clone(),
        row.name.clone(),
        row.kind.clone(),
        row.threads.to_string(),
        column.allocator.clone(),
        allocator.map(|allocator| allocator.version.clone()).unwrap_or_default(),
        of(&|sample| sample.round.to_string()),
        row.figure.as_ref().map(|figure| figure.key.clone()).unwrap_or_default(),
        of(&|sample| sample.figure.map(|value| value.to_string()).unwrap_or_default()),
        row.memory.clone(),
        of(&|sample| sample.memory_mib.to_string()),
        of(&|sample| sample.usage.wall_seconds.to_string()),
        of(&|sample| sample.usage.user_seconds.to_string()),
        of(&|sample| sample.usage.system_seconds.to_string()),
        of(&|sample| sample.usage.peak_kib.to_string()),
        of(&|sample| sample.usage.minor_faults.to_string()),
        of(&|sample| sample.usage.major_faults.to_string()),
        column.proof.as_ref().map(|proof| proof.answered_by.clone()).unwrap_or_default(),
        failure.or_else(|| column.failure.clone()).unwrap_or_default(),
        results.commit.clone().unwrap_or_default(),
        row.huge_pages.clone().unwrap_or_default(),
        of(&|sample| pairs(&sample.latency)),
        of(&|sample| sample.peak_tree_kib.map(|kib| kib.to_string()).unwrap_or_default()),
        pairs(&row.parameters),
        base.unwrap_or_default().to_owned(),
        of(&|sample| ratio(row, column, sample, base, if row.is_latency() { Measure::Latency } else { Measure::Time })),
        of(&|sample| ratio(row, column, sample, base, Measure::Memory)),
        of(&|sample| pairs(&sample.memories)),
    ]
}

fn pairs<V: Display>(values: &BTreeMap<String, V>) -> String {
    let pairs = values.iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

fn ratio(row: &Row, column: &Column, sample: &Sample, base: Option<&str>, measure: Measure) -> String {
    let of = |column: &Column| measure.costs(row, column).into_iter().find(|(round, _)| *round == sample.round);
    let pair = of(column).zip(base.and_then(|name| row.column(name)).and_then(of));
    pair.map(|((_, cost), (_, base))| (cost / base).to_string()).unwrap_or_default()
}
