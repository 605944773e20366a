// SPDX-License-Identifier: MIT
//! What `bench` prints at its end.

use std::fmt::Write;

use crate::analysis::{self, Against, Measure};
use crate::report::beside;
use crate::report::format;
use crate::report::sweeps;
use crate::report::table::{self, Fitted};
use crate::report::told;
use crate::results::{Kind, Results, Row, State};
use crate::stats;
use crate::suite_verdict;
use crate::trace::text::count;
use crate::upstream;

/// The answer, then rows where hakmem loses first, then the means.
pub fn summary(results: &Results, best: bool) -> String {
    debug_assert!(results.kind == Kind::Bench);
    let against = Against::of(&results.rows, best);
    let width = table::width();
    let mut out = String::new();
    if let Some(verdict) = suite_verdict::of(results) {
        let footing = suite_verdict::footing(results, &verdict);
        out += &format!("\n{}{}", table::paragraph(&verdict.sentence(), width), table::paragraph(&footing, width));
    }
    for measure in Measure::ALL {
        out += &duel_table(results, measure, against, width);
    }
    out += &latency_tables(results, width);
    out += &sweeps::text(results, width);
    out += &beside::text(results, width);
    out += &means_table(results, against, width);
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
        "{ran} of {} ran under {} in {}; {} not run; {}",
        count(results.rows.len() as u64, "row"),
        count(results.allocators.len() as u64, "allocator"),
        count(results.rounds.into(), "round"),
        not_run.len(),
        count(failures.len() as u64, "failure")
    );
    if results.state == State::Interrupted {
        out += "The measurement was interrupted.\n";
    }
    out
}

fn duel_table(results: &Results, measure: Measure, against: Against, width: Option<usize>) -> String {
    let duels = analysis::worst_first(results, measure, against);
    if duels.is_empty() {
        return String::new();
    }
    let mut table = Fitted::new(&format!("{}: rows, worst first", measure.name()))
        .number("hakmem", Some(2))
        .number(if against == Against::Best { "best peer" } else { against.name() }, Some(3));
    if against == Against::Best {
        table = table.text("", Some(1));
    }
    table = table.number("ratio", None).text("", None);
    for (row, duel) in &duels {
        let mut cells = vec![row.name.clone(), format::number(duel.hakmem_value), format::number(duel.peer_value)];
        if against == Against::Best {
            cells.push(duel.peer.clone());
        }
        cells.extend([format::ratio(duel.ratio), format::difference(duel.difference).into()]);
        table.row(cells);
    }
    let count = format!("{}: {}.", measure.name(), analysis::count(&duels, against));
    format!("\n{}{}", table.fit(width), table::paragraph(&count, width))
}

/// The other topics are for pages.
fn latency_tables(results: &Results, width: Option<usize>) -> String {
    let mut out = String::new();
    for latency in told::SINGLE_CALLS.tables(results) {
        let mut table = Fitted::new(&latency.row.name);
        for title in &latency.titles {
            table = table.number(title, None);
        }
        for (name, values) in &latency.lines {
            let values = values.iter().map(|value| value.map_or("-".into(), format::number));
            table.row(std::iter::once(name.clone()).chain(values).collect());
        }
        let _ = write!(out, "\n{}", table.fit(width));
    }
    if !out.is_empty() {
        out += &table::paragraph(told::SINGLE_CALLS.explained, width);
    }
    out
}

fn means_table(results: &Results, against: Against, width: Option<usize>) -> String {
    let mut table = Fitted::new("allocator")
        .text("version", Some(1))
        .text("newest upstream", Some(4))
        .number("time", None)
        .number("rows", Some(2))
        .number("memory", None)
        .number("rows", Some(3))
        .number("failed", None);
    for row in table::mean_rows(results, against) {
        table.row(row.to_vec());
    }
    let prose = [upstream::explained(), analysis::definitions(against), stats::how_noise_is_told()];
    let prose: String = prose.iter().map(|text| table::paragraph(text, width)).collect();
    format!("\n{}{prose}\n", table.fit(width))
}
