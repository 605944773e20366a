// SPDX-License-Identifier: MIT
//! The live view: one thread looks, one reads keys, one waits for signals, and this one draws what they say.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{INTERRUPTED, SOMETHING_FAILED, failure};
use crate::inspect::picture_text;
use crate::top::draw::{Picture, Style};
use crate::top::keys::{self, Action};
use crate::top::processes::Processes;
use crate::top::reader::{self, Seen, Want};
use crate::top::state::{End, State};
use crate::top::terminal::{self, Taken};

enum Message {
    Seen(Seen),
    Event(Event),
    /// There are no more keys.
    Closed(io::Error),
    Signal,
    /// A thread has panicked; what it says is kept until the terminal is given back.
    Broken,
}

/// What goes wrong before there is anything to show is said as `hak inspect` says it.
pub fn run(pid: Option<u32>, every: Duration) -> Result<u8> {
    let mut processes = Processes::default();
    let mut state = State::new(pid);
    if let Some(pid) = pid {
        let look = processes.look(pid)?;
        state.see(Seen::One(pid, Ok(look)));
    }
    let (tell, messages) = mpsc::channel();
    let (wants, wanted) = mpsc::channel();
    watch_signals(tell.clone())?;
    let mut taken = Taken::take().map_err(|error| cannot("use the terminal", &error))?;
    spawn(&tell, move |tell| reader::read(processes, every, &wanted, tell, Message::Seen));
    spawn(&tell, read_keys);
    let end = follow(&mut taken, &mut state, &wants, &messages);
    drop(taken);
    match end {
        Ok(End::Asked) => Ok(0),
        Ok(End::Interrupted) => Ok(INTERRUPTED),
        Ok(End::Failed(error)) => Err(error),
        Err(error) => Err(cannot("use the terminal", &error)),
    }
}

fn cannot(what: &str, error: &io::Error) -> anyhow::Error {
    failure(SOMETHING_FAILED, format!("cannot {what}: {error}"))
}

fn follow(taken: &mut Taken, state: &mut State, wants: &Sender<Want>, messages: &Receiver<Message>) -> io::Result<End> {
    let style = Style { coloured: picture_text::wants_colours() };
    let mut wanted = Want::Nothing;
    loop {
        if state.want() != wanted {
            wanted = state.want();
            let _ = wants.send(wanted); // a reader that is not there has panicked, which a message says
        }
        taken.terminal.draw(|frame| Picture::of(frame.area(), state, style).draw(frame, state, style))?;
        let end = match messages.recv() {
            Ok(Message::Seen(seen)) => state.see(seen),
            Ok(Message::Event(Event::Key(key))) => match keys::press(state, key) {
                Action::Nothing => None,
                Action::Stop => taken.stop().map(|()| None)?,
                Action::Leave(end) => Some(end),
            },
            Ok(Message::Event(_)) => None, // another size, which drawing asks for
            Ok(Message::Closed(error)) => return Err(error),
            Ok(Message::Signal) => Some(End::Interrupted),
            Ok(Message::Broken) | Err(_) => Some(broken()),
        };
        if let Some(end) = end {
            return Ok(end);
        }
    }
}

fn broken() -> End {
    End::Failed(failure(SOMETHING_FAILED, "ended by a mistake in hak, see above"))
}

/// A thread that ends the view when it panics, and goes on until the tool ends.
fn spawn(tell: &Sender<Message>, work: impl FnOnce(&Sender<Message>) + Send + 'static) -> JoinHandle<()> {
    struct Says(Sender<Message>);
    impl Drop for Says {
        fn drop(&mut self) {
            if thread::panicking() {
                let _ = self.0.send(Message::Broken);
            }
        }
    }
    let says = Says(tell.clone());
    thread::spawn(move || work(&says.0))
}

fn read_keys(tell: &Sender<Message>) {
    loop {
        let (message, is_last) = match event::read() {
            Ok(event) => (Message::Event(event), false),
            Err(error) => (Message::Closed(error), true),
        };
        if tell.send(message).is_err() || is_last {
            return;
        }
    }
}

/// The first one leaves as a key does; a second one, if that takes too long, at once.
fn watch_signals(tell: Sender<Message>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    thread::spawn(move || {
        let mut signals = signals.forever();
        signals.next();
        let _ = tell.send(Message::Signal);
        signals.next();
        terminal::give_back();
        signal_hook::low_level::exit(INTERRUPTED.into());
    });
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/all/common/terminals.rs"]
mod terminals;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::terminals::OnTerminal;
    use super::*;

    /// One of the tests below, on a terminal.
    fn on_terminal(test: &str) -> OnTerminal {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--nocapture", "--exact"]).arg(format!("top::screen::tests::{test}"));
        OnTerminal::start(command.env("TERM", "xterm-256color").env("RUST_BACKTRACE", "0"), 100, 24)
    }

    fn follow_until_broken(prepare: impl FnOnce(&Sender<Message>)) {
        let (tell, messages) = mpsc::channel();
        let (wants, _wanted) = mpsc::channel();
        let mut taken = Taken::take().unwrap();
        prepare(&tell);
        let end = follow(&mut taken, &mut State::new(None), &wants, &messages);
        drop(taken);
        let Ok(End::Failed(error)) = end else { panic!("it has not failed") };
        crate::output::say(error);
    }

    #[test]
    #[ignore = "on a terminal: panics_give_the_terminal_back"]
    fn panic_in_a_thread() {
        // It is over before anything is drawn.
        follow_until_broken(|tell| assert!(spawn(tell, |_| panic!("on purpose")).join().is_err()));
    }

    #[test]
    #[ignore = "on a terminal: panics_give_the_terminal_back"]
    fn panic_while_drawing() {
        let mut taken = Taken::take().unwrap();
        let _ = taken.terminal.draw(|_| panic!("on purpose"));
    }

    #[test]
    fn panics_give_the_terminal_back() {
        for (test, code, said) in
            [("panic_in_a_thread", 0, "ended by a mistake in hak, see above"), ("panic_while_drawing", 101, "FAILED")]
        {
            let mut on = on_terminal(test);
            on.until_contains(said);
            let (ended, screen) = on.end();
            assert_eq!(ended, Some(code), "{screen}");
            assert!(screen.contains("on purpose"), "what it was is on the screen that stays: {screen}");
            assert!(!screen.contains("q leave"), "and nothing that was drawn: {screen}");
        }
    }
}
