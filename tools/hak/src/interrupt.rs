// SPDX-License-Identifier: MIT
//! Ctrl-C and its relatives: noticed between and during runs, so that what was measured is kept.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::INTERRUPTED;
use crate::files;
use crate::sampling;

const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// What is said where it ends a measurement.
pub const SHOWN: &str = "hak: interrupted; shown is what was measured until then";

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static SETTINGS: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// A limit of the size of files is an error like any other, and no end of hak. Where the signal is ignored it is one already;
/// programs that hak becomes or starts have it as it was.
pub fn outlive_size_limits() {
    if !is_ignored(libc::SIGXFSZ) {
        let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default()); // or hak ends as any program does
    }
}

pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction only fills in the old action, for which all zeros are a value.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// From now on the first of these signals only sets a flag; a second one ends the tool at once. What is ignored stays so,
/// as nohup needs it.
pub fn watch() -> Result<()> {
    // By the handler itself, so that it is set before a child that the same Ctrl-C ends has been waited for.
    let flag = REQUESTED.get_or_init(Arc::default);
    let taken = || SIGNALS.into_iter().filter(|signal| !is_ignored(*signal));
    for signal in taken() {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    let mut signals = Signals::new(taken())?;
    std::thread::spawn(move || {
        if signals.forever().nth(1).is_some() {
            end_at_once();
        }
    });
    Ok(())
}

/// false: one has come before.
pub fn wait_until(due: Instant) -> bool {
    const NAP: Duration = Duration::from_millis(20);
    while Instant::now() < due && !requested() {
        std::thread::sleep(NAP.min(due.saturating_duration_since(Instant::now())));
    }
    !requested()
}

pub fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A temporary directory, which an end at once has to remove.
pub fn remove_at_end(directory: PathBuf) {
    DIRECTORIES.lock().expect("nobody panics with it").push(directory);
}

/// A setting of the system's that an end at once has to put back, until `was_put_back`.
pub fn put_back_at_end(file: PathBuf, before: String) {
    SETTINGS.lock().expect("nobody panics with it").push((file, before));
}
pub fn was_put_back(file: &Path) {
    SETTINGS.lock().expect("nobody panics with it").retain(|(one, _)| one != file);
}

/// The program first, which may be writing into the directory.
fn end_at_once() -> ! {
    for pid in sampling::descendants(std::process::id()) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    for (file, before) in SETTINGS.lock().expect("nobody panics with it").iter() {
        let _ = files::overwrite(file, before);
    }
    for directory in DIRECTORIES.lock().expect("nobody panics with it").iter() {
        let _ = std::fs::remove_dir_all(directory);
    }
    signal_hook::low_level::exit(INTERRUPTED.into())
}
