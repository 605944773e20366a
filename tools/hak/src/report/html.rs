// SPDX-License-Identifier: MIT
//! One self-contained page: the answer, charts, and, folded, what they were drawn from.

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::analysis::Against;
use crate::report::changes;
use crate::report::charts::{self, Course, Named};
use crate::report::colours::Colours;
use crate::report::format;
use crate::report::history::{self, History};
use crate::report::{html_compare, html_suite};
use crate::results::{Kind, Results, State};
use crate::stats;
use crate::upstream;

const STYLE: &str = include_str!("page.css");

/// Of the first results in full; of several also their course. Ratios are to the baseline, or to the
/// best where that is asked for.
pub fn page(all: &[&Results], against: Option<&Results>, best: bool) -> Result<String> {
    let results = all[0];
    let names = all.iter().flat_map(|results| results.allocators.iter().map(|allocator| allocator.name.clone()));
    let colours = Colours::new(names);
    let title = match results.kind {
        Kind::Bench if results.quick => "Benchmark overview".into(),
        Kind::Bench => "Benchmarks".into(),
        Kind::Compare if results.rows.len() == 1 => format::title(&results.rows[0]),
        Kind::Compare => format!("{} programs", results.rows.len()),
    };
    let body = match results.kind {
        Kind::Compare => html_compare::body(results, &colours, best)?,
        Kind::Bench => html_suite::body(results, &colours, best)?,
    };
    let labels = history::labels(all);
    let page = document(
        &title,
        "",
        html! {
            h1.program[results.kind == Kind::Compare] { (title) }
            @if all.len() > 1 { p.soft { "In full: " (labels[0]) "; beside the others at the end." } }
            @if results.state != State::Complete {
                p.failed { "The measurement was interrupted. Here is what there was until then." }
            }
            @if let Some(then) = against { (changes::page(&changes::told(then, results))) }
            (body)
            @if all.len() > 1 { (over_files(&history::of(all), &colours, results)?) }
            (folded("Allocators", allocators(results)))
            p.soft { (stats::how_noise_is_told()) }
            p.soft {
                (results.started) " · " (results.machine.line()) " · " (results.rounds) " rounds"
                @if !results.resumed.is_empty() { " · went on after an interruption: " (results.resumed.join(", ")) }
                @if let Some(commit) = &results.commit { " · hakmem " (commit) }
                " · made by hak " (results.tool_version)
            }
        },
    );
    Ok(page.into_string())
}

/// A page with that title, and rules of its own behind those that all have.
pub fn document(title: &str, style: &str, inside: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – hakmem" }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { main { (inside) } }
        }
    }
}

pub fn figure(caption: &str, remark: &str, wide: bool, inside: Markup) -> Markup {
    html! {
        figure.wide[wide] {
            figcaption { (caption) " " span { (remark) } }
            (inside)
        }
    }
}

pub fn folded(title: &str, inside: Markup) -> Markup {
    html! { details { summary { (title) } (inside) } }
}

/// The sentence that everything else is there for.
pub fn answer(sentences: &[String], footing: &str) -> Markup {
    html! {
        section.verdict {
            // No line begins with a percent sign.
            @for sentence in sentences { p.answer { (sentence.replace(" %", "\u{a0}%").replace("± ", "±\u{a0}")) } }
            p.soft { (footing) }
        }
    }
}

fn over_files(history: &History, colours: &Colours, results: &Results) -> Result<Markup> {
    let course = |measure: usize| -> Vec<Course> {
        let courses = history.means.iter();
        courses
            .map(|(name, values)| Course {
                name: name.clone(),
                values: values.iter().map(|pair| pair[measure]).collect(),
            })
            .collect()
    };
    let base = match Against::of(&results.rows, false) {
        Against::One(name) => Some(name),
        Against::Best => None,
    };
    let named = Named { colours, base };
    let chart = |title: &str, measure: usize| {
        charts::courses(title, &history.labels, title, &named, &course(measure)).map(PreEscaped)
    };
    let (time, memory) = (chart("relative time", 0)?, chart("relative memory", 1)?);
    Ok(html! {
        h2 { "Several measurements" }
        ol { @for label in &history.labels { li { (label) } } }
        div.charts {
            (figure("Relative time", "geometric means, to the baseline; less is better", true, time))
            (figure("Relative memory", "geometric means, to the baseline; less is better", true, memory))
        }
        (folded("hakmem's values, row by row", html! {
            div.scroll { table {
                tr {
                    th { "row" }
                    th.text { "figure" }
                    @for label in &history.labels { th { (label) } }
                    th { "change" }
                }
                @for line in &history.lines {
                    tr {
                        td { (line.row) }
                        td.text { (line.figure) }
                        @for value in &line.values { td { (value.map_or("-".into(), format::number)) } }
                        td { (line.change().map_or("-".into(), |change| format!("{change:+.1} %"))) }
                    }
                }
            } }
        }))
    })
}

fn allocators(results: &Results) -> Markup {
    html! {
        div.scroll { table {
            tr { th { "allocator" } th.text { "version" } th.text { "newest upstream" } th.text { "from" } }
            @for allocator in &results.allocators {
                tr {
                    td { (allocator.name) }
                    td.text { (allocator.version) }
                    td.text { (upstream::newest(&allocator.name, &allocator.version)) }
                    td.text { (allocator.source) }
                }
            }
        } }
        p.soft { (upstream::explained()) }
    }
}
