//! The kernel's futex(2), for protocols that sleep on a word: a waiter compares and falls
//! asleep in one step as seen by whoever wakes, and a wake-up looks for sleepers after
//! what its thread did before. Here it is a word with a bit for each sleeper and a count of
//! wake-ups: who waits reads it, looks at the program's word, and adds itself if nothing has
//! happened in between. The executions where something has are those of a waiter that came
//! later.
//!
//! Left out: wake-ups without reason, which only let a waiter look again, and would hide a
//! lost one.
//!
//! SPDX-License-Identifier: MIT
use crate::expr::Expr;
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

/// One wake-up, above the bits of the sleepers.
const WAKE: i64 = 64;
const SLEEPERS: i64 = 7;

#[derive(Clone, Copy)]
pub struct Futex {
    word: Loc,
    sleepers: Loc,
}

impl Futex {
    pub fn new(p: &mut Program, word: Loc) -> Futex {
        Futex { word, sleepers: p.var("futex", 0) }
    }

    /// By thread `me`, from 1 to 3.
    pub fn wait(&self, t: &mut Thread, me: i64, expected: Expr) {
        let seen = t.load(self.sleepers, Acquire, "futex: wait begins");
        let sleeps = t.local(1);
        if !t.bug("futex_wait does not compare") {
            let word = t.load(self.word, Relaxed, "futex: wait compares");
            t.set(sleeps, word.is(expected));
        }
        t.if_(sleeps.is(1), |t| {
            t.sure_cas(self.sleepers, seen, seen | (1 << (me - 1)), AcqRel, "futex: wait sleeps");
            t.await_bits(self.sleepers, 1 << (me - 1), 0, Acquire, "futex: wait is woken");
        });
    }

    /// Any one of the sleepers, if there are some. Who wakes several: one has to be enough.
    pub fn wake(&self, t: &mut Thread) {
        let chosen = t.choose(3);
        let seen = t.load(self.sleepers, Acquire, "futex: wake looks");
        let one = t.local(0);
        for sleeper in 0..3 {
            t.if_(chosen.is(sleeper), |t| t.set(one, seen & (1 << sleeper)));
        }
        // Without sleepers, one of the three choices is enough.
        let nobody = (seen & SLEEPERS).is(0);
        t.assume((nobody & chosen.is(0)) | (!nobody & one.is_not(0)));
        t.sure_cas(self.sleepers, seen, seen - one + WAKE, AcqRel, "futex: wake");
    }
}
