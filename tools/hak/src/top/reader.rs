// SPDX-License-Identifier: MIT
//! A thread that looks, so that keys are answered while a look takes long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::top::course::Look;
use crate::top::processes::{Listing, Processes};
use crate::top::schedule::next_due;

/// What to look at from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    All,
    One(u32),
    Nothing,
}

pub enum Seen {
    All(Result<Listing>),
    One(u32, Result<Look>),
}

/// Goes on until nobody wants or hears anything any more. What is newly wanted is looked at at once.
pub fn read<M>(
    mut processes: Processes,
    every: Duration,
    wants: &Receiver<Want>,
    tell: &Sender<M>,
    as_message: fn(Seen) -> M,
) {
    let mut want = Want::Nothing;
    let mut due = Instant::now();
    loop {
        let heard = match want {
            Want::Nothing => wants.recv().map_err(|_| RecvTimeoutError::Disconnected),
            _ => wants.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match heard {
            Ok(new) => {
                (want, due) = (new, Instant::now());
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let began = Instant::now();
        let seen = match want {
            Want::All => Seen::All(processes.list()),
            Want::One(pid) => Seen::One(pid, processes.look(pid)),
            Want::Nothing => continue,
        };
        due = next_due(due, began, Instant::now(), every);
        if tell.send(as_message(seen)).is_err() {
            return;
        }
    }
}
