// SPDX-License-Identifier: MIT
//! The terminal while something is drawn on it, and as it was before: whatever ends that.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};

use crate::output;

static IS_TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();
/// By threads that have panicked meanwhile.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// As long as it is there, the terminal shows another screen and hands every key over.
pub struct Taken {
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Taken {
    /// By the thread that draws.
    pub fn take() -> io::Result<Taken> {
        let owner = thread::current().id();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                // The thread that draws may be doing so just now, on the screen that goes away: it says so later.
                if IS_TAKEN.load(Ordering::SeqCst) && thread::current().id() != owner {
                    said().push(info.to_string());
                    return;
                }
                give_back();
                before(info);
            }));
        });
        enter()?;
        Terminal::new(CrosstermBackend::new(stdout())).map(|terminal| Taken { terminal }).inspect_err(|_| give_back())
    }

    /// Until the shell goes on with this process.
    pub fn stop(&mut self) -> io::Result<()> {
        give_back();
        signal_hook::low_level::raise(signal_hook::consts::SIGTSTP)?;
        enter()?;
        // One that knows nothing of what is on the screen. To clear the old one, it would ask the terminal where the
        // cursor is, and the answer goes to whoever reads keys.
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
        said().drain(..).for_each(output::say);
    }
}

fn said() -> MutexGuard<'static, Vec<String>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

fn enter() -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::SeqCst);
    let entered = enable_raw_mode().and_then(|()| execute!(stdout(), EnterAlternateScreen, Hide));
    entered.inspect_err(|_| give_back())
}

/// From any thread, and as often as anybody likes. A terminal that is gone has nothing to be given back.
pub fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
