//! The allocator's protocols between threads. A change to a line that is named here
//! is a change to its model.
//!
//! SPDX-License-Identifier: MIT
use crate::check::Protocol;
use crate::program::{Loc, Order::*};
use crate::thread::Thread;

mod bell;
mod claim;
mod depot;
mod futex;
mod limits;
mod lock;
mod mail;
mod ownership;
mod publication;
mod remote;
mod shelf;
mod strip;

pub fn all() -> Vec<Protocol> {
    vec![
        remote::protocol(),
        lock::protocol(),
        ownership::protocol(),
        publication::protocol(),
        claim::protocol(),
        strip::protocol(),
        bell::protocol(),
        shelf::protocol(),
        mail::protocol(),
        depot::protocol(),
        limits::protocol(),
    ]
}

/// A gate of src/os/lock.h as those see it who only need that it excludes and
/// publishes; `lock` looks into it.
fn gate_enter(t: &mut Thread, gate: Loc) {
    t.await_cas(gate, 0, 1, Acquire, "gate: enter");
}
fn gate_leave(t: &mut Thread, gate: Loc) {
    t.store(gate, 0, Release, "gate: leave");
}
