// SPDX-License-Identifier: MIT
//! The page of programs that were compared: the answer, memory over time, bars, and the figures folded.

use anyhow::Result;
use maud::{Markup, PreEscaped, html};

use crate::allocators::HAKMEM;
use crate::analysis::Against;
use crate::report::bars::{self, Bar};
use crate::report::charts::{self, Cloud, Named};
use crate::report::colours::Colours;
use crate::report::format;
use crate::report::html::{answer, figure, folded};
use crate::report::metrics::{self, Line, METRICS, Metric, PEAK, SYSTEM, USER, WALL};
use crate::report::terminal;
use crate::report::timeline;
use crate::results::{Results, Row, SystemCalls};
use crate::stats::Summary;
use crate::syscalls::CALLS;
use crate::verdict;

pub fn body(results: &Results, colours: &Colours, best: bool) -> Result<Markup> {
    let several = results.rows.len() > 1;
    let rows = results.rows.iter().map(|row| program(row, colours, best, several)).collect::<Result<Vec<_>>>()?;
    Ok(html! { @for row in rows { (row) } })
}

fn program(row: &Row, colours: &Colours, best: bool, several: bool) -> Result<Markup> {
    let against = Against::of(std::slice::from_ref(row), best);
    let base = match against {
        Against::One(name) => Some(name),
        Against::Best => None,
    };
    let named = Named { colours, base };
    let courses = timeline::of(row);
    let bars = |metric: &Metric| metric_bars(row, metric, against, colours);
    Ok(html! {
        @if several { h2.program { (format::title(row)) } }
        @if let Some(reason) = &row.not_run { p.failed { "Not run: " (reason) } }
        (verdicts(row))
        div.charts {
            @if !courses.is_empty() {
                @let chart = PreEscaped(charts::memory("Memory over time", &named, &courses)?);
                (figure("Memory over time", "resident, all processes; of each the run of middle length", true, chart))
            }
            (figure("Wall time", "seconds, less is better; dots are single runs", true, bars(&WALL)))
            (figure("Peak memory", "MiB, of the largest process; less is better", true, bars(&PEAK)))
            (figure(
                "Time against memory",
                "lower left is better; large dots are medians; the axes do not start at zero",
                true,
                PreEscaped(scatter(row, &named)?),
            ))
            (figure("User time", "seconds", false, bars(&USER)))
            (figure("System time", "seconds", false, bars(&SYSTEM)))
        }
        p.soft { (terminal::explained(against)) " Grey is noise." }
        (folded("All figures", metric_table(row, against)))
        (folded("System calls for memory", system_calls(row)))
        (folded("Who served the program", proofs(row)))
        (failures(row))
    })
}

fn verdicts(row: &Row) -> Markup {
    let verdicts = verdict::of(row);
    let sentences: Vec<String> = verdicts.iter().map(verdict::Verdict::sentence).collect();
    match verdicts.first() {
        Some(first) => answer(&sentences, &verdict::footing(first, verdict::rounds(row))),
        None => answer(&[verdict::none(row)], ""),
    }
}

fn scatter(row: &Row, named: &Named) -> Result<String> {
    let columns = row.columns.iter().filter(|column| column.counts());
    let clouds: Vec<Cloud> = columns
        .filter_map(|column| {
            let samples: Vec<(f64, f64)> =
                column.samples.iter().map(|sample| (sample.usage.wall_seconds, sample.memory_mib)).collect();
            let time = Summary::of(&samples.iter().map(|sample| sample.0).collect::<Vec<_>>())?;
            let memory = Summary::of(&samples.iter().map(|sample| sample.1).collect::<Vec<_>>())?;
            Some(Cloud { name: column.allocator.clone(), samples, centre: (time.median, memory.median) })
        })
        .collect();
    charts::scatter("Time against memory", "wall time, s", "peak memory, MiB", named, &clouds)
}

fn metric_bars(row: &Row, metric: &Metric, against: Against, colours: &Colours) -> Markup {
    let lines = metrics::lines(row, metric, against);
    let bar = |line: Line| Bar {
        value: Some(line.summary.median),
        shown: format::number(line.summary.median),
        ratio: if line.is_base { line.remark().into() } else { format!("{} {}", line.ratio(), line.remark()) },
        hint: hint(&line, metric, against),
        is_base: line.is_base,
        is_noise: line.is_noise(),
        name: line.allocator,
        samples: line.samples,
    };
    let failed = row.columns.iter().filter(|column| column.failure.is_some()).map(|column| Bar {
        name: column.allocator.clone(),
        value: None,
        samples: Vec::new(),
        shown: String::new(),
        ratio: String::new(),
        hint: column.failure.clone().unwrap_or_default(),
        is_base: false,
        is_noise: false,
    });
    let bars: Vec<Bar> = lines.into_iter().map(bar).chain(failed).collect();
    bars::bars(colours, &bars)
}

fn hint(line: &Line, metric: &Metric, against: Against) -> String {
    let Summary { min, median, max } = line.summary;
    let [min, median, max] = [min, median, max].map(format::number);
    let space = if metric.unit.is_empty() { "" } else { " " };
    let unit = metric.unit;
    let mut text = format!("{}: {} {median}{space}{unit}, {min} to {max}", line.allocator, metric.name);
    text += &format!(" in {} rounds", line.samples.len());
    if !line.is_base {
        text += &format!("; {} of {} {}", line.ratio(), against.name(), line.remark());
    }
    text.trim_end().to_owned()
}

fn metric_table(row: &Row, against: Against) -> Markup {
    html! {
        div.scroll { table {
            tr { th { "allocator" } th { "min" } th { "median" } th { "spread" } th { "ratio" } th.text { "" } }
            @for metric in &METRICS {
                @let lines = metrics::lines(row, metric, against);
                @if lines.iter().any(|line| line.summary.max > 0.0) {
                    tr.family { td colspan="6" { (metric.title()) } }
                    @for line in &lines {
                        tr.hakmem[line.allocator == HAKMEM].noise[line.is_noise()].base[line.is_base] {
                            td { (line.allocator) }
                            td { (format::number(line.summary.min)) }
                            td { (format::number(line.summary.median)) }
                            td { (format::percent(line.summary.spread())) }
                            td { (line.ratio()) }
                            td.text { (line.remark()) }
                        }
                    }
                }
            }
        } }
    }
}

fn system_calls(row: &Row) -> Markup {
    html! {
        p.soft { "Of one run, counted with strace." }
        div.scroll { table {
            tr { th { "allocator" } @for call in CALLS { th { (call) } } th { "all" } }
            @for column in row.columns.iter().filter(|column| column.failure.is_none()) {
                tr {
                    td { (column.allocator) }
                    @match &column.system_calls {
                        Some(SystemCalls::Counted(counts)) => {
                            @for call in CALLS { td { (counts.get(call).copied().unwrap_or(0)) } }
                            td { (counts.values().sum::<u64>()) }
                        }
                        Some(SystemCalls::Unknown(reason)) => td.text colspan="7" { "n/a: " (reason) },
                        None => td.text colspan="7" { "n/a" },
                    }
                }
            }
        } }
    }
}

fn proofs(row: &Row) -> Markup {
    html! {
        div.scroll { table {
            @for column in &row.columns {
                tr {
                    td { (column.allocator) }
                    @match (&column.failure, &column.proof) {
                        (Some(reason), _) => td.text { b { "failed: " } (reason) },
                        (None, Some(proof)) => td.text { (proof.answered_by) ": " (proof.evidence) },
                        (None, None) => td.text { "not measured" },
                    }
                }
            }
        } }
    }
}

/// Not folded: what is missing above has to be seen.
fn failures(row: &Row) -> Markup {
    let failed = || row.columns.iter().filter_map(|column| Some((&column.allocator, column.failure.as_ref()?)));
    html! {
        @if failed().next().is_some() {
            ul.failed { @for (name, reason) in failed() { li { (name) " failed: " (reason) } } }
        }
    }
}
