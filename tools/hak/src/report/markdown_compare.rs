// SPDX-License-Identifier: MIT
//! One program after another, in Markdown: the answer and the figures.

use std::fmt::Write;

use anyhow::Result;

use crate::analysis::Against;
use crate::report::format;
use crate::report::markdown_form::{head, line, mark, wrapped};
use crate::report::metrics::{self, METRICS, Metric};
use crate::report::terminal;
use crate::results::{Results, Row};
use crate::stats;
use crate::verdict;

pub fn rows(out: &mut String, results: &Results, best: bool) -> Result<()> {
    for row in &results.rows {
        let against = Against::of(std::slice::from_ref(row), best);
        writeln!(out, "## `{}`\n", format::title(row))?;
        if let Some(reason) = &row.not_run {
            writeln!(out, "Not run: {reason}\n")?;
        }
        let verdicts = verdict::of(row);
        for verdict in &verdicts {
            writeln!(out, "{}\n", wrapped(&format!("**{}.**", verdict.sentence())))?;
        }
        match verdicts.first() {
            Some(verdict) => writeln!(out, "{}\n", wrapped(&verdict::footing(verdict, verdict::rounds(row))))?,
            None => writeln!(out, "{}\n", wrapped(&verdict::none(row)))?,
        }
        for metric in &METRICS {
            table(out, row, metric, against)?;
        }
        failures(out, row)?;
        writeln!(out, "{}\n", wrapped(&terminal::explained(against)))?;
    }
    writeln!(out, "{}\n", wrapped(&stats::how_noise_is_told()))?;
    Ok(())
}

fn table(out: &mut String, row: &Row, metric: &Metric, against: Against) -> Result<()> {
    let lines = metrics::lines(row, metric, against);
    if lines.iter().all(|line| line.summary.max == 0.0) {
        return Ok(());
    }
    head(out, 1, [&metric.title(), "min", "median", "spread", "ratio", ""].map(String::from));
    for of in &lines {
        line(
            out,
            [
                mark(&of.allocator, of.allocator.clone()),
                format::number(of.summary.min),
                format::number(of.summary.median),
                format::percent(of.summary.spread()),
                of.ratio(),
                of.remark().into(),
            ],
        );
    }
    writeln!(out)?;
    Ok(())
}

fn failures(out: &mut String, row: &Row) -> Result<()> {
    let failed = || row.columns.iter().filter_map(|column| Some((&column.allocator, column.failure.as_ref()?)));
    for (allocator, reason) in failed() {
        writeln!(out, "- {allocator} failed: {reason}")?;
    }
    if failed().next().is_some() {
        writeln!(out)?;
    }
    Ok(())
}
