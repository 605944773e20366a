// SPDX-License-Identifier: MIT
//! Signals that hak was started to ignore and heeds itself: a program that hak becomes or starts ignores them, as it would
//! have without hak.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SIG_DFL, SIG_IGN, SIGCHLD, SIGPIPE};

use crate::interrupt::is_ignored;

/// std ignores the first one in hak, and has programs heed it; where the second one is ignored, nobody can be waited for.
const SIGNALS: [i32; 2] = [SIGPIPE, SIGCHLD];

static WERE_IGNORED: [AtomicBool; SIGNALS.len()] = [const { AtomicBool::new(false) }; SIGNALS.len()];

extern "C" fn note() {
    for (signal, was_ignored) in SIGNALS.into_iter().zip(&WERE_IGNORED) {
        was_ignored.store(is_ignored(signal), Ordering::Relaxed);
    }
    // SAFETY: nobody has been started, and no handler is there.
    unsafe { libc::signal(SIGCHLD, SIG_DFL) };
}

/// The C library calls it before std changes what is done for SIGPIPE.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// Of a program that is the user's, and runs as if there were no hak.
pub fn hand_on(command: &mut Command) {
    let ignored =
        || SIGNALS.into_iter().zip(&WERE_IGNORED).filter(|(_, was_ignored)| was_ignored.load(Ordering::Relaxed));
    // SAFETY: signal(2) is async-signal-safe, and std is done with signals by then.
    unsafe {
        command.pre_exec(move || {
            ignored().for_each(|(signal, _)| {
                libc::signal(signal, SIG_IGN);
            });
            Ok(())
        })
    };
}
