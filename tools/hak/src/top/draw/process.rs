// SPDX-License-Identifier: MIT
//! One process: its sections below each other, or in pairs where there is room.

use ratatui::text::Line;

use crate::top::draw::Style;
use crate::top::state::State;
use crate::top::texts::{self, Section};

/// Two sections fit beside each other.
const WIDE: usize = 100;
const GAP: usize = 3;

pub struct LaidOut {
    pub lines: Vec<Line<'static>>,
    /// The line that each begins in.
    pub sections: Vec<usize>,
}

pub fn head(state: &State, pid: u32) -> String {
    state.course.as_ref().map_or_else(|| format!("looking at process {pid}"), |it| texts::head(&it.last.snapshot))
}

pub fn status(state: &State, style: Style) -> Line<'static> {
    let remarks = state.course.as_ref().map(|course| texts::remarks(&course.last.snapshot)).unwrap_or_default();
    let paused = state.is_paused.then(|| "PAUSED".to_owned());
    let all: Vec<String> = paused.into_iter().chain(state.message.clone()).chain(remarks).collect();
    Line::styled(all.join("; "), style.message())
}

pub fn lines(state: &State, width: usize, style: Style) -> LaidOut {
    let mut out = LaidOut { lines: Vec::new(), sections: Vec::new() };
    let Some(course) = &state.course else { return out };
    if width < WIDE {
        for section in texts::sections(course, width) {
            out.section(&section.lines, style);
        }
        return out;
    }
    let half = (width - GAP) / 2;
    let mut narrow: Vec<Section> = texts::sections(course, half);
    let right = |narrow: &mut Vec<Section>, title: &str| {
        let place = narrow.iter().position(|section| section.title == title);
        place.map_or_else(Vec::new, |place| narrow.remove(place).lines)
    };
    let (given_back, classes) = (right(&mut narrow, "given back"), right(&mut narrow, "size classes"));
    for section in narrow {
        let beside = match section.title {
            "account" => &given_back[..],
            "threads" => &classes[..],
            _ => &[],
        };
        out.section(&side_by_side(&section.lines, beside, half), style);
    }
    out
}

impl LaidOut {
    fn section(&mut self, lines: &[String], style: Style) {
        if !self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        self.sections.push(self.lines.len());
        let line = |(place, text): (usize, &String)| match place {
            0 => Line::styled(text.clone(), style.titles()),
            _ => Line::from(text.clone()),
        };
        self.lines.extend(lines.iter().enumerate().map(line));
    }
}

fn side_by_side(left: &[String], right: &[String], half: usize) -> Vec<String> {
    let cut = |text: &String| text.chars().take(half).collect::<String>();
    let line = |place: usize| {
        let (left, right) = (left.get(place).map(cut), right.get(place).map(cut));
        format!("{:<half$}{:GAP$}{}", left.unwrap_or_default(), "", right.unwrap_or_default())
    };
    (0..left.len().max(right.len())).map(line).collect()
}
