//! A claim on an idle owner's slabs by another thread (src/slab/claim.h): the owner says that
//! it is busy and looks whether it is claimed, with nothing but compiler order between;
//! who claims asks the system to put a fence into every running thread (membarrier)
//! between its claim and its look.
//!
//! membarrier: in each other thread of the process there is a moment, between the
//! call's begin and its end, at which a full fence is carried out. The moment is any:
//! the owner goes through its steps with the fence before any one of them.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{Protocol, Scenario};
use crate::expr::Expr;
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

#[derive(Clone, Copy)]
struct Memory {
    busy: Loc,
    claimed: Loc,
    data: Loc,
    request: Loc,
    reply: Loc,
}

/// The owner, and the step before which the system interrupts it.
struct Steps {
    at: Expr,
    next: i64,
}

impl Steps {
    fn step(&mut self, t: &mut Thread, m: &Memory) {
        let here = self.at.is(self.next);
        self.next += 1;
        t.if_(here, |t| interrupt(t, m));
    }
}

fn interrupt(t: &mut Thread, m: &Memory) {
    t.await_value(m.request, 1, Acquire, "membarrier: interrupt");
    t.fence(Seq, "membarrier: fence in the thread");
    t.store(m.reply, 1, Release, "membarrier: reply");
}

fn membarrier(t: &mut Thread, m: &Memory) {
    if t.bug("no membarrier") {
        t.store(m.request, 1, Relaxed, "membarrier: not called");
        return;
    }
    t.fence(Seq, "membarrier: begins");
    t.store(m.request, 1, Release, "membarrier: request");
    t.await_value(m.reply, 1, Acquire, "membarrier: await replies");
    t.fence(Seq, "membarrier: ends");
}

/// What either does with the owner's slabs.
fn change(t: &mut Thread, m: &Memory) {
    let data = t.load(m.data, Plain, "slabs: load");
    t.store(m.data, data + 1, Plain, "slabs: store");
}

fn section(t: &mut Thread, m: &Memory, s: &mut Steps) -> Expr {
    let done = t.local(0);
    s.step(t, m);
    let claimed = t.reg();
    if t.bug("the owner looks before it is busy") {
        t.load_to(claimed, m.claimed, Acquire, "owner: load claimed");
        s.step(t, m);
        t.store(m.busy, 1, Relaxed, "owner: store busy");
    } else {
        t.store(m.busy, 1, Relaxed, "owner: store busy");
        s.step(t, m);
        t.load_to(claimed, m.claimed, Acquire, "owner: load claimed");
    }
    s.step(t, m);
    let first = s.next;
    t.if_(claimed.is(0), |t| {
        change(t, m);
        t.set(done, 1);
        t.if_(s.at.is(first), |t| interrupt(t, m));
    });
    t.if_((!claimed.is(0)) & s.at.is(first), |t| interrupt(t, m));
    s.next = first + 1;
    t.store(m.busy, 0, Release, "owner: store not busy");
    done
}

/// The owner goes in so many times while the other claims once, and lets go again.
fn claims(p: &mut Program, sections: usize) {
    let m = Memory {
        busy: p.var("busy", 0),
        claimed: p.var("claimed", 0),
        data: p.var("data", 0),
        request: p.var("request", 0),
        reply: p.var("reply", 0),
    };
    let owner = p.thread(|t| {
        let called = !t.bug("no membarrier");
        let at = if called { t.choose(4 * sections as i64 + 1) } else { t.local(-1) };
        let mut steps = Steps { at, next: 0 };
        let mut done = t.local(0);
        for _ in 0..sections {
            done = done + section(t, &m, &mut steps);
        }
        steps.step(t, &m);
        t.local(done)
    });
    let other = p.thread(|t| {
        t.store(m.claimed, 1, Relaxed, "claimer: store claimed");
        membarrier(t, &m);
        let busy = t.load(m.busy, Acquire, "claimer: load busy");
        t.if_(busy.is(0), |t| change(t, &m));
        t.store(m.claimed, 0, Release, "claimer: store not claimed");
        t.local(busy.is(0))
    });
    p.at_end(
        move |f| {
            if f.get(m.data) == f.reg(0, owner) + f.reg(1, other) { Ok(()) } else { Err("both were inside at once") }
        },
    );
}

pub fn protocol() -> Protocol {
    Protocol {
        name: "claim",
        scenarios: vec![
            Scenario { name: "one section", build: |p| claims(p, 1) },
            Scenario { name: "two sections", build: |p| claims(p, 2) },
        ],
        bugs: &["no membarrier", "the owner looks before it is busy"],
        others: &["membarrier:"],
        harmless: &[],
    }
}
