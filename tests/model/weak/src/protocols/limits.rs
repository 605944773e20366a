//! The limits of src/support/limit.c: several may be set at a time, by any thread. Each stores its own and then the
//! least of all, until the limits that it sees agree with that.
//!
//! A limit stands for the charged bytes from which on the heap is near it. What is needed grows and shrinks meanwhile;
//! left out, as is who answers a mark.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{Protocol, Scenario};
use crate::expr::Expr;
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

const SOFT: i64 = 1;
const CONTAINER: i64 = 2;
const NONE: i64 = 3;

#[derive(Clone, Copy)]
struct Limits {
    soft: Loc,
    container: Loc,
    near: Loc,
    squeeze: Loc,
}

/// `soft`: what there is in the beginning.
fn limits(p: &mut Program, soft: i64) -> Limits {
    let (container, near) = (p.var("container", NONE), p.var("near", soft));
    Limits { soft: p.var("soft", soft), container, near, squeeze: p.var("squeeze_at", soft) }
}

fn nearest_now(t: &mut Thread, l: &Limits) -> Expr {
    let soft = t.load(l.soft, Seq, "nearest_now: load a limit");
    let container = t.load(l.container, Seq, "nearest_now: load a limit");
    let nearest = t.local(container);
    t.if_(soft.is(SOFT), |t| t.set(nearest, SOFT));
    nearest
}

fn combine(t: &mut Thread, l: &Limits) {
    let late = t.bug("the mark is set when all agree");
    let nearest = t.local(NONE);
    t.repeat(3, |t| {
        let now = nearest_now(t, l);
        t.set(nearest, now);
        t.store(l.near, nearest, Seq, "combine: store the least");
        if !late {
            t.store(l.squeeze, nearest, Seq, "combine: store the mark");
        }
        if t.bug("nobody looks again") {
            t.leave(0);
        }
        let again = if t.bug("the limits are not looked at again") { nearest } else { nearest_now(t, l) };
        t.if_(again.is(nearest), |t| t.leave(0));
    });
    if late {
        t.store(l.squeeze, nearest, Seq, "combine: store the mark");
    }
}

fn program(p: &mut Program, before: i64, set: [(bool, i64); 2]) {
    let l = limits(p, before);
    for (is_soft, value) in set {
        p.thread(|t| {
            t.store(if is_soft { l.soft } else { l.container }, value, Seq, "limit_set: store a limit");
            combine(t, &l);
        });
    }
    p.at_end(move |f| {
        let nearest = f.get(l.soft).min(f.get(l.container));
        match (f.get(l.near) == nearest, f.get(l.squeeze) == nearest) {
            (false, _) => Err("what is told is not the least limit"),
            (_, false) => Err("the mark is another limit's"),
            _ => Ok(()),
        }
    });
}

pub fn protocol() -> Protocol {
    Protocol {
        name: "limits",
        scenarios: vec![
            Scenario { name: "one set and taken away", build: |p| program(p, NONE, [(true, SOFT), (true, NONE)]) },
            Scenario { name: "two set", build: |p| program(p, NONE, [(true, SOFT), (false, CONTAINER)]) },
            Scenario {
                name: "one taken away, one set",
                build: |p| program(p, SOFT, [(true, NONE), (false, CONTAINER)]),
            },
        ],
        bugs: &["nobody looks again", "the limits are not looked at again", "the mark is set when all agree"],
        others: &[],
        harmless: &[],
    }
}
