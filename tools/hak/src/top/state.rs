// SPDX-License-Identifier: MIT
//! What is shown, and where in it the user is. What was seen and which keys were pressed (`keys`) change it; `draw`
//! shows it.

use anyhow::Error;

use crate::top::course::{Course, Look};
use crate::top::processes::Listing;
use crate::top::reader::{Seen, Want};
use crate::top::row::{Column, Row};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    List,
    One(u32),
}

pub struct State {
    pub view: View,
    /// The process was named on the command line: there is no list to go back to.
    pub is_given: bool,
    pub listing: Option<Listing>,
    pub sort: Column,
    pub largest_first: bool,
    pub filter: String,
    pub is_typing: bool,
    pub is_paused: bool,
    pub is_help: bool,
    /// Of the rows that are shown.
    pub selected: usize,
    pub selected_pid: Option<u32>,
    /// The first row, or line, that is on the screen.
    pub first: usize,
    /// How many fit onto it.
    pub page: usize,
    /// Of one process, of which the number of lines, and where sections begin, are known when they are laid out.
    pub lines: usize,
    pub sections: Vec<usize>,
    pub course: Option<Course>,
    pub message: Option<String>,
}

/// Why it is over.
#[derive(Debug)]
pub enum End {
    Asked,
    Interrupted,
    Failed(Error),
}

/// A sentence about all of them.
pub fn summary(listing: &Listing) -> String {
    let sum = |of: fn(&Row) -> u64| listing.rows.iter().map(of).sum::<u64>() as f64 / f64::from(1 << 20);
    let mut text = format!(
        "{} under hakmem, {:.1} MiB resident, of that {:.1} MiB live",
        processes(listing.rows.len()),
        sum(|row| row.figures.resident),
        sum(|row| row.figures.resident_live)
    );
    if listing.denied > 0 {
        text += &format!("; {} may not be read", processes(listing.denied));
    }
    if listing.unknown > 0 {
        text += &format!("; {} under a hakmem that this hak does not know", processes(listing.unknown));
    }
    text
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

impl State {
    pub fn new(given: Option<u32>) -> State {
        State {
            view: given.map_or(View::List, View::One),
            is_given: given.is_some(),
            listing: None,
            sort: Column::Resident,
            largest_first: true,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            is_help: false,
            selected: 0,
            selected_pid: None,
            first: 0,
            page: 1,
            lines: 0,
            sections: Vec::new(),
            course: None,
            message: None,
        }
    }

    pub fn want(&self) -> Want {
        match self.view {
            _ if self.is_paused => Want::Nothing,
            View::List => Want::All,
            View::One(pid) => Want::One(pid),
        }
    }

    pub fn shown(&self) -> Vec<&Row> {
        let rows = self.listing.iter().flat_map(|listing| &listing.rows);
        rows.filter(|row| row.matches(&self.filter)).collect()
    }

    /// An end where a process that was named on the command line cannot be looked at any more.
    pub fn see(&mut self, seen: Seen) -> Option<End> {
        match seen {
            Seen::All(Ok(listing)) => {
                self.listing = Some(listing);
                self.sort();
            }
            Seen::All(Err(error)) => return Some(End::Failed(error)),
            // Of one that was left meanwhile.
            Seen::One(pid, _) if self.view != View::One(pid) => {}
            Seen::One(_, Ok(look)) => self.see_one(look),
            Seen::One(_, Err(error)) if self.is_given => return Some(End::Failed(error)),
            Seen::One(_, Err(error)) => {
                self.leave_process();
                self.message = Some(format!("{error:#}"));
            }
        }
        None
    }

    fn see_one(&mut self, look: Look) {
        match &mut self.course {
            Some(course) => course.go_on(look),
            None => self.course = Some(Course::begin(look)),
        }
    }

    pub fn show_process(&mut self, pid: u32) {
        (self.view, self.course, self.message) = (View::One(pid), None, None);
        (self.first, self.lines, self.is_paused) = (0, 0, false);
    }

    pub fn leave_process(&mut self) {
        (self.view, self.course, self.is_paused) = (View::List, None, false);
        self.settle();
    }

    pub fn sort(&mut self) {
        if let Some(listing) = &mut self.listing {
            self.sort.sort(&mut listing.rows, self.largest_first);
        }
        // Whoever has chosen a process has chosen that, and not its place.
        let place = self.shown().iter().position(|row| Some(row.pid) == self.selected_pid);
        self.selected = place.unwrap_or(self.selected);
        self.settle();
    }

    /// Of the list: the row.
    pub fn select(&mut self, row: usize) {
        self.selected = row;
        self.settle();
        self.selected_pid = self.shown().get(self.selected).map(|row| row.pid);
    }

    /// What is selected is there, and on the screen.
    pub fn settle(&mut self) {
        if self.view == View::List {
            let count = self.shown().len();
            self.selected = self.selected.min(count.saturating_sub(1));
            let (least, most) = ((self.selected + 1).saturating_sub(self.page), self.selected);
            self.first = self.first.clamp(least, most).min(count.saturating_sub(self.page).max(least));
        } else {
            self.first = self.first.min(self.lines.saturating_sub(self.page));
        }
    }
}

#[cfg(test)]
pub mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::top::row::tests::row;
    use crate::top::texts;

    pub fn listing() -> Listing {
        let rows = (1..=30).map(|n| row(100 + n, &format!("program {n}"), u64::from(n) * 10, u64::from(n)));
        Listing { rows: rows.collect(), denied: 2, unknown: 1 }
    }

    pub fn state(page: usize) -> State {
        let mut state = State::new(None);
        state.page = page;
        assert!(state.see(Seen::All(Ok(listing()))).is_none());
        state
    }

    #[test]
    fn the_selected_process_stays_selected() {
        let mut state = state(10);
        assert_eq!(state.shown()[0].pid, 130);
        state.select(3);
        assert_eq!(state.selected_pid, Some(127));
        let mut next = listing();
        next.rows.iter_mut().find(|row| row.pid == 127).unwrap().figures.resident = 0;
        state.see(Seen::All(Ok(next)));
        assert_eq!((state.selected, state.first), (29, 20), "now it is the last, and on the screen");
        let mut next = listing();
        next.rows.retain(|row| row.pid < 110);
        state.see(Seen::All(Ok(next)));
        assert_eq!((state.selected, state.first), (8, 0), "it has ended: the last that there is");
    }

    #[test]
    fn a_process_that_ends_leads_back_to_the_list() {
        let mut state = state(10);
        state.show_process(127);
        assert_eq!(state.want(), Want::One(127));
        let look = || texts::tests::course(1).last;
        state.see(Seen::One(127, Ok(look())));
        assert!(state.course.is_some());
        state.see(Seen::One(99, Err(anyhow!("of another one"))));
        assert_eq!(state.view, View::One(127));
        state.is_paused = true;
        assert!(state.see(Seen::One(127, Err(anyhow!("process 127 has ended")))).is_none());
        assert_eq!((state.view, state.want()), (View::List, Want::All));
        assert_eq!(state.message.as_deref(), Some("process 127 has ended"));
    }

    #[test]
    fn a_given_process_that_ends_is_the_end() {
        let mut state = State::new(Some(127));
        let end = state.see(Seen::One(127, Err(anyhow!("process 127 has ended"))));
        assert!(matches!(end, Some(End::Failed(error)) if error.to_string() == "process 127 has ended"));
    }

    #[test]
    fn the_summary_counts() {
        let text = summary(&listing());
        assert!(text.starts_with("30 processes under hakmem, 4650.0 MiB resident, of that 465.0 MiB live"), "{text}");
        assert!(text.ends_with("; 2 processes may not be read; 1 process under a hakmem that this hak does not know"));
        assert!(summary(&Listing::default()).starts_with("0 processes under hakmem, 0.0 MiB"));
    }
}
