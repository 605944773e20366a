// SPDX-License-Identifier: MIT
//! The page of `hak inspect --html`: the heap as a picture, of one moment or of several.
//!
//! The cells of the first moment are there without a script. With several, a script shows each in turn.

use std::collections::BTreeMap;

use anyhow::Result;
use maud::{Markup, PreEscaped, html};
use plotters::style::RGBColor;
use serde::Serialize;

use crate::inspect::picture::{Cell, Frame, KINDS, LEVELS, SuperSlab};
use crate::inspect::picture_text::{colour, strength};
use crate::inspect::report::{self, mib};
use crate::report::html::{document, folded};

const MAP_STYLE: &str = include_str!("map.css");
const SCRIPT: &str = include_str!("map.js");

/// A moment, for the script: what is other than in the one before.
#[derive(Serialize)]
struct Moment {
    taken: String,
    sums: String,
    superslabs: BTreeMap<String, Row>,
}

#[derive(Serialize, Clone, PartialEq)]
struct Row {
    /// Two letters a cell: its class in the style sheet.
    looks: String,
    resident: Vec<u64>,
    parts: Vec<(usize, usize, String)>,
}

/// There is at least one frame.
pub fn page(frames: &[Frame]) -> Result<String> {
    let first = &frames[0];
    let program = first
        .snapshot
        .inspect
        .as_ref()
        .map_or_else(String::new, |inspect| format!("{}, process {}", inspect.program, inspect.process_id));
    let title = format!("{program} – the heap");
    let page = document(
        &title,
        &(MAP_STYLE.to_string() + &colours()),
        html! {
            h1.program { "The heap of " (program) }
            p.soft { span #taken { (taken(first)) } ": " span #sums { (sums(first)) } }
            @if frames.len() > 1 {
                div.time {
                    label for="frame" { "moment" }
                    input #frame type="range" min="0" max=(frames.len() - 1) value="0";
                }
            }
            (legend())
            p.soft { "A cell is 64 KiB; a row is a SuperSlab, 2 MiB. Each cell says what it is when it is pointed at." }
            (map(frames))
            (folded("The last figures", html! {
                pre { (report::text(&frames[frames.len() - 1].snapshot, Some(120))) }
            }))
            p.soft { "hakmem " (first.snapshot.version) " · made by hak " (env!("CARGO_PKG_VERSION")) }
            @if frames.len() > 1 {
                script #frames type="application/json" { (PreEscaped(moments(frames)?)) }
                script { (PreEscaped(SCRIPT)) }
            }
        },
    );
    Ok(page.into_string())
}

fn taken(frame: &Frame) -> String {
    frame.snapshot.inspect.as_ref().map_or_else(String::new, |inspect| inspect.taken.clone())
}

fn sums(frame: &Frame) -> String {
    let figures = &frame.snapshot.figures;
    let parts = report::KINDS.iter().filter(|kind| kind.1(figures) > 0 && kind.0 != "in all");
    let parts: Vec<String> = parts.map(|kind| format!("{} {}", kind.0, mib(kind.1(figures)))).collect();
    format!("{} MiB resident of {} mapped: {}", mib(figures.resident), mib(figures.mapped), parts.join(", "))
}

fn colours() -> String {
    let mut rules = String::new();
    for kind in KINDS {
        let RGBColor(red, green, blue) = colour(kind);
        for level in 0..LEVELS {
            let cell = Cell { kind, level, resident_kib: 0 };
            rules +=
                &format!(".{} {{ background: rgba({red}, {green}, {blue}, {:.2}); }}\n", look(&cell), strength(&cell));
        }
    }
    rules
}

/// A cell's class in the style sheet.
fn look(cell: &Cell) -> String {
    format!("{}{}", cell.kind.letter(), cell.level)
}

fn legend() -> Markup {
    html! {
        div.legend {
            @for kind in KINDS {
                span {
                    @for level in 0..LEVELS { i class=(look(&Cell { kind, level, resident_kib: 0 })) {} }
                    (kind.meaning())
                }
            }
        }
    }
}

/// Of all moments together, as the first one was.
fn map(frames: &[Frame]) -> Markup {
    let mut all: BTreeMap<u64, Option<&SuperSlab>> = BTreeMap::new();
    for frame in frames.iter().skip(1) {
        all.extend(frame.superslabs.iter().map(|superslab| (superslab.address, None)));
    }
    all.extend(frames[0].superslabs.iter().map(|superslab| (superslab.address, Some(superslab))));
    html! {
        div.map {
            @for (address, superslab) in all {
                div.superslab data-at=(name(address)) {
                    b { (name(address)) }
                    @match superslab {
                        Some(superslab) => @for part in &superslab.parts {
                            @for cell in &superslab.cells[part.first..part.first + part.cells] {
                                i class=(look(cell)) title=(format!("{}; {} of 64 KiB resident", part.text, cell.resident_kib)) {}
                            }
                        }
                        None => @for _ in 0..32 { i.n {} }
                    }
                }
            }
        }
    }
}

fn name(address: u64) -> String {
    format!("{address:#x}")
}

/// JSON in which no tag begins, whatever a thread is called.
fn moments(frames: &[Frame]) -> Result<String> {
    // Memory that has once been mapped stays, so no SuperSlab goes away.
    let mut last: BTreeMap<u64, Row> = BTreeMap::new();
    let mut moments = Vec::new();
    for frame in frames {
        let mut superslabs = BTreeMap::new();
        for superslab in &frame.superslabs {
            let row = row(superslab);
            if last.get(&superslab.address) != Some(&row) {
                superslabs.insert(name(superslab.address), row.clone());
                last.insert(superslab.address, row);
            }
        }
        moments.push(Moment { taken: taken(frame), sums: sums(frame), superslabs });
    }
    Ok(serde_json::to_string(&moments)?.replace('<', "\\u003c"))
}

fn row(superslab: &SuperSlab) -> Row {
    Row {
        looks: superslab.cells.iter().map(look).collect(),
        resident: superslab.cells.iter().map(|cell| cell.resident_kib).collect(),
        parts: superslab.parts.iter().map(|part| (part.first, part.cells, part.text.clone())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::picture::tests::made;

    const STEP: u64 = 2 << 20;

    fn cells(page: &str) -> usize {
        page.split_once("class=\"map\"").unwrap().1.matches("<i class=").count()
    }

    #[test]
    fn there_is_a_cell_for_each_unit() {
        let page = page(&[made(&[STEP, 2 * STEP], "a <slab> of \"blocks\"")]).unwrap();
        assert_eq!(cells(&page), 64);
        assert!(page.contains("title=\"a &lt;slab&gt; of &quot;blocks&quot;; 12 of 64 KiB resident\""), "{page}");
        assert!(!page.contains("<script"));
    }

    #[test]
    fn moments_share_their_cells_and_no_name_ends_the_script() {
        let frames = [made(&[STEP], "one"), made(&[STEP, 4 * STEP], "</script><b>"), made(&[STEP], "</script><b>")];
        let page = page(&frames).unwrap();
        assert_eq!(cells(&page), 64);
        assert_eq!(page.matches("<i class=\"n\">").count(), 32, "what is not there yet");
        let (_, script) = page.split_once("<script id=\"frames\" type=\"application/json\">").unwrap();
        let (json, _) = script.split_once("</script>").unwrap();
        let moments: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(moments[1]["superslabs"]["0x800000"]["parts"][0][2], "</script><b>");
        assert_eq!(moments[0]["superslabs"]["0x200000"]["looks"].as_str().unwrap().len(), 64);
        assert_eq!(moments[2]["superslabs"].as_object().unwrap().len(), 0, "nothing has changed");
        assert!(page.contains("max=\"2\""));
    }
}
