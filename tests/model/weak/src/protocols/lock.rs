//! The lock of src/os/lock.h and lock.c: a word that is 0 or its holder's number, with
//! a bit that says that somebody may sleep, and a futex.
//!
//! Left out: spinning, which only delays; wake-ups without reason, which only let a
//! waiter look again, and would hide a lost one.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{Protocol, Scenario};
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

use super::futex::Futex;

/// Somebody may sleep.
const WAITERS: i64 = 16;

#[derive(Clone, Copy)]
struct Lock {
    word: Loc,
    futex: Futex,
    data: Loc,
}

fn lock(p: &mut Program) -> Lock {
    let word = p.var("lock", 0);
    Lock { word, futex: Futex::new(p, word), data: p.var("data", 0) }
}

fn acquire(t: &mut Thread, l: &Lock, me: i64, tries: usize) {
    t.block(|t| {
        let old = t.cas(l.word, 0, me, Acquire, "lock_acquire: 0 to holder");
        t.if_(old.is(0), |t| t.leave(0));
        t.repeat(tries, |t| {
            t.block(|t| {
                let seen = t.load(l.word, Relaxed, "lock wait: load");
                t.if_(seen.is(0), |t| {
                    let taken = if t.bug("a waiter takes it without the bit") { me } else { me | WAITERS };
                    let old = t.cas(l.word, 0, taken, Acquire, "lock wait: 0 to holder and bit");
                    t.if_(old.is(0), |t| t.leave(2));
                    t.leave(0); // look again
                });
                let no_bit = (seen & WAITERS).is(0);
                if !t.bug("a waiter sets no bit") {
                    t.if_(no_bit, |t| {
                        let old = t.cas(l.word, seen, seen | WAITERS, Relaxed, "lock wait: set bit");
                        t.if_(old.is_not(seen), |t| t.leave(0));
                    });
                    l.futex.wait(t, me, seen | WAITERS);
                } else {
                    l.futex.wait(t, me, seen);
                }
            });
        });
    });
}

fn release(t: &mut Thread, l: &Lock) {
    let old = t.exchange(l.word, 0, Release, "lock_release: exchange");
    if t.bug("release wakes only if the bit is not set") {
        t.if_((old & WAITERS).is(0), |t| l.futex.wake(t));
    } else {
        t.if_((old & WAITERS).is_not(0), |t| l.futex.wake(t));
    }
}

fn section(t: &mut Thread, l: &Lock) {
    let data = t.load(l.data, Plain, "section: load data");
    t.store(l.data, data + 1, Plain, "section: store data");
}

/// Threads that take the lock so many times each. The first has it at the start:
/// some thread is the first to take it, and nothing is there to be seen before.
fn program(p: &mut Program, rounds: &[usize], tries: usize) {
    let l = lock(p);
    p.start(l.word, 0, 1);
    let sections: usize = rounds.iter().sum();
    for (i, rounds) in rounds.iter().enumerate() {
        p.thread(|t| {
            for round in 0..*rounds {
                if (i, round) != (0, 0) {
                    acquire(t, &l, i as i64 + 1, tries);
                }
                section(t, &l);
                release(t, &l);
            }
        });
    }
    p.must_end = true;
    p.at_end(move |f| {
        if f.get(l.data) != sections as i64 {
            return Err("two threads were inside at once, or one did not see the other's work");
        }
        if f.get(l.word) != 0 { Err("the lock stays held") } else { Ok(()) }
    });
}

pub fn protocol() -> Protocol {
    Protocol {
        name: "lock",
        scenarios: vec![
            Scenario { name: "two threads, twice", build: |p| program(p, &[2, 2], 2) },
            Scenario { name: "three threads", build: |p| program(p, &[1, 1, 1], 2) },
        ],
        bugs: &[
            "futex_wait does not compare",
            "a waiter takes it without the bit",
            "a waiter sets no bit",
            "release wakes only if the bit is not set",
        ],
        others: &["futex:"],
        harmless: &[],
    }
}
