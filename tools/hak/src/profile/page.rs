// SPDX-License-Identifier: MIT
//! The profile as one self-contained page: flame graphs, the course of what was live, and each thread.

use std::fmt::Write;

use anyhow::Result;
use maud::{Markup, PreEscaped, html};

use crate::profile::Profile;
use crate::profile::flames;
use crate::profile::samples::Value;
use crate::profile::summary::{mib, seconds, title};
use crate::report::html::{document, folded};
use crate::trace::text::bytes;

/// Of so many threads there is a flame graph of its own.
const THREADS: usize = 8;
/// More points than these are not to be told apart.
const POINTS: usize = 600;
/// Other pages have each picture in three sizes, of which one is shown. Frames are a picture in a picture.
const STYLE: &str = "figure > svg, .frames { display: block; } .frames { width: 1140px; }
figure > svg text { font-family: ui-monospace, monospace; stroke: none; }";

pub fn page(profile: &Profile) -> Result<String> {
    let samples = &profile.samples;
    let sum = |value| mib(samples.sum(value, profile.growth));
    let name = format!("{}, process {}", profile.program, profile.pid);
    let inside = html! {
                h1.program { "The heap profile of " (name) }
                p {
                    "About " (mib(samples.peak_bytes)) " live at the peak, " (sum(Value::Live)) " at the end, "
                    (sum(Value::Allocated)) " allocated in " (seconds(profile.lasted_ms)) "."
                }
                p.soft {
                    (samples.all.len()) " samples, one in " (bytes(profile.mean_bytes)) " on average. "
                    "Widths are bytes; each frame says how many when it is pointed at."
                }
                @for remark in profile.remarks() { p.failed { (remark) "." } }
                h2 { "Live over time" }
                figure { (course(profile)) }
                @for value in [Value::Peak, Value::Live, Value::Growth, Value::Allocated] {
                    h2 { (title(value, profile)) }
                    (flame(profile, value, None)?)
                }
                h2 { "By thread" }
                (threads(profile)?)
                p.soft { "hakmem " (profile.version) " · made by hak " (env!("CARGO_PKG_VERSION")) ", flame graphs by inferno" }
    };
    let title = format!("{name} – heap profile");
    Ok(document(&title, STYLE, inside).into_string())
}

fn flame(profile: &Profile, value: Value, thread: Option<u32>) -> Result<Markup> {
    let svg = flames::svg("", &flames::folded(profile, value, thread), false)?;
    Ok(html! {
        @match svg {
            Some(svg) => figure { (PreEscaped(inline(&svg))) },
            None => p.soft { "Nothing." },
        }
    })
}

/// As part of a page, in which there are others: without what a file of its own begins with, the names of name spaces,
/// comments, and what only the script uses; and without identifiers, of which a page has each once.
fn inline(svg: &str) -> String {
    let from = svg.find("<svg").unwrap_or(0);
    let svg = svg[from..].replace(r#" xmlns="http://www.w3.org/2000/svg""#, "");
    let svg = svg.replace(r#" xmlns:xlink="http://www.w3.org/1999/xlink""#, "");
    let svg = svg.replace(r#" xmlns:fg="http://github.com/jonhoo/inferno""#, "");
    let svg = svg.replace(r#" onload="init(evt)""#, "").replace(r##" fill="url(#background)""##, r#" fill="none""#);
    let svg = svg.replace(r#" id="frames""#, r#" class="frames""#).replace("#frames >", ".frames >");
    // The script's elements are there even if the script is not.
    let parts = [("<!--", "-->"), ("<defs", "</defs>"), (r#"<text id=""#, "</text>"), ("<script", "</script>")];
    parts.iter().fold(svg, |svg, (begin, end)| without(&svg, begin, end))
}

/// Without what is between two marks, and these.
fn without(mut svg: &str, begin: &str, end: &str) -> String {
    let mut rest = String::new();
    while let Some((before, behind)) = svg.split_once(begin) {
        rest += before;
        svg = behind.split_once(end).map_or("", |(_, behind)| behind);
    }
    rest + svg
}

/// What was live, over time, as a line.
fn course(profile: &Profile) -> Markup {
    const WIDTH: f64 = 1160.0;
    const HEIGHT: f64 = 200.0;
    let course = &profile.samples.course;
    let (end, top) = (profile.samples.duration_ms().max(1) as f64, profile.samples.peak_bytes.max(1.0));
    // The highest of each slice.
    let mut highest = vec![None::<f64>; POINTS];
    for (ms, bytes) in course {
        let slice = ((*ms as f64 / end * POINTS as f64) as usize).min(POINTS - 1);
        highest[slice] = Some(highest[slice].map_or(*bytes, |old| old.max(*bytes)));
    }
    let (mut points, mut last) = (String::new(), 0.0);
    for (slice, value) in highest.into_iter().enumerate() {
        last = value.unwrap_or(last);
        let x = slice as f64 / (POINTS - 1) as f64 * WIDTH;
        let _ = write!(points, "{x:.1},{:.1} ", HEIGHT - last / top * HEIGHT);
    }
    html! {
        svg viewBox="0 0 1160 200" role="img" aria-label="live bytes over time" {
            polyline points=(points) fill="none" stroke="currentColor" stroke-width="1.5" {}
        }
        figcaption { "0 to " (seconds(profile.samples.duration_ms())) "; 0 to " (mib(profile.samples.peak_bytes)) }
    }
}

fn threads(profile: &Profile) -> Result<Markup> {
    let sum = |value, thread| -> f64 {
        profile.samples.by_stack(value, profile.growth, Some(thread)).iter().map(|sum| sum.1).sum()
    };
    let mut all: Vec<(u32, [f64; 3])> = Vec::new();
    for thread in profile.threads.keys() {
        all.push((*thread, [Value::Peak, Value::Live, Value::Allocated].map(|value| sum(value, *thread))));
    }
    all.sort_by(|a, b| b.1[2].total_cmp(&a.1[2]));
    let graphs: Result<Vec<Markup>> = all
        .iter()
        .take(THREADS)
        .map(|(thread, _)| {
            Ok(folded(
                &profile.thread(*thread),
                html! {
                    p { (title(Value::Peak, profile)) }
                    (flame(profile, Value::Peak, Some(*thread))?)
                    p { (title(Value::Allocated, profile)) }
                    (flame(profile, Value::Allocated, Some(*thread))?)
                },
            ))
        })
        .collect();
    Ok(html! {
        div.scroll { table {
            tr { th.text { "thread that allocated" } th { "at the peak" } th { "at the end" } th { "allocated" } }
            @for (thread, sums) in &all {
                tr { td.text { (profile.thread(*thread)) } @for sum in sums { td { (mib(*sum)) } } }
            }
        } }
        @for graph in graphs? { (graph) }
    })
}
