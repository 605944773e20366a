// SPDX-License-Identifier: MIT
//! Sweeps in all forms: curves, what they were drawn from, and the crossovers.

use std::fmt::Write;

use anyhow::Result;
use maud::{Markup, PreEscaped, html};

use crate::analysis::{self, Against, Measure};
use crate::crossover::{self, Crossover};
use crate::report::charts::{self, Curve, Named, Sweep};
use crate::report::colours::Colours;
use crate::report::format;
use crate::report::html::{figure, folded};
use crate::report::markdown_form::{head, line, mark, wrapped};
use crate::report::table::{self, Fitted};
use crate::results::Results;

pub const EXPLAINED: &str = "\
Sweeps are one workload at many values of a parameter, and have no part in the means. Both axes of their curves are \
logarithmic, and less is better. A crossover is where the better one of hakmem and the best of the others changes: \
between two values at which the difference is beyond the noise, between which values were measured until they were \
near. 'about' is where the ratio would be 1 if its logarithm were straight between them; where values between them \
are within the noise, both are as good there.";

const TITLES: [&str; 6] = ["axis", "between", "and", "about", "below it", "above it"];

/// What is on one picture, in the order of the file.
pub fn curves(results: &Results) -> Vec<Sweep> {
    let names: Vec<&str> = results.allocators.iter().map(|allocator| allocator.name.as_str()).collect();
    let sweep = |first: &crate::sweep::Point| {
        let mut rows: Vec<_> = results
            .rows
            .iter()
            .filter_map(|row| Some((row.sweep.as_ref().filter(|point| point.is_on_curve_of(first))?.x, row)))
            .collect();
        rows.sort_by_key(|(x, _)| *x);
        let key = rows.iter().find_map(|(_, row)| row.figure.as_ref()).map(|figure| figure.key.clone());
        let is_rate = key.as_deref() == Some("ops_per_s");
        let scale = if is_rate { 1e9 } else { 1.0 };
        let curve = |name: &&str| {
            let value = |(x, row): &(u64, &crate::results::Row)| {
                let standings = analysis::standings(row, Measure::Sweep, Against::Best);
                let standing = standings.into_iter().find(|standing| standing.allocator == *name)?;
                Some((*x as f64, standing.cost * scale))
            };
            Curve { name: (*name).into(), points: rows.iter().filter_map(value).collect() }
        };
        Sweep {
            title: first.curve(),
            x_name: first.axis.clone(),
            y_name: if is_rate { "ns per operation".into() } else { key.unwrap_or_default() },
            curves: names.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect(),
        }
    };
    let sweeps = crossover::curves(results).into_iter().map(sweep);
    sweeps.filter(|sweep| !sweep.curves.is_empty()).collect()
}

fn cells(crossover: &Crossover) -> (String, [String; 6]) {
    let whole = |value: u64| if value < 10_000 { value.to_string() } else { format::number(value as f64) };
    let about = if crossover.is_blurred { "noise".into() } else { format::number(crossover.estimate) };
    let hakmem = String::from("hakmem");
    let (below, above) = match crossover.hakmem_above {
        true => (crossover.peer.clone(), hakmem),
        false => (hakmem, crossover.peer.clone()),
    };
    let (low, high) = (whole(crossover.low), whole(crossover.high));
    (crossover.point.curve(), [crossover.point.axis.clone(), low, high, about, below, above])
}

/// Of crossovers alone: pictures are for pages.
pub fn text(results: &Results, width: Option<usize>) -> String {
    if crossover::curves(results).is_empty() {
        return String::new();
    }
    let mut table = Fitted::new("crossovers").text(TITLES[0], Some(1));
    for title in &TITLES[1..4] {
        table = table.number(title, None);
    }
    table = table.text(TITLES[4], None).text(TITLES[5], None);
    let found = crossover::all(results);
    for crossover in &found {
        let (name, cells) = cells(crossover);
        table.row(std::iter::once(name).chain(cells).collect());
    }
    let tables = if found.is_empty() { "No crossovers were found in the sweeps.\n".into() } else { table.fit(width) };
    format!("\n{tables}{}", table::paragraph(EXPLAINED, width))
}

/// Where the pictures of a document lie: the folder, as the document names it, and which of the results that have
/// sweeps these are, from 1.
#[derive(Debug, Clone, Copy)]
pub struct Folder<'a> {
    pub name: &'a str,
    pub part: usize,
}

/// Which of the results that have sweeps the one at `index` is.
pub fn part(all: &[&Results], index: usize) -> usize {
    1 + all[..index].iter().filter(|results| !curves(results).is_empty()).count()
}

/// The file that a picture is written to.
pub fn file_name(title: &str, part: usize) -> String {
    let letters = title.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' });
    let words = letters.collect::<String>();
    let words = words.split_whitespace().collect::<Vec<_>>().join("-");
    if part > 1 { format!("sweep-{words}-{part}.svg") } else { format!("sweep-{words}.svg") }
}

pub fn markdown(results: &Results, pictures: Option<Folder>) -> String {
    let sweeps = curves(results);
    if sweeps.is_empty() {
        return String::new();
    }
    let mut out = format!("## Sweeps\n\n{}\n\n", wrapped(EXPLAINED));
    let found = crossover::all(results);
    if found.is_empty() {
        out += "No crossovers were found.\n\n";
    } else {
        let titles = [TITLES[0], TITLES[4], TITLES[5], TITLES[1], TITLES[2], TITLES[3]];
        head(&mut out, 4, std::iter::once("sweep").chain(titles).map(String::from));
        for crossover in &found {
            let (name, [axis, low, high, about, below, above]) = cells(crossover);
            line(&mut out, [name, axis, below, above, low, high, about]);
        }
        out.push('\n');
    }
    for sweep in &sweeps {
        let _ = writeln!(out, "### {}\n", sweep.title);
        if let Some(folder) = pictures {
            let file = file_name(&sweep.title, folder.part);
            let path = if folder.name.is_empty() { file } else { format!("{}/{file}", folder.name) };
            let _ = writeln!(out, "![{}: {} by {}]({path})\n", sweep.title, sweep.y_name, sweep.x_name);
        }
        let _ = writeln!(out, "{}, by {}.\n", sweep.y_name, sweep.x_name);
        let names = sweep.curves.iter().map(|curve| mark(&curve.name, curve.name.clone()));
        head(&mut out, 0, std::iter::once(sweep.x_name.clone()).chain(names));
        for x in sweep.xs() {
            let of = |curve: &Curve| curve.points.iter().find(|point| point.0 == x).map(|point| point.1);
            let values =
                sweep.curves.iter().map(|curve| mark(&curve.name, of(curve).map_or("-".into(), format::number)));
            line(&mut out, std::iter::once(format!("{x}")).chain(values));
        }
        out.push('\n');
    }
    out
}

pub fn page(results: &Results, colours: &Colours) -> Result<Markup> {
    let sweeps = curves(results);
    if sweeps.is_empty() {
        return Ok(html! {});
    }
    let named = Named { colours, base: None };
    let pictures = sweeps.iter().map(|sweep| Ok((sweep, PreEscaped(charts::sweep(sweep, &named)?))));
    let pictures = pictures.collect::<Result<Vec<_>>>()?;
    let found = crossover::all(results);
    Ok(html! {
        h2 { "Sweeps" }
        p.soft { (EXPLAINED) }
        div.charts { @for (sweep, picture) in pictures { (figure(&sweep.title, &sweep.y_name, true, picture)) } }
        (folded("Crossovers", html! {
            div.scroll { table {
                tr { th { "sweep" } @for title in TITLES { th.text { (title) } } }
                @for crossover in &found {
                    @let (name, cells) = cells(crossover);
                    tr { td { (name) } @for cell in cells { td.text { (cell) } } }
                }
            } }
        }))
    })
}

/// Each picture with the name of its file.
pub fn pictures(results: &Results, part: usize) -> Result<Vec<(String, String)>> {
    let colours = Colours::new(results.allocators.iter().map(|allocator| allocator.name.clone()));
    let named = Named { colours: &colours, base: None };
    let sweeps = curves(results);
    sweeps.iter().map(|sweep| Ok((file_name(&sweep.title, part), charts::sweep_file(sweep, &named)?))).collect()
}
