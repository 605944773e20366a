// SPDX-License-Identifier: MIT
//! `hak top` on a terminal: what is on the screen, what keys do, and how the terminal is left.

use std::path::Path;
use std::process::Command;

use crate::common::heaps::{Running, heap_program, look, preloaded};
use crate::common::terminals::OnTerminal;
use crate::common::{BINARY, library};

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const ESCAPE: &str = "\x1b";
const F1: &str = "\x1bOP";
const F10: &str = "\x1b[21~";

fn quiet(directory: &Path) -> Running {
    let program = heap_program(directory, &["-ldl"]);
    let mut running = Running::start(&mut preloaded(&program, &library(), "quiet"));
    running.json();
    running
}

fn top(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("top").args(["--every", "50ms"]).args(arguments);
    command.env_remove("LD_PRELOAD").env_remove("NO_COLOR").env_remove("COLUMNS").env("TERM", "xterm-256color");
    command
}

fn mib(bytes: &serde_json::Value) -> f64 {
    bytes.as_f64().unwrap() / f64::from(1 << 20)
}

/// The row of a process, in words.
fn row(screen: &str, pid: &str) -> Option<Vec<String>> {
    let rows = screen.lines().map(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>());
    rows.into_iter().find(|words| words.first().is_some_and(|word| word == pid))
}

#[test]
fn processes_are_listed_chosen_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let running = quiet(directory.path());
    let pid = running.pid();
    let seen = look(&pid);
    let mut on = OnTerminal::start(&mut top(&[]), 100, 30);
    // Others may run under hakmem as well; the filter leaves this one.
    on.until_contains("under hakmem");
    on.press(&format!("/{pid}\r"));
    let screen = on.until(|screen| screen.contains("only with") && row(screen, &pid).is_some());
    assert!(on.is_on_other_screen() && on.is_raw());
    let words = row(&screen, &pid).unwrap();
    assert_eq!(words[1], format!("{:.1}", mib(&seen["resident"])), "{screen}");
    assert_eq!(words[2], format!("{:.1}", mib(&seen["resident_live"])), "{screen}");
    assert!(words.contains(&"heap_program".into()), "{screen}");

    on.press("\r");
    let live = format!("{:.2}", mib(&seen["resident_live"]));
    let is_live = |line: &str| line.split_whitespace().take(2).eq(["live", live.as_str()]);
    let screen =
        on.until(|screen| screen.contains(&format!("process {pid}, heap_program")) && screen.lines().any(is_live));
    assert!(screen.contains("purged_aged") && screen.contains(" now"), "{screen}");
    // Tab leads to the threads, by name.
    on.press("\t");
    on.until(|screen| screen.contains("worker 0 (") && screen.contains("waste KiB"));
    on.press(ESCAPE);
    on.until(|screen| row(screen, &pid).is_some());
    on.press("q");
    assert_eq!(on.end().0, Some(0));
}

#[test]
fn keys_sort_filter_pause_and_help() {
    let directory = tempfile::tempdir().unwrap();
    let running = quiet(directory.path());
    let mut on = OnTerminal::start(&mut top(&[]), 100, 30);
    on.until_contains("under hakmem");
    on.press(&format!("/{}\r", running.pid()));
    on.until(|screen| row(screen, &running.pid()).is_some() && screen.contains("resident▼"));
    on.press("<");
    on.until_contains("PID▲");
    on.press("r");
    on.until_contains("PID▼");
    on.press("/no such program");
    on.until_contains("No process that may be read");
    // Together with a key behind it, Escape would be another one.
    on.press(ESCAPE);
    on.until(|screen| !screen.contains("No process") && !screen.contains("/no such"));
    on.press(&format!("/{}\r", running.pid()));
    on.until(|screen| row(screen, &running.pid()).is_some());
    on.press(" ");
    on.until_contains("PAUSED");
    on.press(F1);
    on.until_contains("reverse the order");
    on.press(" ");
    on.until(|screen| !screen.contains("reverse the order"));
    on.press(" ");
    on.until(|screen| !screen.contains("PAUSED"));
    on.press(DOWN);
    on.press(UP);
    on.press(F10);
    assert_eq!(on.end().0, Some(0));
}

#[test]
fn a_process_that_ends_leads_back_or_out() {
    let directory = tempfile::tempdir().unwrap();
    for is_given in [false, true] {
        let running = quiet(directory.path());
        let pid = running.pid();
        let given: &[&str] = if is_given { &[&pid] } else { &[] };
        let mut on = OnTerminal::start(&mut top(given), 100, 30);
        if !is_given {
            on.until_contains("under hakmem");
            on.press(&format!("/{pid}\r"));
            on.until(|screen| screen.contains("only with") && row(screen, &pid).is_some());
            on.press("\r");
        }
        on.until_contains(&format!("process {pid}, heap_program"));
        drop(running);
        let gone = format!("process {pid} has ended");
        if is_given {
            let (code, screen) = on.end();
            assert_eq!(code, Some(1));
            assert!(screen.contains(&format!("hak: {gone}")), "{screen}");
        } else {
            on.until(|screen| screen.contains(&gone) && screen.contains("No process that may be read"));
            on.press("q");
            assert_eq!(on.end().0, Some(0));
        }
    }
}

#[test]
fn the_terminal_is_given_back_whatever_ends_it() {
    for (keys, signal, code) in [
        ("q", 0, 0),
        (ESCAPE, 0, 0),
        ("\x03", 0, 130),
        ("", libc::SIGTERM, 130),
        ("", libc::SIGINT, 130),
        ("", libc::SIGHUP, 130),
        ("", libc::SIGQUIT, 130),
    ] {
        let mut on = OnTerminal::start(&mut top(&[]), 80, 24);
        on.until_contains("under hakmem");
        assert!(on.is_raw() && on.is_on_other_screen());
        if signal == 0 {
            on.press(keys);
        } else {
            on.signal(signal);
        }
        assert_eq!(on.end().0, Some(code), "{keys:?} {signal}");
    }
}

#[test]
fn a_screen_may_become_another_size() {
    let directory = tempfile::tempdir().unwrap();
    let running = quiet(directory.path());
    let pid = running.pid();
    let mut on = OnTerminal::start(&mut top(&[&pid]), 100, 30);
    on.until_contains("purged_aged");
    for (columns, lines) in [(20, 5), (1, 1), (200, 60), (40, 3), (80, 24)] {
        on.resize(columns, lines);
        on.signal(libc::SIGWINCH);
    }
    on.until(|screen| screen.contains("purged_aged") && screen.contains(" now") && screen.contains("q leave"));
    on.press("q");
    assert_eq!(on.end().0, Some(0));
}

#[test]
fn a_key_pressed_while_the_size_changes_counts() {
    let directory = tempfile::tempdir().unwrap();
    let running = quiet(directory.path());
    let mut on = OnTerminal::start(&mut top(&[&running.pid()]), 100, 30);
    on.until_contains("q leave");
    for round in 0..200 {
        on.signal(libc::SIGWINCH);
        on.press(" ");
        let is_paused = round % 2 == 0;
        on.until(|screen| screen.contains("PAUSED") == is_paused);
    }
    on.press("q");
    assert_eq!(on.end().0, Some(0));
}

#[test]
fn colours_are_for_those_who_want_them() {
    let directory = tempfile::tempdir().unwrap();
    let running = quiet(directory.path());
    let pid = running.pid();
    for no_colour in ["", "1"] {
        let mut on = OnTerminal::start(top(&[&pid]).env("NO_COLOR", no_colour), 100, 30);
        on.until_contains("purged_aged");
        let written = String::from_utf8_lossy(&on.raw).into_owned();
        // What sets a colour of the foreground, but not back to the usual one.
        let colours = written.match_indices("\x1b[38;").count();
        assert_eq!(colours > 0, no_colour.is_empty(), "{written:?}");
        on.press("q");
        assert_eq!(on.end().0, Some(0));
    }
}

#[test]
fn what_cannot_be_shown_never_takes_the_terminal() {
    for (arguments, code, reason) in [
        (&["4194305"][..], 2, "there is no process 4194305"),
        (&[&std::process::id().to_string()], 2, "does not run under hakmem"),
    ] {
        let mut on = OnTerminal::start(&mut top(arguments), 200, 24);
        on.until_contains(reason);
        assert!(!String::from_utf8_lossy(&on.raw).contains("\x1b[?1049h"));
        assert_eq!(on.end().0, Some(code));
    }
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_gets_plain_text() {
    let mut on = OnTerminal::start(top(&[]).env("TERM", "dumb"), 100, 30);
    on.until(|screen| screen.matches("under hakmem").count() >= 2);
    assert!(!on.raw.contains(&0x1b));
    on.press("\x03");
    assert_eq!(on.end().0, Some(130));
}

#[test]
fn a_shell_can_stop_it_and_go_on_with_it() {
    let script = "set -m; \"$HAK\" top --every 50ms; echo stopped; read line; fg; echo over $?";
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-c", script]).env("HAK", BINARY).env("TERM", "xterm-256color").env_remove("LD_PRELOAD");
    let mut on = OnTerminal::start(&mut shell, 80, 24);
    on.until_contains("q leave");
    on.press("\x1a");
    on.until_contains("stopped");
    assert!(!on.is_raw() && !on.is_on_other_screen());
    on.press("\r");
    on.until_contains("q leave");
    assert!(on.is_raw() && on.is_on_other_screen());
    on.press("q");
    on.until_contains("over 0");
    assert_eq!(on.end().0, Some(0));
}
