// SPDX-License-Identifier: MIT
//! Draws the state. Where there is little room, lines are given up before what they are about.

mod chart;
mod help;
mod list;
mod process;
mod style;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

pub use crate::top::draw::style::Style;
use crate::top::state::{State, View};

/// A picture that has been laid out for a screen of some size.
pub struct Picture {
    head: Rect,
    status: Rect,
    chart: Rect,
    body: Rect,
    foot: Rect,
    lines: Vec<Line<'static>>,
}

impl Picture {
    /// Lays it out, and tells the state how much of it fits.
    pub fn of(area: Rect, state: &mut State, style: Style) -> Picture {
        let if_high = |height: u16, lines: u16| Constraint::Length(if area.height >= height { lines } else { 0 });
        let chart = match state.view {
            View::One(_) if area.height >= 16 && area.width >= 40 => (area.height / 3).min(14),
            _ => 0,
        };
        let parts = [if_high(3, 1), if_high(6, 1), Constraint::Length(chart), Constraint::Min(1), if_high(8, 1)];
        let [head, status, chart, body, foot] = Layout::vertical(parts).areas(area);
        let (height, width) = (usize::from(body.height).max(1), usize::from(body.width));
        let lines = match state.view {
            View::List => {
                // The titles stay, but where there is one line only.
                let has_titles = height > 1;
                state.page = (height - usize::from(has_titles)).max(1);
                state.settle();
                list::lines(state, width, has_titles, style)
            }
            View::One(_) => {
                let laid_out = process::lines(state, width, style);
                (state.page, state.lines, state.sections) = (height.max(1), laid_out.lines.len(), laid_out.sections);
                state.settle();
                laid_out.lines.into_iter().skip(state.first).take(height).collect()
            }
        };
        Picture { head, status, chart, body, foot, lines }
    }

    pub fn draw(self, frame: &mut Frame, state: &State, style: Style) {
        let line = |frame: &mut Frame, text: Line<'static>, area: Rect| frame.render_widget(Paragraph::new(text), area);
        let (head, status) = match state.view {
            View::List => (list::head(state), list::status(state, style)),
            View::One(pid) => (process::head(state, pid), process::status(state, style)),
        };
        line(frame, Line::styled(head, style.head()), self.head);
        line(frame, status, self.status);
        if let Some(course) = state.course.as_ref().filter(|_| self.chart.height > 0) {
            chart::draw(frame, course, self.chart, style);
        }
        frame.render_widget(Paragraph::new(self.lines), self.body);
        line(frame, Line::styled(foot(state), style.foot()), self.foot);
        if state.is_help {
            help::draw(frame, style);
        }
    }
}

fn foot(state: &State) -> &'static str {
    match state.view {
        _ if state.is_typing => "Enter keep  Esc drop the filter",
        View::List => "Enter show  < > sort  r reverse  / filter  Space pause  h help  q leave",
        View::One(_) if state.is_given => "Tab section  Up Down move  Space pause  h help  q leave",
        View::One(_) => "Esc list  Tab section  Up Down move  Space pause  h help  q leave",
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use ratatui::style::{Color, Modifier};

    use super::*;
    use crate::top::reader::Seen;
    use crate::top::state::tests::listing;
    use crate::top::texts::tests::course;

    fn drawn(state: &mut State, width: u16, height: u16, coloured: bool) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let style = Style { coloured };
        terminal.draw(|frame| Picture::of(frame.area(), state, style).draw(frame, state, style)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn rows(buffer: &Buffer) -> Vec<String> {
        let width = usize::from(buffer.area.width);
        let rows = buffer.content.chunks(width);
        let text = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
        rows.map(|row| text(row).trim_end().to_owned()).collect()
    }

    fn words(row: &str) -> Vec<&str> {
        row.split_whitespace().collect()
    }

    fn list() -> State {
        let mut state = State::new(None);
        state.see(Seen::All(Ok(listing())));
        state
    }

    fn process(looks: u64) -> State {
        let mut state = State::new(Some(1234));
        state.course = Some(course(looks));
        state
    }

    #[test]
    fn the_list_on_a_usual_screen() {
        let mut state = list();
        let buffer = drawn(&mut state, 100, 24, true);
        let rows = rows(&buffer);
        assert!(rows[0].starts_with("30 processes under hakmem, 4650.0 MiB resident"), "{rows:#?}");
        assert!(rows[1].starts_with("in MiB, sorted by resident, the largest first"), "{rows:#?}");
        let titles = ["PID", "resident▼", "live", "live", "%", "kept", "mapped", "returned/s", "threads", "program"];
        assert_eq!(words(&rows[2]), titles);
        assert_eq!(words(&rows[3])[..4], ["130", "300.0", "30.0", "10.0"]);
        assert_eq!(words(&rows[22])[..2], ["111", "110.0"]);
        assert!(rows[23].contains("q leave"));
        // The first is chosen.
        let reversed = |row: u16| buffer[(1, row)].modifier.contains(Modifier::REVERSED);
        assert_eq!([reversed(3), reversed(4)], [true, false]);
    }

    #[test]
    fn the_chosen_process_is_on_the_screen_whatever_its_size() {
        let mut state = list();
        state.select(29);
        for height in [24, 10, 7, 5, 3, 2, 100, 9] {
            let buffer = drawn(&mut state, 80, height, true);
            let rows = rows(&buffer);
            let chosen = (0..height).filter(|row| buffer[(1, *row)].modifier.contains(Modifier::REVERSED));
            let chosen: Vec<&String> = chosen.map(|row| &rows[usize::from(row)]).collect();
            assert_eq!(chosen.len(), 1, "{height}: {rows:#?}");
            assert!(chosen[0].trim_start().starts_with("101 "), "{height}: {rows:#?}");
        }
    }

    #[test]
    fn narrow_screens_go_without_columns() {
        for (width, columns) in [(120, 9), (60, 7), (40, 5), (30, 3), (10, 1)] {
            let rows = rows(&drawn(&mut list(), width, 24, true));
            let row = words(&rows[3]);
            assert!(row.starts_with(&["130"]), "{width}: {rows:#?}");
            // What is too narrow for the rest is cut; the name of the program has two words.
            assert_eq!(row.len(), if width >= 30 { columns + 1 } else { columns }, "{width}: {rows:#?}");
            assert_eq!(rows[3].contains("program 30"), width >= 30, "{width}: {rows:#?}");
        }
    }

    #[test]
    fn nothing_is_too_small() {
        for (width, height) in [(1, 1), (2, 1), (1, 5), (3, 3), (10, 2), (0, 0), (200, 1), (1, 200), (300, 100)] {
            for mut state in [list(), process(5), State::new(None), State::new(Some(1))] {
                for _ in 0..2 {
                    drawn(&mut state, width, height, true);
                    state.is_help = true;
                }
            }
        }
    }

    #[test]
    fn an_empty_list_says_so() {
        let mut state = State::new(None);
        assert!(rows(&drawn(&mut state, 80, 24, true)).concat().contains("looking"));
        state.see(Seen::All(Ok(Default::default())));
        let text = rows(&drawn(&mut state, 80, 24, true)).concat();
        assert!(text.contains("0 processes under hakmem") && text.contains("No process"), "{text}");
        let mut state = list();
        state.filter = "no such".into();
        assert!(rows(&drawn(&mut state, 80, 24, true)).concat().contains("No process"));
    }

    #[test]
    fn what_is_going_on_is_said() {
        let status = |change: fn(&mut State)| {
            let mut state = list();
            change(&mut state);
            rows(&drawn(&mut state, 100, 24, true))[1].clone()
        };
        assert!(status(|state| state.is_paused = true).contains("PAUSED"));
        assert!(status(|state| state.filter = "gram".into()).contains("only with 'gram'"));
        assert!(status(|state| (state.is_typing, state.filter) = (true, "abc".into())).starts_with("/abc"));
        assert!(status(|state| state.message = Some("it has ended".into())).contains("it has ended"));
    }

    #[test]
    fn a_process_on_a_usual_screen() {
        let mut state = process(20);
        let rows = rows(&drawn(&mut state, 80, 24, true));
        assert!(rows[0].starts_with("process 1234, program, under hakmem 0.0.0, 2026"), "{rows:#?}");
        let text = rows.join("\n");
        assert!(text.contains("resident 290.0 MiB") && text.contains("live 80.0 MiB"), "{text}");
        // The axes: MiB upwards, and seconds until now.
        assert!(text.contains("\n300 │") && text.contains("\n150 │") && text.contains("\n0   │"), "{text}");
        assert!(text.contains("-19 s") && text.contains("now"), "{text}");
        assert!(text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "there are lines in it: {text}");
        assert!(rows.iter().any(|row| words(row).starts_with(&["live", "80.00", "90.00"])), "{text}");
        state.first = usize::MAX;
        let rows = self::rows(&drawn(&mut state, 80, 24, true));
        assert!(rows.iter().any(|row| words(row) == ["huge", "2"]), "{rows:#?}");
        assert!(rows.iter().any(|row| words(row).starts_with(&["4096", "2"])), "{rows:#?}");
    }

    #[test]
    fn a_wide_screen_has_sections_side_by_side() {
        let mut state = process(3);
        let rows = rows(&drawn(&mut state, 120, 60, true));
        let both = |left: &str, right: &str| rows.iter().any(|row| row.contains(left) && row.contains(right));
        assert!(both(" live", "purged_aged") && both("worker (102)", "64"), "{rows:#?}");
        assert_eq!(state.sections.len(), 3);
        assert!(rows.iter().any(|row| words(row) == ["soft", "400.00", "100.00", "25.0"]), "{rows:#?}");
    }

    #[test]
    fn without_colours_there_are_none() {
        for mut state in [list(), process(5)] {
            for is_help in [false, true] {
                (state.is_help, state.message) = (is_help, Some("said".into()));
                let colours = |coloured: bool, state: &mut State| {
                    let buffer = drawn(state, 100, 30, coloured);
                    buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
                };
                assert!(!colours(false, &mut state));
                assert!(colours(true, &mut state));
            }
        }
    }

    #[test]
    fn the_help_has_every_key() {
        let mut state = list();
        state.is_help = true;
        let text = rows(&drawn(&mut state, 100, 40, true)).join("\n");
        for (keys, _) in crate::top::keys::HELP {
            assert!(text.contains(keys), "{keys}: {text}");
        }
    }
}
