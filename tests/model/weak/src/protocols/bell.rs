//! The bell of src/front/bell.h: a word that says whether somebody listens, sleeps, or has been
//! rung for; who frees something looks at it, and exchanges it only where the listener has
//! heard nothing since it looked around last.
//!
//! Who finds it rung already does nothing, without any order: such a look may be out of date,
//! and what it does not ring for is found in a later round (bell.h). So of those that have
//! rung: the listener does not sleep on, and sees what they have freed.
//!
//! Left out: the end of the time to sleep, after which the listener only looks around again.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{Protocol, Scenario};
use crate::expr::Expr;
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

use super::futex::Futex;

const LISTENED: i64 = 1;
const RUNG: i64 = 2;
const SLEEPER: i64 = 3;

#[derive(Clone, Copy)]
struct Bell {
    state: Loc,
    futex: Futex,
    freed: [Loc; 2],
}

/// Frees something, and rings. Returns whether it has rung.
fn ring(t: &mut Thread, b: &Bell, who: usize) -> Expr {
    let rung = t.local(0);
    t.store(b.freed[who], 1, Relaxed, "ringer: frees");
    let state = t.load(b.state, Relaxed, "bell_ring: look");
    t.if_(state.is(LISTENED) | state.is(SLEEPER), |t| {
        let old = t.exchange(b.state, RUNG, Release, "bell_ring_now: exchange");
        t.set(rung, 1);
        if !t.bug("the sleeper is not woken") {
            t.if_(old.is(SLEEPER), |t| b.futex.wake(t));
        }
    });
    rung
}

/// Returns what it has found freed, a bit for each ringer.
fn look_around(t: &mut Thread, b: &Bell, ringers: usize) -> Expr {
    let mut found = t.local(0);
    for who in 0..ringers {
        let freed = t.load(b.freed[who], Relaxed, "listener: looks around");
        found = if who == 0 { found + freed } else { found + freed + freed };
    }
    t.local(found)
}

/// Until it is rung: a wake-up may be a late one, of an earlier ring.
fn sleep(t: &mut Thread, b: &Bell) {
    t.repeat(3, |t| {
        if t.bug("the listener does not look whether it was rung") {
            t.store(b.state, SLEEPER, Relaxed, "bell_sleep: compare and swap");
            b.futex.wait(t, 3, SLEEPER.into());
        } else {
            let old = t.cas(b.state, LISTENED, SLEEPER, Relaxed, "bell_sleep: compare and swap");
            t.if_(!old.is(RUNG), |t| b.futex.wait(t, 3, SLEEPER.into()));
        }
        let state = t.load(b.state, Relaxed, "bell_sleep: look");
        t.if_(state.is(RUNG), |t| t.leave(0));
    });
}

/// The listener looks around, sleeps if it has not been rung meanwhile, and looks around
/// again, as often as there are ringers: each of them rings once at the most.
fn listener(t: &mut Thread, b: &Bell, ringers: usize) -> Expr {
    let found = t.local(0);
    let first = look_around(t, b, ringers);
    t.set(found, first);
    for _ in 0..ringers {
        t.block(|t| {
            let all = t.local((1 << ringers) - 1);
            t.if_(found.is(all), |t| t.leave(0));
            sleep(t, b);
            if t.bug("the listener looks around before it listens") {
                let more = look_around(t, b, ringers);
                t.set(found, found | more);
                t.exchange(b.state, LISTENED, Acquire, "bell_listen: exchange");
            } else {
                t.exchange(b.state, LISTENED, Acquire, "bell_listen: exchange");
                let more = look_around(t, b, ringers);
                t.set(found, found | more);
            }
        });
    }
    found
}

fn program(p: &mut Program, ringers: usize) {
    let state = p.var("state", LISTENED);
    let b = Bell { state, futex: Futex::new(p, state), freed: [p.var("freed by 1", 0), p.var("freed by 2", 0)] };
    let mut rung = Vec::new();
    for who in 0..ringers {
        rung.push(p.thread(|t| ring(t, &b, who)));
    }
    let found = p.thread(|t| listener(t, &b, ringers));
    p.at_end(move |f| {
        for (who, rung) in rung.iter().enumerate() {
            if f.reg(who, *rung) == 1 && f.reg(ringers, found) >> who & 1 == 0 {
                return Err("the listener has not seen what it was rung for");
            }
        }
        Ok(())
    });
    p.must_end = ringers == 1;
}

pub fn protocol() -> Protocol {
    Protocol {
        name: "bell",
        scenarios: vec![
            Scenario { name: "one rings", build: |p| program(p, 1) },
            Scenario { name: "two ring", build: |p| program(p, 2) },
        ],
        bugs: &[
            "futex_wait does not compare",
            "the sleeper is not woken",
            "the listener does not look whether it was rung",
            "the listener looks around before it listens",
        ],
        others: &["futex:", "ringer:", "listener:"],
        harmless: &[(
            "bell_listen: exchange",
            "two steps",
            "loses a ring as a look that is out of date does: a later round finds what it was for",
        )],
    }
}
