// SPDX-License-Identifier: MIT
//! The list of processes.

use ratatui::text::Line;

use crate::top::draw::Style;
use crate::top::row;
use crate::top::state::{self, State};

pub fn head(state: &State) -> String {
    state.listing.as_ref().map_or_else(|| "looking for processes under hakmem".into(), state::summary)
}

pub fn status(state: &State, style: Style) -> Line<'static> {
    if state.is_typing {
        return Line::from(format!("/{}_", state.filter));
    }
    if let Some(message) = &state.message {
        return Line::styled(message.clone(), style.message());
    }
    let order = if state.largest_first { "the largest first" } else { "the smallest first" };
    let mut text = format!("in MiB, sorted by {}, {order}", state.sort.title());
    if !state.filter.is_empty() {
        text += &format!("; only with '{}' in the name or number", state.filter);
    }
    if state.is_paused {
        return Line::styled(format!("PAUSED; {text}"), style.message());
    }
    text.into()
}

/// The titles, and the rows from the first to the last that fits.
pub fn lines(state: &State, width: usize, has_titles: bool, style: Style) -> Vec<Line<'static>> {
    let rows = state.shown();
    if rows.is_empty() {
        let text = if state.listing.is_some() { "No process that may be read." } else { "" };
        return vec![Line::from(text)];
    }
    let on_screen = rows.iter().skip(state.first).take(state.page).copied();
    let table = row::table(on_screen, Some((state.sort, state.largest_first)));
    let mut lines = table.lines(width).into_iter();
    let titles = lines.next().map(|titles| Line::styled(titles, style.titles()));
    let rows = lines.enumerate().map(|(place, text)| {
        if state.first + place == state.selected {
            // To the edge of the screen.
            return Line::styled(format!("{text:<width$}"), style.selected());
        }
        Line::from(text)
    });
    titles.into_iter().filter(|_| has_titles).chain(rows).collect()
}
