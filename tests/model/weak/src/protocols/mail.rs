//! Mail of src/slab/parcel.h: parcels that threads post to an owner, who takes all of them
//! at once. An entry is the number of a block, the contents of a block one location; the
//! mail's count is left out, as it bounds and nothing follows from it.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{Protocol, Scenario};
use crate::program::{Final, Loc, Order::*, Program};
use crate::thread::Thread;

const FREED: i64 = 1;
const REUSED: i64 = 2;

/// Numbers of parcels and of their blocks are the same, from 1.
#[derive(Clone, Copy)]
struct Memory {
    mail: Loc,
    next: Loc,
    entry: Loc,
    contents: Loc,
    /// How often the owner has emptied each; its own.
    taken: Loc,
}

fn memory(p: &mut Program) -> Memory {
    Memory {
        mail: p.var("mail", 0),
        next: p.array("next", &[0, 0, 0]),
        entry: p.array("entry", &[0, 0, 0]),
        contents: p.array("block", &[0, 0, 0]),
        taken: p.array("taken", &[0, 0, 0]),
    }
}

/// Parcel `number`, with the block of that number, which this thread has used until now.
fn post(t: &mut Thread, m: &Memory, number: i64) {
    t.store(m.contents.at(number), FREED, Plain, "program: last use of block");
    if !t.bug("a parcel is filled after it was posted") {
        t.store(m.entry.at(number), number, Plain, "send: fill parcel");
    }
    push(t, m, number);
    if t.bug("a parcel is filled after it was posted") {
        t.store(m.entry.at(number), number, Plain, "send: fill parcel");
    }
}

fn push(t: &mut Thread, m: &Memory, number: i64) {
    let head = t.load(m.mail, Relaxed, "parcel_post: load mail");
    t.repeat(3, |t| {
        t.store(m.next.at(number), head, Plain, "parcel_post: store next");
        if t.bug("a parcel is posted without comparing") {
            t.store(m.mail, number, Release, "parcel_post: P2");
            t.leave(0);
        } else {
            let old = t.cas(m.mail, head, number, AcqRel, "parcel_post: P2");
            t.if_(old.is(head), |t| t.leave(0));
            t.set(head, old);
        }
    });
}

/// The whole mail, up to `most` parcels.
fn receive(t: &mut Thread, m: &Memory, most: usize) {
    let number = t.exchange(m.mail, 0, Acquire, "parcel_receive: T1");
    t.repeat(most, |t| {
        t.if_(number.is(0), |t| t.leave(0));
        let next = t.load(m.next.at(number), Plain, "parcel_receive: load next");
        let block = t.load(m.entry.at(number), Plain, "collect_parcel: load entry");
        t.assert(block.is(number), "the parcel is not filled");
        t.store(m.contents.at(number), REUSED, Plain, "program: use block again");
        let times = t.load(m.taken.at(number), Plain, "model: load taken");
        t.store(m.taken.at(number), times + 1, Plain, "model: store taken");
        t.set(number, next);
    });
}

/// Each parcel was emptied as often as it was posted, but for those on the mail.
fn nothing_is_lost(f: &Final, m: &Memory, posted: &[i64]) -> Result<(), &'static str> {
    let mut seen = [f.at(m.taken, 0), f.at(m.taken, 1), f.at(m.taken, 2)];
    let mut number = f.get(m.mail);
    for _ in 0..3 {
        if number == 0 {
            break;
        }
        seen[number as usize] += 1;
        number = f.at(m.next, number as usize);
    }
    if number != 0 {
        return Err("the mail has no end");
    }
    if seen[1..] == posted[1..] { Ok(()) } else { Err("a parcel is lost, or is there twice") }
}

/// One posts, the owner takes.
fn posted_and_taken(p: &mut Program) {
    let m = memory(p);
    p.thread(|t| post(t, &m, 1));
    p.thread(|t| receive(t, &m, 2));
    p.at_end(move |f| nothing_is_lost(f, &m, &[0, 1, 0]));
}

/// Two post, the owner takes twice.
fn two_post(p: &mut Program) {
    let m = memory(p);
    p.thread(|t| post(t, &m, 1));
    p.thread(|t| post(t, &m, 2));
    p.thread(|t| {
        receive(t, &m, 2);
        receive(t, &m, 2);
    });
    p.at_end(move |f| nothing_is_lost(f, &m, &[0, 1, 1]));
}

/// The head that a thread has seen is taken, and posted again before it compares: here by the
/// owner itself, who has adopted a slab whose block it had freed.
fn it_comes_back(p: &mut Program) {
    let m = memory(p);
    p.start(m.mail, 0, 1);
    p.start(m.entry, 1, 1);
    p.thread(|t| post(t, &m, 2));
    p.thread(|t| {
        receive(t, &m, 2);
        post(t, &m, 1);
        receive(t, &m, 2);
    });
    p.at_end(move |f| nothing_is_lost(f, &m, &[0, 2, 1]));
}

const POSTED: &str = "who posts reads nothing of what lies on the mail already";

pub fn protocol() -> Protocol {
    Protocol {
        name: "mail",
        scenarios: vec![
            Scenario { name: "posted and taken", build: posted_and_taken },
            Scenario { name: "two post", build: two_post },
            Scenario { name: "it comes back", build: it_comes_back },
        ],
        bugs: &["a parcel is filled after it was posted", "a parcel is posted without comparing"],
        others: &["program:", "model:"],
        harmless: &[("parcel_post: P2", "release", POSTED)],
    }
}
