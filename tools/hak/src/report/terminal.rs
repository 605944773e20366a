// SPDX-License-Identifier: MIT
//! What `compare` prints at its end.

use std::fmt::Write;

use crate::analysis::Against;
use crate::report::format;
use crate::report::metrics::{self, METRICS, Metric, PEAK, WALL};
use crate::report::table::{self, Fitted};
use crate::report::timeline;
use crate::results::{Results, Row, State, SystemCalls};
use crate::stats;
use crate::syscalls::CALLS;
use crate::verdict;

/// Ratios are to the baseline, or to the best where that is asked for.
pub fn comparison(results: &Results, best: bool) -> String {
    let width = table::width();
    let mut out = String::new();
    for row in &results.rows {
        let against = Against::of(std::slice::from_ref(row), best);
        let _ = writeln!(out, "\n{}", format::title(row));
        if let Some(reason) = &row.not_run {
            let _ = writeln!(out, "not run: {reason}");
        }
        if row.columns.iter().all(|column| column.samples.is_empty() && column.failure.is_none()) {
            continue;
        }
        out += &verdicts(row, width);
        out += &main_table(row, against, width);
        out += &memory_over_time(row, width);
        for metric in METRICS.iter().filter(|metric| ![WALL.name, PEAK.name].contains(&metric.name)) {
            out += &metric_table(row, metric, against, width);
        }
        out += &system_calls(row, against, width);
        out += "\nserved by\n";
        for column in &row.columns {
            let text = match (&column.failure, &column.proof) {
                (Some(reason), _) => format!("FAILED: {reason}"),
                (None, Some(proof)) => format!("{}: {}", proof.answered_by, proof.evidence),
                (None, None) => "not measured".into(),
            };
            let _ = writeln!(out, " {:<14} {text}", column.allocator);
        }
        out += &format!("\n{}", table::paragraph(&explained(against), width));
    }
    out += &table::paragraph(&stats::how_noise_is_told(), width);
    out += &table::paragraph(&results.machine.line(), width);
    if results.state == State::Interrupted {
        out += "The measurement was interrupted.\n";
    }
    out
}

/// What the ratios of a row are.
pub fn explained(against: Against) -> String {
    format!(
        "Ratios are to {}: 1.00 is as much, 0.50 half of it, less is better. They are geometric means of the rounds' \
         ratios, with their {:.0} % confidence intervals. Values are medians; spread is from the smallest to the \
         largest, by the median.",
        against.name(),
        stats::CONFIDENCE * 100.0
    )
}

fn verdicts(row: &Row, width: Option<usize>) -> String {
    let verdicts = verdict::of(row);
    let Some(first) = verdicts.first() else {
        return table::paragraph(&verdict::none(row), width);
    };
    let sentences = verdicts.iter().map(|verdict| table::paragraph(&verdict.sentence(), width));
    let footing = table::paragraph(&verdict::footing(first, verdict::rounds(row)), width);
    sentences.chain([footing]).collect()
}

/// The answer in figures: time and memory.
fn main_table(row: &Row, against: Against, width: Option<usize>) -> String {
    let (walls, peaks) = (metrics::lines(row, &WALL, against), metrics::lines(row, &PEAK, against));
    if walls.is_empty() {
        return String::new();
    }
    let mut table = Fitted::new("allocator")
        .number("seconds", Some(1))
        .number("min", Some(4))
        .number("spread", Some(3))
        .number(WALL.name, None)
        .text("", None)
        .number("MiB", Some(2))
        .number(PEAK.name, None)
        .text("", None);
    for wall in &walls {
        let Some(peak) = peaks.iter().find(|peak| peak.allocator == wall.allocator) else { continue };
        table.row(vec![
            wall.allocator.clone(),
            format::number(wall.summary.median),
            format::number(wall.summary.min),
            format::percent(wall.summary.spread()),
            wall.ratio(),
            wall.remark().into(),
            format::number(peak.summary.median),
            peak.ratio(),
            peak.remark().into(),
        ]);
    }
    format!("\n{}", table.fit(width))
}

fn memory_over_time(row: &Row, width: Option<usize>) -> String {
    let courses = timeline::of(row);
    let end = courses.iter().map(timeline::Course::end).fold(0.0, f64::max);
    let top = courses.iter().map(timeline::Course::top).fold(0.0, f64::max);
    if courses.is_empty() || end <= 0.0 || top <= 0.0 {
        return String::new();
    }
    let names = courses.iter().map(|course| course.allocator.chars().count()).max().unwrap_or(0);
    let length = width.unwrap_or(80).saturating_sub(names + 13).clamp(8, 60);
    let mut out = format!("\n memory over {} s, highest in MiB\n", format::number(end));
    for course in &courses {
        let line = timeline::sparkline(course, end, top, length);
        let highest = format::number(course.top());
        let _ = writeln!(out, " {:<names$}  {line:<length$}  {highest:>7}", course.allocator);
    }
    out
}

fn metric_table(row: &Row, metric: &Metric, against: Against, width: Option<usize>) -> String {
    let lines = metrics::lines(row, metric, against);
    // Most programs have none at all.
    if lines.is_empty() || lines.iter().all(|line| line.summary.max == 0.0) {
        return String::new();
    }
    let mut table = Fitted::new(&metric.title())
        .number("min", Some(2))
        .number("median", None)
        .number("spread", Some(1))
        .number("ratio", None)
        .text("", None);
    for line in &lines {
        table.row(vec![
            line.allocator.clone(),
            format::number(line.summary.min),
            format::number(line.summary.median),
            format::percent(line.summary.spread()),
            line.ratio(),
            line.remark().into(),
        ]);
    }
    format!("\n{}", table.fit(width))
}

fn system_calls(row: &Row, against: Against, width: Option<usize>) -> String {
    let mut counted: Vec<_> = row
        .columns
        .iter()
        .filter_map(|column| match &column.system_calls {
            Some(SystemCalls::Counted(counts)) => Some((column, counts, counts.values().sum::<u64>())),
            _ => None,
        })
        .collect();
    if counted.is_empty() {
        return "\nsystem calls for memory: n/a\n".into();
    }
    counted.sort_by_key(|(_, _, total)| *total);
    let base = match against {
        Against::One(name) => counted.iter().find(|(column, ..)| column.allocator == name),
        Against::Best => counted.first(),
    };
    let base = base.map(|(.., total)| *total);
    let mut table = Fitted::new("calls (one run)");
    for (place, call) in CALLS.iter().enumerate() {
        table = table.number(call, Some(place as u8));
    }
    table = table.number("all", None).number("ratio", None);
    for (column, counts, total) in counted {
        let mut cells = vec![column.allocator.clone()];
        cells.extend(CALLS.iter().map(|&call| counts.get(call).copied().unwrap_or(0).to_string()));
        cells.push(total.to_string());
        let ratio = base.and_then(|base| metrics::ratio(total as f64, base as f64));
        cells.push(ratio.map_or("-".into(), format::ratio));
        table.row(cells);
    }
    format!("\n{}", table.fit(width))
}
