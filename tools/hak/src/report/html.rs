// SPDX-License-Identifier: MIT
//! One self-contained page: charts first, then what they were drawn from.

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::allocators::HAKMEM;
use crate::analysis::{self, Measure};
use crate::report::charts::{self, Bar, Cloud, Colours, Course, Lead};
use crate::report::format;
use crate::report::history::{self, History};
use crate::report::html_rows;
use crate::report::metrics::{self, METRICS, Metric};
use crate::results::{Kind, Results, Row, State, SystemCalls};
use crate::stats::{self, Difference, Summary};
use crate::syscalls::CALLS;

const STYLE: &str = include_str!("page.css");

/// Of the first results in full; of several also their course.
pub fn page(all: &[&Results]) -> Result<String> {
    let results = all[0];
    let names = all.iter().flat_map(|results| results.allocators.iter().map(|allocator| allocator.name.clone()));
    let colours = Colours::new(names);
    let title = match results.kind {
        Kind::Bench if results.quick => "Benchmark overview".into(),
        Kind::Bench => "Benchmarks".into(),
        Kind::Compare => results.rows.first().map_or(String::new(), |row| row.name.clone()),
    };
    let body = match results.kind {
        Kind::Compare => comparison(results, &colours)?,
        Kind::Bench => benchmark(results, &colours)?,
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – hakmem" }
                style { (PreEscaped(STYLE)) }
            }
            body { main {
                h1 { (title) }
                p.soft {
                    (results.started) " · " (results.machine.line()) " · " (results.rounds) " rounds"
                    @if let Some(commit) = &results.commit { " · hakmem " (commit) }
                }
                @if results.state != State::Complete {
                    p.failed { "The measurement was interrupted. Here is what there was until then." }
                }
                (body)
                @if all.len() > 1 { (over_time(&history::of(all), &colours)?) }
                (allocators(results))
                p.soft { (stats::how_noise_is_told()) }
                p.soft { "Made by hak " (results.tool_version) "." }
            } }
        }
    };
    Ok(page.into_string())
}

fn figure(caption: &str, remark: &str, wide: bool, svg: &str) -> Markup {
    html! {
        figure.wide[wide] {
            figcaption { (caption) " " span { (remark) } }
            (PreEscaped(svg))
        }
    }
}

// ---------------------------------------------------------------- one program

fn comparison(results: &Results, colours: &Colours) -> Result<Markup> {
    let mut markup = Vec::new();
    for row in &results.rows {
        let clouds: Vec<Cloud> = row
            .columns
            .iter()
            .filter(|column| column.counts())
            .filter_map(|column| {
                let samples: Vec<(f64, f64)> =
                    column.samples.iter().map(|sample| (sample.usage.wall_seconds, sample.memory_mib)).collect();
                let time = Summary::of(&samples.iter().map(|sample| sample.0).collect::<Vec<_>>())?;
                let memory = Summary::of(&samples.iter().map(|sample| sample.1).collect::<Vec<_>>())?;
                Some(Cloud { name: column.allocator.clone(), samples, centre: (time.median, memory.median) })
            })
            .collect();
        let scatter = charts::scatter("Time against memory", "wall time, s", "peak memory, MiB", colours, &clouds)?;
        let wall = metric_bars(row, &METRICS[0], colours)?;
        let memory = metric_bars(row, &METRICS[3], colours)?;
        let user = metric_bars(row, &METRICS[1], colours)?;
        let system = metric_bars(row, &METRICS[2], colours)?;
        markup.push(html! {
            div.charts {
                (figure("Wall time", "s, less is better; dots are single runs", false, &wall))
                (figure("Peak resident memory", "MiB, less is better", false, &memory))
                (figure("Time against memory", "lower left is better; large dots are medians; the axes do not start at zero", true, &scatter))
                (figure("User time", "s", false, &user))
                (figure("System time", "s", false, &system))
            }
            h2 { "All figures" }
            p.soft { "Ratios are of medians, to the best. Spread is from the smallest to the largest, by the median." }
            (metric_table(row))
            (system_calls(row))
            (proofs(row))
        });
    }
    Ok(html! { @for part in markup { (part) } })
}

fn metric_bars(row: &Row, metric: &Metric, colours: &Colours) -> Result<String> {
    let lines = metrics::lines(row, metric);
    let bars: Vec<Bar> = lines
        .into_iter()
        .map(|line| {
            let ratio = line.ratio.map_or(String::new(), format::ratio);
            Bar {
                note: format!(
                    "{}  {ratio} {}",
                    format::number(line.summary.median),
                    format::difference(line.difference)
                ),
                name: line.allocator,
                value: Some(line.summary.median),
                samples: line.samples,
            }
        })
        .chain(row.columns.iter().filter(|column| column.failure.is_some()).map(|column| Bar {
            name: column.allocator.clone(),
            value: None,
            samples: Vec::new(),
            note: String::new(),
        }))
        .collect();
    charts::bars(metric.name, colours, &bars)
}

fn metric_table(row: &Row) -> Markup {
    html! {
        div.scroll { table {
            tr { th { "" } th.text { "allocator" } th { "min" } th { "median" } th { "spread" } th { "ratio" } th.text { "" } }
            @for metric in &METRICS {
                @let lines = metrics::lines(row, metric);
                @if lines.iter().any(|line| line.summary.max > 0.0) {
                    tr.family { td colspan="7" { (metric.name) @if !metric.unit.is_empty() { ", " (metric.unit) } } }
                    @for line in &lines {
                        @let class = if line.allocator == HAKMEM { "hakmem" } else { "" };
                        tr {
                            td {}
                            td.text class=(class) { (line.allocator) }
                            td { (format::number(line.summary.min)) }
                            td { (format::number(line.summary.median)) }
                            td { (format::percent(line.summary.spread())) }
                            td { (line.ratio.map_or("-".into(), format::ratio)) }
                            td.text { (format::difference(line.difference)) }
                        }
                    }
                }
            }
        } }
    }
}

fn system_calls(row: &Row) -> Markup {
    html! {
        h2 { "System calls for memory" }
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
        h2 { "Who served the program" }
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

// ---------------------------------------------------------------- the suite

fn benchmark(results: &Results, colours: &Colours) -> Result<Markup> {
    let means = analysis::means(results);
    let hakmem = means.iter().find(|mean| mean.allocator == HAKMEM);
    let mean_bars = |of: &dyn Fn(&analysis::Mean) -> (Option<f64>, usize)| -> Vec<Bar> {
        let mut bars: Vec<Bar> = means
            .iter()
            .map(|mean| {
                let (value, rows) = of(mean);
                let few = || format!("no mean: has only {rows} rows");
                let note = value.map_or_else(few, |value| format!("{value:.3}"));
                Bar { name: mean.allocator.clone(), value, samples: Vec::new(), note }
            })
            .collect();
        bars.sort_by(|a, b| a.value.unwrap_or(f64::MAX).total_cmp(&b.value.unwrap_or(f64::MAX)));
        bars
    };
    let time = charts::bars("Relative time", colours, &mean_bars(&|mean| (mean.time, mean.time_rows)))?;
    let memory = charts::bars("Relative memory", colours, &mean_bars(&|mean| (mean.memory, mean.memory_rows)))?;
    let clouds: Vec<Cloud> = means
        .iter()
        .filter_map(|mean| {
            Some(Cloud { name: mean.allocator.clone(), samples: Vec::new(), centre: (mean.time?, mean.memory?) })
        })
        .collect();
    let scatter = charts::scatter("Time against memory", "relative time", "relative memory", colours, &clouds)?;
    let duels = Measure::ALL.map(|measure| analysis::worst_first(results, measure));
    let lead_charts = duels.iter().map(|duels| leads(duels)).collect::<Result<Vec<_>>>()?;
    let shown = || Measure::ALL.into_iter().zip(&duels).zip(&lead_charts).filter(|((_, duels), _)| !duels.is_empty());
    Ok(html! {
        @if let Some(mean) = hakmem {
            div.cards {
                div.card { b { (format::mean(mean.time)) } "relative time of hakmem, 1 is the average allocator" }
                div.card { b { (format::mean(mean.memory)) } "relative memory of hakmem" }
                div.card { b { (results.rows.iter().filter(|row| row.not_run.is_none()).count()) } "of " (results.rows.len()) " rows ran" }
                div.card { b { (results.failures().len()) } "failures" }
            }
        }
        div.charts {
            (figure("Time over all rows", "geometric mean, 1 is the average allocator; less is better", false, &time))
            (figure("Memory over all rows", "geometric mean, 1 is the average allocator; less is better", false, &memory))
            (figure("Time against memory", "lower left is better; the axes do not start at zero", true, &scatter))
            @for ((measure, _), chart) in shown() {
                (figure(&format!("hakmem and the best peer: {}", measure.name()), "worst first; grey is noise", true, chart))
            }
        }
        @for ((measure, duels), _) in shown() { p { "By " (measure.name()) ", " (analysis::count(duels)) "." } }
        p.soft { (analysis::DEFINITIONS) }
        (failures(results))
        @for ((measure, _), _) in shown() {
            h2 { "Every row: relative " (measure.name()) }
            (html_rows::heat_table(results, measure))
        }
        (html_rows::latencies(results))
        details {
            summary { "Every row: values" }
            (html_rows::value_table(results))
        }
    })
}

fn leads(duels: &[(&Row, analysis::Duel)]) -> Result<String> {
    let leads: Vec<Lead> = duels
        .iter()
        .map(|(row, duel)| Lead {
            row: row.name.clone(),
            advantage: duel.advantage,
            note: format!("{} {}", format::ratio(duel.advantage), duel.peer),
            noise: duel.difference == Difference::Noise,
        })
        .collect();
    charts::leads("hakmem and the best peer", &leads)
}

fn failures(results: &Results) -> Markup {
    let failures = results.failures();
    let not_run = || results.rows.iter().filter_map(|row| Some((row, row.not_run.as_ref()?)));
    html! {
        @if !failures.is_empty() || not_run().next().is_some() {
            h2 { "What did not work" }
            ul.failed {
                @for failure in failures { li { (failure) } }
                @for (row, reason) in not_run() { li { (row.name) " was not run: " (reason) } }
            }
        }
    }
}

// ---------------------------------------------------------------- several files

fn over_time(history: &History, colours: &Colours) -> Result<Markup> {
    let course = |measure: usize| -> Vec<Course> {
        let courses = history.means.iter();
        courses
            .map(|(name, values)| Course {
                name: name.clone(),
                values: values.iter().map(|pair| pair[measure]).collect(),
            })
            .collect()
    };
    let time = charts::courses("Time over time", &history.dates, "relative time", colours, &course(0))?;
    let memory = charts::courses("Memory over time", &history.dates, "relative memory", colours, &course(1))?;
    Ok(html! {
        h2 { "Several measurements" }
        div.charts {
            (figure("Relative time", "geometric means, less is better", false, &time))
            (figure("Relative memory", "geometric means, less is better", false, &memory))
        }
        h2 { "hakmem's values, row by row" }
        div.scroll { table {
            tr { th { "row" } th.text { "figure" } @for date in &history.dates { th { (date) } } th { "change" } }
            @for line in &history.lines {
                tr {
                    td { (line.row) }
                    td.text { (line.figure) }
                    @for value in &line.values { td { (value.map_or("-".into(), format::number)) } }
                    td { (line.change().map_or("-".into(), |change| format!("{change:+.1} %"))) }
                }
            }
        } }
    })
}

fn allocators(results: &Results) -> Markup {
    html! {
        h2 { "Allocators" }
        div.scroll { table {
            tr { th { "allocator" } th.text { "version" } th.text { "from" } }
            @for allocator in &results.allocators {
                tr { td { (allocator.name) } td.text { (allocator.version) } td.text { (allocator.source) } }
            }
        } }
    }
}
