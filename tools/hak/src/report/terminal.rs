// SPDX-License-Identifier: MIT
//! What `compare` and `bench` print at their end.

use std::fmt::Write;

use crate::analysis::{self, Measure};
use crate::report::format;
use crate::report::latency;
use crate::report::metrics::{self, METRICS};
use crate::report::table;
use crate::results::{Kind, Results, Row, State, SystemCalls};
use crate::stats;
use crate::syscalls::CALLS;

pub fn comparison(results: &Results) -> String {
    let mut out = String::new();
    for row in &results.rows {
        let rounds = row.columns.iter().map(|column| column.samples.len()).max().unwrap_or(0);
        let _ = writeln!(out, "\n{}\n{rounds} rounds, {}", row.name, results.machine.line());
        for metric in &METRICS {
            out += &metric_table(row, metric);
        }
        out += &system_calls(row);
        out += "\nserved by\n";
        for column in &row.columns {
            let text = match (&column.failure, &column.proof) {
                (Some(reason), _) => format!("FAILED: {reason}"),
                (None, Some(proof)) => format!("{}: {}", proof.answered_by, proof.evidence),
                (None, None) => "not measured".into(),
            };
            let _ = writeln!(out, " {:<14} {text}", column.allocator);
        }
    }
    let _ = writeln!(
        out,
        "\nRatios are of medians, to the best; spread is from the smallest to the largest, by the median.\n{}",
        stats::how_noise_is_told()
    );
    out
}

fn metric_table(row: &Row, metric: &metrics::Metric) -> String {
    let lines = metrics::lines(row, metric);
    // Most programs have none at all.
    if lines.is_empty() || lines.iter().all(|line| line.summary.max == 0.0) {
        return String::new();
    }
    let title = if metric.unit.is_empty() { metric.name.into() } else { format!("{} ({})", metric.name, metric.unit) };
    let mut table = table::new(&[&title, "min", "median", "spread", "ratio", ""]);
    for line in lines {
        table.add_row([
            line.allocator.clone(),
            format::number(line.summary.min),
            format::number(line.summary.median),
            format::percent(line.summary.spread()),
            line.ratio.map_or("-".into(), format::ratio),
            format::difference(line.difference).into(),
        ]);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_constraint(comfy_table::ColumnConstraint::LowerBoundary(comfy_table::Width::Fixed(20)));
    }
    table::align_right(&mut table, 1..5);
    format!("\n{table}\n")
}

fn system_calls(row: &Row) -> String {
    let counted: Vec<_> = row
        .columns
        .iter()
        .filter_map(|column| match &column.system_calls {
            Some(SystemCalls::Counted(counts)) => Some((column, counts, counts.values().sum::<u64>())),
            _ => None,
        })
        .collect();
    let Some(best) = counted.iter().map(|(_, _, total)| *total).min() else {
        return "\nsystem calls for memory: n/a\n".into();
    };
    let mut headers = vec!["calls (one run)"];
    headers.extend(CALLS);
    headers.extend(["all", "ratio"]);
    let mut table = table::new(&headers);
    for (column, counts, total) in counted {
        let mut cells = vec![column.allocator.clone()];
        cells.extend(CALLS.iter().map(|&call| counts.get(call).copied().unwrap_or(0).to_string()));
        cells.push(total.to_string());
        cells.push(metrics::ratio(total as f64, best as f64).map_or("-".into(), format::ratio));
        table.add_row(cells);
    }
    table::align_right(&mut table, 1..CALLS.len() + 3);
    format!("\n{table}\n")
}

/// Rows where hakmem loses first, then the means.
pub fn summary(results: &Results) -> String {
    let mut out = String::new();
    for measure in Measure::ALL {
        out += &duel_table(results, measure);
    }
    out += &latency_tables(results);
    out += &means_table(results);
    let not_run: Vec<&Row> = results.rows.iter().filter(|row| row.not_run.is_some()).collect();
    for row in &not_run {
        let _ = writeln!(out, "not run: {}: {}", row.name, row.not_run.as_deref().unwrap_or_default());
    }
    let failures = results.failures();
    for failure in &failures {
        let _ = writeln!(out, "FAILED: {failure}");
    }
    let ran = results.rows.len() - not_run.len();
    let _ = writeln!(
        out,
        "{ran} of {} rows ran under {} allocators in {} rounds; {} not run; {} failures",
        results.rows.len(),
        results.allocators.len(),
        results.rounds,
        not_run.len(),
        failures.len()
    );
    if results.state == State::Interrupted {
        out += "The measurement was interrupted.\n";
    }
    debug_assert!(results.kind == Kind::Bench);
    out
}

fn duel_table(results: &Results, measure: Measure) -> String {
    let duels = analysis::worst_first(results, measure);
    if duels.is_empty() {
        return String::new();
    }
    let title = format!("{}: rows, worst first", measure.name());
    let mut table = table::new(&[&title, "hakmem", "best peer", "", "hakmem is", ""]);
    for (row, duel) in &duels {
        let better = if duel.advantage >= 1.0 { "better" } else { "WORSE" };
        let by = if duel.advantage >= 1.0 { duel.advantage } else { 1.0 / duel.advantage };
        table.add_row([
            row.name.clone(),
            format::number(duel.hakmem_value),
            format::number(duel.peer_value),
            duel.peer.clone(),
            format!("{} {better}", format::ratio(by)),
            match duel.difference {
                stats::Difference::Real => String::new(),
                other => format::difference(Some(other)).into(),
            },
        ]);
    }
    table::align_right(&mut table, 1..3);
    table::align_right(&mut table, 4..5);
    format!("\n{table}\n{}: {}.\n", measure.name(), analysis::count(&duels))
}

fn latency_tables(results: &Results) -> String {
    let mut out = String::new();
    for latency in latency::tables(results) {
        let titles: Vec<String> = latency.keys.iter().map(|key| latency::title(key)).collect();
        let mut headers = vec![latency.row.name.as_str()];
        headers.extend(titles.iter().map(String::as_str));
        let mut table = table::new(&headers);
        for (name, values) in &latency.lines {
            let values = values.iter().map(|value| value.map_or("-".into(), format::number));
            table.add_row(std::iter::once(name.clone()).chain(values));
        }
        table::align_right(&mut table, 1..headers.len());
        let _ = writeln!(out, "\n{table}");
    }
    if !out.is_empty() {
        let _ = writeln!(out, "{}", latency::EXPLAINED);
    }
    out
}

fn means_table(results: &Results) -> String {
    let mut table = table::new(&["allocator", "version", "time", "rows", "memory", "rows", "failed"]);
    for row in table::mean_rows(results) {
        table.add_row(row);
    }
    table::align_right(&mut table, 2..7);
    format!("\n{table}\n{}\n{}\n\n", analysis::DEFINITIONS, stats::how_noise_is_told())
}
