// SPDX-License-Identifier: MIT
//! What a change did, for people: `--against`.

use std::fmt::Write;

use maud::{Markup, html};

use crate::analysis::Measure;
use crate::change::{self, Changes, Effect};
use crate::report::format;
use crate::report::history;
use crate::report::markdown_form::{head, line, wrapped};
use crate::report::table::{self, Fitted};
use crate::results::Results;
use crate::stats::{CONFIDENCE, MIN_ROUNDS};
use crate::trace::text;

/// Everything that is said, before it has a form.
pub struct Told<'a> {
    pub heading: String,
    sentence: String,
    remarks: Vec<String>,
    tables: Vec<Changes<'a>>,
}

pub fn told<'a>(then: &Results, now: &'a Results) -> Told<'a> {
    let measures = Measure::ALL.into_iter().chain([Measure::Sweep]);
    let tables: Vec<Changes> = measures
        .map(|measure| change::between(then, now, measure))
        .filter(|changes| !changes.rows.is_empty())
        .collect();
    let label = history::labels(&[then]).remove(0);
    Told {
        heading: format!("Against {label}"),
        sentence: sentence(&tables),
        remarks: std::iter::once(taken(then, now)).chain(change::remarks(then, now)).collect(),
        tables,
    }
}

/// "3.2 % faster (± 0.4 %), no difference in memory beyond the noise (± 0.2 %)".
fn sentence(tables: &[Changes]) -> String {
    let of = |changes: &Changes| {
        let mean = changes.mean.as_ref()?;
        let measure = changes.measure;
        let Some(estimate) = mean.estimate else {
            return Some(format!(
                "{} times the {}, of which the noise is not known",
                format::mean(Some(mean.ratio)),
                measure.name()
            ));
        };
        if estimate.contains_one() {
            let around = format::percent(estimate.uncertainty());
            return Some(format!("no difference in {} beyond the noise (± {around})", measure.name()));
        }
        Some(if measure == Measure::Memory { format::memory(&estimate) } else { format::time(&estimate) })
    };
    let parts: Vec<String> = tables.iter().filter_map(of).collect();
    if parts.is_empty() { "No row can be compared.".into() } else { format!("hakmem: {}.", parts.join(", ")) }
}

fn taken(then: &Results, now: &Results) -> String {
    let of = |results: &Results| {
        let commit = results.commit.as_deref().unwrap_or("an unknown commit");
        format!("{commit}, {}", text::count(results.rounds.into(), "round"))
    };
    format!("hakmem: {} then, {} now", of(then), of(now))
}

/// "time: of 5 rows, 1 is better, 2 are worse, 2 within the noise".
fn count(changes: &Changes) -> String {
    let of = |effect| changes.count(effect);
    let untested = match of(Effect::Unknown) {
        0 => String::new(),
        count => format!(", {count} with too few rounds to tell"),
    };
    format!(
        "{}: of {}, {} better, {} worse, {} within the noise{untested}.",
        changes.measure.name(),
        text::count(changes.rows.len() as u64, "row"),
        of(Effect::Better),
        of(Effect::Worse),
        of(Effect::Noise)
    )
}

fn explained() -> String {
    format!(
        "The ratio is how many times as much hakmem takes as then, and less is better: of time and latency, relative \
         to what the other allocators took in the same rounds, of which those count that are the same in both files, \
         so that a slow day of the machine is no change; of memory as it is. 'others' is how many times as much those \
         others take as then. ± is the {:.0} % confidence interval, from the scatter of both measurements; a row is \
         noise if it contains 1. It needs {MIN_ROUNDS} rounds in each; with fewer, '?' is where no round of one \
         reaches those of the other. By chance alone about {:.0} of 100 rows would be marked though nothing has \
         changed. Values are of the better half of the rounds.",
        CONFIDENCE * 100.0,
        100.0 - CONFIDENCE * 100.0
    )
}

const TITLES: [&str; 5] = ["then", "now", "others", "ratio", ""];

fn cells(changes: &Changes) -> Vec<(String, [String; 5])> {
    let of = |row: &change::Change| {
        let ratio = row.estimate.map_or_else(|| format::ratio(row.ratio), |estimate| format::estimate(&estimate));
        let others = row.others.map_or_else(String::new, format::ratio);
        let values = [format::number(row.then), format::number(row.now), others, ratio, row.effect.name().into()];
        (format::title(row.row), values)
    };
    changes.rows.iter().map(of).collect()
}

pub fn text(told: &Told, width: Option<usize>) -> String {
    let mut out = format!("\n{}\n{}", told.heading, table::paragraph(&told.sentence, width));
    for remark in &told.remarks {
        out += &table::paragraph(&format!("- {remark}"), width);
    }
    for changes in &told.tables {
        let mut table = Fitted::new(&format!("{}: rows, worst first", changes.measure.name()));
        for (title, spare) in TITLES.iter().zip([Some(2), Some(2), Some(3), None]) {
            table = table.number(title, spare);
        }
        table = table.text(TITLES[4], None);
        for (name, values) in cells(changes) {
            table.row(std::iter::once(name).chain(values).collect());
        }
        let _ = write!(out, "\n{}{}", table.fit(width), table::paragraph(&count(changes), width));
    }
    out + "\n" + &table::paragraph(&explained(), width)
}

pub fn markdown(told: &Told) -> String {
    let mut out = format!("## {}\n\n{}\n\n", told.heading, wrapped(&format!("**{}**", told.sentence)));
    for remark in &told.remarks {
        let _ = writeln!(out, "- {remark}");
    }
    let _ = writeln!(out, "\n{}\n", wrapped(&explained()));
    for changes in &told.tables {
        let _ = writeln!(out, "{}\n", wrapped(&count(changes)));
        head(&mut out, 1, std::iter::once("row").chain(TITLES).map(String::from));
        for (name, values) in cells(changes) {
            line(&mut out, std::iter::once(name).chain(values));
        }
        out.push('\n');
    }
    out
}

pub fn page(told: &Told) -> Markup {
    html! {
        h2 { (told.heading) }
        p { (told.sentence) }
        ul { @for remark in &told.remarks { li { (remark) } } }
        @for changes in &told.tables {
            p { (count(changes)) }
            div.scroll { table {
                tr { th { "row" } @for title in TITLES { th { (title) } } }
                @for (name, values) in cells(changes) {
                    tr { td { (name) } @for value in values { td { (value) } } }
                }
            } }
        }
        p.soft { (explained()) }
    }
}
