// SPDX-License-Identifier: MIT
//! What keys do: those of htop, where it has the same.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::top::state::{End, State, View};

/// What the state alone cannot do.
#[derive(Debug)]
pub enum Action {
    Nothing,
    /// Ctrl-Z.
    Stop,
    Leave(End),
}

/// Each key with what it does.
pub const HELP: [(&str, &str); 11] = [
    ("Up Down PgUp PgDn Home End", "choose a process; in a process: move through it"),
    ("Enter", "show the process"),
    ("Tab", "in a process: to the next section"),
    ("< > F6", "sort by the column before, by the next one"),
    ("r", "reverse the order"),
    ("/", "show only what has a text in its name or number; Enter keeps it, Esc drops it"),
    ("Space", "pause: no look is made until it is pressed again"),
    ("Esc Backspace", "back: from the help, from a process to the list; Esc: then leave"),
    ("h F1 ?", "this help"),
    ("q F10 Ctrl-C", "leave"),
    ("Ctrl-Z", "stop, until the shell goes on with it"),
];

pub fn press(state: &mut State, key: KeyEvent) -> Action {
    if key.kind == KeyEventKind::Release {
        return Action::Nothing;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Action::Leave(End::Interrupted),
            KeyCode::Char('z') => Action::Stop,
            _ => Action::Nothing,
        };
    }
    // A message is there until somebody has had the time to read it.
    state.message = None;
    if state.is_typing {
        return type_filter(state, key.code);
    }
    if state.is_help {
        state.is_help = false;
        return if is_leave(key.code) { Action::Leave(End::Asked) } else { Action::Nothing };
    }
    match key.code {
        code if is_leave(code) => return Action::Leave(End::Asked),
        KeyCode::Char('h' | '?') | KeyCode::F(1) => state.is_help = true,
        KeyCode::Char(' ') => state.is_paused = !state.is_paused,
        code => match state.view {
            View::List => return in_list(state, code),
            View::One(_) => return in_process(state, code),
        },
    }
    Action::Nothing
}

fn is_leave(code: KeyCode) -> bool {
    matches!(code, KeyCode::Char('q') | KeyCode::F(10))
}

/// Where a movement leads to, of so many.
fn moved(code: KeyCode, from: usize, page: usize, count: usize) -> Option<usize> {
    let to = match code {
        KeyCode::Up | KeyCode::Char('k') => from.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => from + 1,
        KeyCode::PageUp => from.saturating_sub(page),
        KeyCode::PageDown => from + page,
        KeyCode::Home => 0,
        KeyCode::End => count,
        _ => return None,
    };
    Some(to.min(count.saturating_sub(1)))
}

fn in_list(state: &mut State, code: KeyCode) -> Action {
    let count = state.shown().len();
    if let Some(to) = moved(code, state.selected, state.page, count) {
        state.select(to);
        return Action::Nothing;
    }
    match code {
        KeyCode::Enter => {
            let pid = state.shown().get(state.selected).map(|row| row.pid);
            if let Some(pid) = pid {
                state.selected_pid = Some(pid);
                state.show_process(pid);
            }
        }
        KeyCode::Char('/') => state.is_typing = true,
        KeyCode::Char('<') => sort_beside(state, -1),
        KeyCode::Char('>') | KeyCode::F(6) => sort_beside(state, 1),
        KeyCode::Char('r') => {
            state.largest_first = !state.largest_first;
            state.sort();
        }
        KeyCode::Esc if !state.filter.is_empty() => {
            state.filter.clear();
            state.sort();
        }
        KeyCode::Esc => return Action::Leave(End::Asked),
        _ => {}
    }
    Action::Nothing
}

fn sort_beside(state: &mut State, step: isize) {
    state.sort = state.sort.beside(step);
    state.largest_first = state.sort.largest_first();
    state.sort();
}

fn in_process(state: &mut State, code: KeyCode) -> Action {
    if let Some(to) = moved(code, state.first, state.page, state.lines) {
        state.first = to;
        state.settle();
        return Action::Nothing;
    }
    match code {
        KeyCode::Tab => {
            let next = state.sections.iter().copied().find(|section| *section > state.first);
            let before = state.first;
            state.first = next.unwrap_or(0);
            state.settle();
            // The last ones may all be on the screen.
            if state.first == before {
                state.first = 0;
            }
        }
        KeyCode::Esc | KeyCode::Backspace if state.is_given => return Action::Leave(End::Asked),
        KeyCode::Esc | KeyCode::Backspace => state.leave_process(),
        _ => {}
    }
    Action::Nothing
}

fn type_filter(state: &mut State, code: KeyCode) -> Action {
    match code {
        KeyCode::Enter => state.is_typing = false,
        KeyCode::Esc => {
            state.is_typing = false;
            state.filter.clear();
        }
        KeyCode::Backspace => {
            state.filter.pop();
        }
        KeyCode::Char(c) => state.filter.push(c),
        _ => {}
    }
    state.sort();
    Action::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::reader::Want;
    use crate::top::row::Column;
    use crate::top::state::tests::state;

    fn press_all(state: &mut State, codes: &[KeyCode]) -> Vec<Action> {
        codes.iter().map(|code| press(state, KeyEvent::new(*code, KeyModifiers::NONE))).collect()
    }

    fn text(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    #[test]
    fn processes_are_chosen() {
        let mut state = state(10);
        let at = |state: &mut State, codes: &[KeyCode]| {
            press_all(state, codes);
            (state.selected, state.first)
        };
        assert_eq!(at(&mut state, &[KeyCode::Down, KeyCode::Char('j')]), (2, 0));
        assert_eq!(at(&mut state, &[KeyCode::Up]), (1, 0));
        assert_eq!(at(&mut state, &[KeyCode::PageDown]), (11, 2));
        assert_eq!(at(&mut state, &[KeyCode::End]), (29, 20));
        assert_eq!(at(&mut state, &[KeyCode::Down]), (29, 20));
        assert_eq!(at(&mut state, &[KeyCode::PageUp]), (19, 19));
        assert_eq!(at(&mut state, &[KeyCode::Home, KeyCode::Up]), (0, 0));
        press_all(&mut state, &[KeyCode::Down, KeyCode::Enter]);
        assert_eq!(state.view, View::One(129));
        press_all(&mut state, &[KeyCode::Esc]);
        assert_eq!((state.view, state.selected), (View::List, 1));
    }

    #[test]
    fn columns_are_chosen() {
        let mut state = state(10);
        press_all(&mut state, &[KeyCode::F(6)]);
        assert_eq!((state.sort, state.shown()[0].pid), (Column::Live, 130));
        press_all(&mut state, &text("<<"));
        assert_eq!((state.sort, state.largest_first, state.shown()[0].pid), (Column::Pid, false, 101));
        press_all(&mut state, &text("r"));
        assert_eq!(state.shown()[0].pid, 130);
        press_all(&mut state, &text(">"));
        assert_eq!((state.sort, state.largest_first), (Column::Resident, true));
    }

    #[test]
    fn filters_are_typed() {
        let mut state = state(10);
        press_all(&mut state, &[text("/program 1"), vec![KeyCode::Char('q'), KeyCode::Backspace]].concat());
        assert_eq!((state.filter.as_str(), state.shown().len()), ("program 1", 11));
        press_all(&mut state, &[KeyCode::Enter, KeyCode::End]);
        assert_eq!((state.is_typing, state.selected), (false, 10));
        press_all(&mut state, &[KeyCode::Esc]);
        assert_eq!((state.shown().len(), state.filter.as_str()), (30, ""));
        press_all(
            &mut state,
            &[text("/nothing like it"), vec![KeyCode::Enter, KeyCode::Enter, KeyCode::Down]].concat(),
        );
        assert_eq!((state.view, state.shown().len(), state.selected), (View::List, 0, 0));
        press_all(&mut state, &[text("/x"), vec![KeyCode::Esc]].concat());
        assert_eq!((state.is_typing, state.filter.as_str()), (false, ""));
    }

    #[test]
    fn a_pause_is_until_it_is_over() {
        let mut state = state(10);
        press_all(&mut state, &text(" "));
        assert_eq!(state.want(), Want::Nothing);
        press_all(&mut state, &text("j "));
        assert_eq!(state.want(), Want::All);
        press_all(&mut state, &[KeyCode::Char(' '), KeyCode::Enter]);
        assert_eq!(state.want(), Want::One(129), "what is newly chosen is looked at");
    }

    #[test]
    fn it_is_left() {
        let leaves =
            |state: &mut State, code: KeyCode| matches!(press_all(state, &[code])[0], Action::Leave(End::Asked));
        for code in [KeyCode::Char('q'), KeyCode::F(10), KeyCode::Esc] {
            assert!(leaves(&mut state(10), code), "{code:?}");
            assert!(leaves(&mut State::new(Some(1)), code), "{code:?}");
        }
        let control = |c: char| press(&mut state(10), KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
        assert!(matches!(control('c'), Action::Leave(End::Interrupted)));
        assert!(matches!(control('z'), Action::Stop));
        assert!(matches!(control('q'), Action::Nothing));
        let mut helped = state(10);
        press_all(&mut helped, &[KeyCode::F(1)]);
        assert!(helped.is_help);
        assert!(!leaves(&mut helped, KeyCode::Esc));
        assert!(!helped.is_help && state(10).want() == helped.want());
        let mut shown = state(10);
        press_all(&mut shown, &[KeyCode::Enter]);
        assert!(!leaves(&mut shown, KeyCode::Backspace) && shown.view == View::List);
    }

    #[test]
    fn a_process_is_moved_through() {
        let mut state = state(10);
        press_all(&mut state, &[KeyCode::Enter]);
        (state.lines, state.sections) = (35, vec![0, 12, 20, 30]);
        let mut at = |code: KeyCode| {
            press_all(&mut state, &[code]);
            state.first
        };
        assert_eq!([at(KeyCode::Down), at(KeyCode::PageDown), at(KeyCode::End), at(KeyCode::Home)], [1, 11, 25, 0]);
        let tabs = [0; 4].map(|_| at(KeyCode::Tab));
        assert_eq!(tabs, [12, 20, 25, 0]);
    }
}
