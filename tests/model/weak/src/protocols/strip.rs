//! The magazine of a sleeping thread is emptied without its help: src/front/strip.h.
//!
//! The owner is claimed (claim.rs), so the thread stays out of its slow paths; the fast
//! path, which pops and pushes, knows of nothing. Who claims puts a NULL into the slot
//! below the newest block. A pop that reads it goes to the slow path and waits there, so
//! what lies below it is out of the thread's reach, if the thread had not gone past the
//! slot before. That shows in the top of the magazine, after a membarrier: above the
//! slot, the thread has not taken the block that lay there, or has put another one into
//! the slot since, which shows after a second membarrier. At the slot itself or below nobody
//! can tell: the thread may have loaded that block, and not stored the new top; or it has
//! just pushed that very block again, and not stored the new top. Then the block is set
//! aside, and the thread finds out itself, when it comes to a slow path: the NULL is there
//! still, and the top not below it, exactly if the block is still the magazine's.
//!
//! A block above tiny is popped in another order: the top is lowered before the slot is looked at for the last
//! time, and raised again if that is NULL. So the NULL goes into the slot of the newest block itself: if the top
//! is not below it after the membarrier, the thread has not taken that block, and will find the NULL.
//!
//! A magazine of three blocks, 1 to 3; slot 0 is NULL. The thread pops up to twice and
//! pushes what it has popped up to twice. A pop that reads NULL ends what it does: it waits.
//!
//! membarrier as in claim.rs: a fence before some step of the thread, at any.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{Protocol, Scenario};
use crate::expr::Expr;
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

const BLOCKS: i64 = 3;

#[derive(Clone, Copy)]
struct Memory {
    slots: Loc,
    top: Loc,
    request: [Loc; 2],
    reply: [Loc; 2],
}

/// The thread, and before which steps the system interrupts it for each membarrier.
struct Steps {
    at: [Expr; 2],
    next: i64,
}

impl Steps {
    fn step(&mut self, t: &mut Thread, m: &Memory) {
        for call in 0..2 {
            t.if_(self.at[call].is(self.next), |t| {
                t.await_value(m.request[call], 1, Acquire, "membarrier: interrupt");
                t.fence(Seq, "membarrier: fence in the thread");
                t.store(m.reply[call], 1, Release, "membarrier: reply");
            });
        }
        self.next += 1;
    }
}

fn membarrier(t: &mut Thread, m: &Memory, call: usize) {
    t.fence(Seq, "membarrier: begins");
    t.store(m.request[call], 1, Release, "membarrier: request");
    t.await_value(m.reply[call], 1, Acquire, "membarrier: await replies");
    t.fence(Seq, "membarrier: ends");
}

/// magazine_pop; `goes_on` becomes 0 if the thread has to wait.
fn pop(t: &mut Thread, m: &Memory, s: &mut Steps, goes_on: Expr) -> Expr {
    let (got, top) = (t.local(0), t.reg());
    s.step(t, m);
    t.if_(goes_on, |t| {
        t.load_to(top, m.top, Relaxed, "pop: load top");
        t.load_to(got, m.slots.at(top), Relaxed, "pop: load slot");
        t.if_(got.is(0), |t| t.set(goes_on, 0));
    });
    s.step(t, m);
    t.if_(got.is_not(0), |t| t.store(m.top, top - 1, Relaxed, "pop: store top"));
    got
}

/// magazine_pop_above_tiny.
fn pop_above_tiny(t: &mut Thread, m: &Memory, s: &mut Steps, goes_on: Expr) -> Expr {
    let (got, top) = (t.local(0), t.reg());
    s.step(t, m);
    t.if_(goes_on, |t| {
        t.load_to(top, m.top, Relaxed, "above tiny: load top");
        t.load_to(got, m.slots.at(top), Relaxed, "above tiny: load slot");
        t.if_(got.is(0), |t| t.set(goes_on, 0));
    });
    s.step(t, m);
    let lowers = t.local(got.is_not(0));
    let late = t.bug("the top is lowered after the last look");
    if !late {
        t.if_(lowers, |t| t.store(m.top, top - 1, Relaxed, "above tiny: lower top"));
    }
    s.step(t, m);
    t.if_(lowers, |t| {
        let again = t.load(m.slots.at(top), Relaxed, "above tiny: look at slot again");
        t.if_(again.is(0), |t| {
            t.set(got, 0);
            t.set(goes_on, 0);
        });
    });
    s.step(t, m);
    if late {
        t.if_(got.is_not(0), |t| t.store(m.top, top - 1, Relaxed, "above tiny: lower top"));
    } else if !t.bug("the top is not raised again") {
        t.if_(lowers & got.is(0), |t| t.store(m.top, top, Relaxed, "above tiny: raise top"));
    }
    got
}

/// magazine_push of a block that the thread has, if it has one.
fn push(t: &mut Thread, m: &Memory, s: &mut Steps, goes_on: Expr, block: Expr) {
    let (does, top) = (t.local(goes_on & block.is_not(0)), t.reg());
    s.step(t, m);
    t.if_(does, |t| {
        t.load_to(top, m.top, Relaxed, "push: load top");
        t.store(m.slots.at(top + 1), block, Relaxed, "push: store slot");
    });
    s.step(t, m);
    t.if_(does, |t| {
        t.store(m.top, top + 1, Relaxed, "push: store top");
        t.set(block, 0);
    });
}

/// What became of the magazine, in the registers of who claims it.
struct Outcome {
    /// The slot of the NULL; 0 if there is none.
    floor: Expr,
    /// What lay in it.
    saved: Expr,
    /// Whether all up to the slot is the claimer's; whether `saved` is set aside.
    stripped: Expr,
    aside: Expr,
}

fn strip(t: &mut Thread, m: &Memory, above_tiny: bool) -> Outcome {
    let o = Outcome { floor: t.local(0), saved: t.local(0), stripped: t.local(0), aside: t.local(0) };
    let top = t.load(m.top, Relaxed, "strip: load top");
    t.block(|t| {
        t.if_(if above_tiny { top.is(0) } else { top.is(0) | top.is(1) }, |t| t.leave(0));
        let slot = t.local(if above_tiny { top } else { top - 1 });
        t.load_to(o.saved, m.slots.at(slot), Relaxed, "strip: load slot");
        let old = t.cas(m.slots.at(slot), o.saved, 0, Relaxed, "strip: put NULL into the slot");
        t.if_(old.is_not(o.saved), |t| t.leave(0));
        t.set(o.floor, slot);
        if !t.bug("no first membarrier") {
            membarrier(t, m, 0);
        }
        let now = t.load(m.top, Relaxed, "strip: load top again");
        let mut above = t.local(0);
        for top in 1..=BLOCKS {
            for below in 1..top + i64::from(above_tiny) {
                above = above | (now.is(top) & slot.is(below));
            }
        }
        let above = t.local(above);
        if t.bug("the slot itself is taken for above") {
            t.if_(now.is(slot), |t| t.set(above, 1));
        }
        if !t.bug("no second membarrier") {
            membarrier(t, m, 1);
        }
        let there = t.load(m.slots.at(slot), Relaxed, "strip: load slot again");
        if t.bug("the slot is not looked at again") {
            t.if_(above, |t| t.set(o.stripped, 1));
        } else {
            t.if_(above & there.is(0), |t| t.set(o.stripped, 1));
        }
        let doubtful = if t.bug("nothing is set aside below the slot") { now.is(slot) } else { there.is(0) };
        t.if_(o.stripped.is(0) & doubtful, |t| t.set(o.aside, 1));
    });
    o
}

/// The thread does so many of: pop, pop, push, push. What it pops last it pushes first, or
/// the other way round: then the slots get other blocks than they had.
fn magazine(p: &mut Program, operations: i64, mixed: bool, above_tiny: bool) {
    let m = Memory {
        slots: p.array("slot", &[0, 1, 2, 3, 0]),
        top: p.var("top", BLOCKS),
        request: [p.var("request", 0), p.var("second_request", 0)],
        reply: [p.var("reply", 0), p.var("second_reply", 0)],
    };
    let held = p.thread(|t| {
        let pop = if above_tiny { pop_above_tiny } else { pop };
        let places =
            if above_tiny { 4 * operations.min(2) + 2 * (operations - 2).max(0) + 1 } else { 2 * operations + 1 };
        let at = [t.choose(places), t.choose(places)];
        let mut s = Steps { at, next: 0 };
        let goes_on = t.local(1);
        let first = pop(t, &m, &mut s, goes_on);
        let second = if operations > 1 { pop(t, &m, &mut s, goes_on) } else { t.local(0) };
        let (again, then) = if mixed { (first, second) } else { (second, first) };
        if operations > 2 {
            push(t, &m, &mut s, goes_on, again);
        }
        if operations > 3 {
            push(t, &m, &mut s, goes_on, then);
        }
        s.step(t, &m);
        (first, second)
    });
    let claimer = p.thread(|t| {
        let o = strip(t, &m, above_tiny);
        // So that the thread is not interrupted for ever where there was nothing to do.
        for call in 0..2 {
            t.store(m.request[call], 1, Release, "membarrier: not called");
        }
        (o.floor, o.saved, o.stripped, o.aside)
    });
    p.at_end(move |f| {
        let mut found = [0; BLOCKS as usize + 1];
        let mut take = |block: i64| found[block as usize] += i64::from(block != 0);
        take(f.reg(0, held.0));
        take(f.reg(0, held.1));
        let top = f.get(m.top);
        let floor = f.reg(1, claimer.0);
        let stripped = f.reg(1, claimer.2) != 0;
        for slot in 1..=top {
            take(f.at(m.slots, slot as usize)); // the thread's, or below the NULL the claimer's
        }
        let untouched = floor != 0 && f.at(m.slots, floor as usize) == 0 && top >= floor;
        if stripped && (floor == 0 || !untouched) {
            return Err("a thread has gone past the NULL");
        }
        if stripped || f.reg(1, claimer.3) != 0 && untouched {
            take(f.reg(1, claimer.1));
        }
        if !stripped && f.reg(1, claimer.3) == 0 && untouched {
            return Err("a block is lost: the thread waits at the NULL, and nobody has it");
        }
        match found[1..].iter().max() {
            _ if found[1..].contains(&0) => Err("a block is lost"),
            Some(1) => Ok(()),
            _ => Err("a block has two owners"),
        }
    });
}

const ITS_OWN: &str = "nobody but the thread writes it";

pub fn protocol() -> Protocol {
    Protocol {
        name: "strip",
        scenarios: vec![
            Scenario { name: "one pop", build: |p| magazine(p, 1, false, false) },
            Scenario { name: "two pops", build: |p| magazine(p, 2, false, false) },
            Scenario { name: "two pops and a push", build: |p| magazine(p, 3, false, false) },
            Scenario { name: "two pops and two pushes", build: |p| magazine(p, 4, false, false) },
            Scenario { name: "two pops and two pushes, mixed", build: |p| magazine(p, 4, true, false) },
            Scenario { name: "above tiny: one pop", build: |p| magazine(p, 1, false, true) },
            Scenario { name: "above tiny: two pops", build: |p| magazine(p, 2, false, true) },
            Scenario { name: "above tiny: two pops and a push", build: |p| magazine(p, 3, false, true) },
            Scenario { name: "above tiny: two pops and two pushes", build: |p| magazine(p, 4, false, true) },
            Scenario { name: "above tiny: two pops and two pushes, mixed", build: |p| magazine(p, 4, true, true) },
        ],
        bugs: &[
            "no first membarrier",
            "no second membarrier",
            "the slot itself is taken for above",
            "the slot is not looked at again",
            "nothing is set aside below the slot",
            "the top is lowered after the last look",
            "the top is not raised again",
        ],
        others: &["membarrier:"],
        harmless: &[
            ("pop: load top", "plain", ITS_OWN),
            ("push: load top", "plain", ITS_OWN),
            ("above tiny: load top", "plain", ITS_OWN),
        ],
    }
}
