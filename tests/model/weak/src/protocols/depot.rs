//! Crates of src/slab/depot.h: each is one thread's for a moment, or nobody's, with some blocks or none.
//! A crate has one slot for each of the blocks 1 and 2, which holds its number; states are how many
//! blocks are in it, and BUSY. The contents of a block are one location.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{Protocol, Scenario};
use crate::expr::Expr;
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

const EMPTY: i64 = 0;
const BUSY: i64 = 9;

#[derive(Clone, Copy)]
struct Crate {
    state: Loc,
    slots: Loc,
    contents: Loc,
}

fn a_crate(p: &mut Program, state: i64, slots: &[i64]) -> Crate {
    Crate { state: p.var("state", state), slots: p.array("slot", slots), contents: p.array("block", &[0, 0, 0]) }
}

/// A block that this thread has used until now. Returns whether there was room.
fn put(t: &mut Thread, c: &Crate, block: i64) -> Expr {
    let is_put = t.local(0);
    t.store(c.contents.at(block), block, Plain, "program: last use of block");
    let there = t.load(c.state, Relaxed, "depot_put: look");
    t.block(|t| {
        for count in [EMPTY, 1] {
            t.if_(there.is(count), |t| {
                let old = t.cas(c.state, count, BUSY, Acquire, "depot_put: P1");
                t.if_(old.is(count), |t| {
                    if t.bug("a crate is full before it is filled") {
                        t.store(c.state, count + 1, Release, "depot_put: P2");
                        t.store(c.slots.at(count), block, Plain, "depot_put: fill crate");
                    } else {
                        t.store(c.slots.at(count), block, Plain, "depot_put: fill crate");
                        t.store(c.state, count + 1, Release, "depot_put: P2");
                    }
                    t.set(is_put, 1);
                });
                t.leave(0);
            });
        }
    });
    is_put
}

/// The newest block, whose contents are the taker's from then on. Returns its number, 0 for none.
fn take(t: &mut Thread, c: &Crate) -> Expr {
    let got = t.local(0);
    let there = t.load(c.state, Relaxed, "depot_take: look");
    t.block(|t| {
        for count in [1, 2] {
            t.if_(there.is(count), |t| {
                let old = if t.bug("a crate is taken without comparing") {
                    t.store(c.state, BUSY, Relaxed, "depot_take: T1");
                    t.local(count)
                } else {
                    t.cas(c.state, count, BUSY, Acquire, "depot_take: T1")
                };
                t.if_(old.is(count), |t| {
                    if t.bug("a crate is given up before it was read") {
                        t.store(c.state, count - 1, Release, "depot_take: T2");
                        let block = t.load(c.slots.at(count - 1), Plain, "depot_take: read crate");
                        t.set(got, block);
                    } else {
                        let block = t.load(c.slots.at(count - 1), Plain, "depot_take: read crate");
                        t.set(got, block);
                        t.store(c.state, count - 1, Release, "depot_take: T2");
                    }
                });
                t.leave(0);
            });
        }
    });
    for block in [1, 2] {
        t.if_(got.is(block), |t| t.store(c.contents.at(block), block, Plain, "program: use block again"));
    }
    got
}

/// One puts a block there, another takes it.
fn put_and_taken(p: &mut Program) {
    let c = a_crate(p, EMPTY, &[0, 0]);
    let is_put = p.thread(|t| put(t, &c, 1));
    let got = p.thread(|t| take(t, &c));
    p.at_end(move |f| match (f.reg(0, is_put), f.reg(1, got), f.get(c.state)) {
        (1, 0, 1) | (1, 1, EMPTY) => Ok(()),
        _ => Err("the block is lost"),
    });
}

/// What lies there is taken; who puts the next one there, or beside it, does not write what is still read.
fn taken_and_put(p: &mut Program) {
    let c = a_crate(p, 1, &[1, 0]);
    let got = p.thread(|t| take(t, &c));
    let is_put = p.thread(|t| put(t, &c, 2));
    p.at_end(move |f| match (f.reg(0, got), f.reg(1, is_put), f.get(c.state), f.at(c.slots, 0)) {
        (1, 0, EMPTY, 1) | (1, 1, 1, 2) | (2, 1, 1, 1) | (0, 1, 2, 1) => Ok(()),
        _ => Err("a block is lost"),
    });
}

/// Two blocks lie there: one thread takes the newer one and leaves the rest, which another takes, or both want the same.
fn two_take(p: &mut Program) {
    let c = a_crate(p, 2, &[1, 2]);
    let got = [0, 1].map(|_| p.thread(|t| take(t, &c)));
    p.at_end(move |f| match (f.reg(0, got[0]), f.reg(1, got[1]), f.get(c.state)) {
        (2, 1, EMPTY) | (1, 2, EMPTY) | (2, 0, 1) | (0, 2, 1) => Ok(()),
        _ => Err("a block is lost, or two have it"),
    });
}

/// Two threads put blocks where there is one crate, and a third takes them one by one.
fn two_put(p: &mut Program) {
    let c = a_crate(p, EMPTY, &[0, 0]);
    let is_put = [0, 1].map(|i| p.thread(|t| put(t, &c, i + 1)));
    let got = p.thread(|t| [take(t, &c), take(t, &c)]);
    p.at_end(move |f| {
        let got = got.map(|got| f.reg(2, got));
        let there = f.get(c.state) + got.iter().filter(|&&block| block != 0).count() as i64;
        let is_twice = got[0] != 0 && got[0] == got[1];
        match f.reg(0, is_put[0]) + f.reg(1, is_put[1]) == there && !is_twice {
            true => Ok(()),
            false => Err("a block is lost, or is there twice"),
        }
    });
}

pub fn protocol() -> Protocol {
    Protocol {
        name: "depot",
        scenarios: vec![
            Scenario { name: "put and taken", build: put_and_taken },
            Scenario { name: "taken and put", build: taken_and_put },
            Scenario { name: "two take", build: two_take },
            Scenario { name: "two put", build: two_put },
        ],
        bugs: &[
            "a crate is full before it is filled",
            "a crate is taken without comparing",
            "a crate is given up before it was read",
        ],
        others: &["program:"],
        harmless: &[],
    }
}
