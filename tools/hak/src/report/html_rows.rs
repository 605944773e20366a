// SPDX-License-Identifier: MIT
//! The suite's rows as tables of the page: who is how far behind, how long calls took, and the values.

use maud::{Markup, html};

use crate::allocators::HAKMEM;
use crate::analysis::{self, Against, Measure, Standing};
use crate::report::format;
use crate::report::html::folded;
use crate::report::told;
use crate::results::{Results, Row};
use crate::stats::Difference;

/// Blue for less and orange for more than the one that is compared with: full from three times on.
fn heat(ratio: f64) -> String {
    let strength = (ratio.log2().abs() / 3f64.log2()).min(1.0) * 0.5;
    format!("background: rgba(var({}), {strength:.2})", if ratio < 1.0 { "--good" } else { "--bad" })
}

pub fn heat_table(results: &Results, measure: Measure, against: Against) -> Markup {
    let names: Vec<&str> = results.allocators.iter().map(|allocator| allocator.name.as_str()).collect();
    html! {
        div.scroll { table {
            tr { th { "row" } @for name in &names { th.hakmem[*name == HAKMEM] { (name) } } }
            @for (family, rows) in families(results) {
                @if rows.iter().any(|row| !analysis::standings(row, measure, against).is_empty()) {
                    tr.family { td colspan=(names.len() + 1) { (family) } }
                }
                @for row in rows {
                    @let standings = analysis::standings(row, measure, against);
                    @if !standings.is_empty() {
                        tr {
                            td title=(format::command(&row.command)) { (row.name) }
                            @for name in &names { (heat_cell(row, &standings, name)) }
                        }
                    }
                }
            }
        } }
    }
}

fn heat_cell(row: &Row, standings: &[Standing], name: &str) -> Markup {
    let Some(standing) = standings.iter().find(|standing| standing.allocator == name) else {
        let reason = row.column(name).and_then(|column| column.failure.as_deref());
        return html! { td title=(reason.unwrap_or("no value")) { @if reason.is_some() { "failed" } @else { "-" } } };
    };
    let noise = standing.difference == Some(Difference::Noise);
    let hint = format!("{} {}", format::number(standing.value), standing.difference.map_or("", format::difference));
    let style = standing.ratio.filter(|_| !noise).map(heat);
    html! {
        td.noise[noise].hakmem[name == HAKMEM] style=[style] title=(hint) {
            (standing.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")))
        }
    }
}

/// In the order of the suite.
fn families(results: &Results) -> Vec<(&str, Vec<&Row>)> {
    let mut families: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in &results.rows {
        match families.iter_mut().find(|(family, _)| *family == row.family) {
            Some((_, rows)) => rows.push(row),
            None => families.push((&row.family, vec![row])),
        }
    }
    families
}

pub fn told(results: &Results) -> Markup {
    let topics = told::TOPICS.into_iter().map(|topic| (topic.tables(results), topic));
    html! {
        @for (tables, topic) in topics.filter(|(tables, _)| !tables.is_empty()) {
            (folded(topic.heading, html! {
                p.soft { (topic.explained) }
                @for table in &tables { (told_table(table)) }
            }))
        }
    }
}

fn told_table(table: &told::Table) -> Markup {
    html! {
        h3 { (table.row.name) }
        div.scroll { table {
            tr { th { "allocator" } @for title in &table.titles { th { (title) } } }
            @for (name, values) in &table.lines {
                tr {
                    td.hakmem[*name == HAKMEM] { (name) }
                    @for value in values { td { (value.map_or("-".into(), format::number)) } }
                }
            }
        } }
    }
}

pub fn value_table(results: &Results, against: Against) -> Markup {
    let names: Vec<&str> = results.allocators.iter().map(|allocator| allocator.name.as_str()).collect();
    html! {
        div.scroll { table {
            tr {
                th { "row" }
                th.text { "figure" }
                @for name in &names { th.hakmem[*name == HAKMEM] { (name) } }
            }
            @for row in &results.rows {
                @for measure in Measure::ALL {
                    @let standings = analysis::standings(row, measure, against);
                    @if !standings.is_empty() {
                        tr {
                            td { (row.name) }
                            td.text { (measure.figure(row).unwrap_or_default()) }
                            @for name in &names {
                                @let standing = standings.iter().find(|standing| standing.allocator == *name);
                                @let value = standing.map_or("-".into(), |standing| format::number(standing.value));
                                td.hakmem[*name == HAKMEM] { (value) }
                            }
                        }
                    }
                }
            }
        } }
    }
}
