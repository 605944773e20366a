//! What is written once and read by all: arena_ready and map_init (src/arena/arena.c,
//! map.c), of the same shape as thread_prepare's thread_key_exists (src/front/thread.c),
//! foreign.c's is_looked_up and the addresses of depot.c's racks; and page-map words, which are read relaxed by whoever the
//! program has handed a block to (docs/design.md, Invariants).
//!
//! SPDX-License-Identifier: MIT
use super::{gate_enter, gate_leave};
use crate::check::{Protocol, Scenario};
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

#[derive(Clone, Copy)]
struct Map {
    ready: Loc,
    gate: Loc,
    base: Loc,
    units: Loc,
}

const NOWHERE: i64 = 9;

fn map(p: &mut Program) -> Map {
    Map {
        ready: p.var("is_ready", 0),
        gate: p.var("arena_gate", 0),
        base: p.var("base", NOWHERE),
        units: p.var("units", 0),
    }
}

fn map_init(t: &mut Thread, m: &Map) {
    let units = t.load(m.units, Plain, "map_init: load units");
    t.assert(units.is(0), "the window is found twice");
    t.store(m.base, 7, Plain, "map_init: store base");
    t.store(m.units, 1, Plain, "map_init: store units");
}

fn arena_ready(t: &mut Thread, m: &Map) {
    let ready = t.load(m.ready, Acquire, "arena_ready: load is_ready");
    t.if_(ready.is(0), |t| {
        gate_enter(t, m.gate);
        let ready = t.load(m.ready, Relaxed, "arena_ready: load is_ready in the gate");
        t.if_(ready.is(0), |t| {
            map_init(t, m);
            t.store(m.ready, 1, Release, "arena_ready: store is_ready");
        });
        gate_leave(t, m.gate);
    });
}

fn use_map(t: &mut Thread, m: &Map) {
    let (units, base) = (t.load(m.units, Plain, "lookup: load units"), t.load(m.base, Plain, "lookup: load base"));
    t.assert(!units.is(1) | base.is(7), "the window's size is seen and its base is not");
}

/// An address that is not ours. C calls it a data race.
fn free_meanwhile(t: &mut Thread, m: &Map, base_is_nowhere: bool) {
    let (units, base) = (t.load(m.units, Plain, "free: load units"), t.load(m.base, Plain, "free: load base"));
    let outside = if base_is_nowhere { base.is(NOWHERE) } else { base.is(-1) };
    t.assert(!units.is(1) | base.is(7) | outside, "an address is taken for one inside");
}

/// Two threads allocate for the first time at once.
fn first_allocations(p: &mut Program) {
    let m = map(p);
    for _ in 0..2 {
        p.thread(|t| {
            arena_ready(t, &m);
            use_map(t, &m);
        });
    }
    p.thread(|t| {
        if t.bug("a free while the window is being found") {
            free_meanwhile(t, &m, true);
        }
        if t.bug("the same, and until then the base is 0") {
            free_meanwhile(t, &m, false);
        }
    });
    p.at_end(move |f| if f.get(m.units) == 1 { Ok(()) } else { Err("the window is not found") });
}

/// A thread makes a slab, allocates and hands the block to another, which frees it.
/// The address of the word depends on the block's.
fn block_handed_over(p: &mut Program) {
    let word = p.array("word", &[0, 0]);
    let mail = p.var("mail", 0);
    p.thread(|t| {
        t.store(word.at(1), 1, Relaxed, "slab_make: store word");
        t.store(mail, 1, Release, "program: hand block over");
    });
    p.thread(|t| {
        let block = t.load(mail, Acquire, "program: get block");
        t.if_(block.is_not(0), |t| {
            let seen = t.load(word.at(block), Relaxed, "free: load word");
            t.assert(seen.is_not(0), "the word of a live block is not seen");
        });
    });
}

/// The block comes through a third thread, and its slab is adopted meanwhile.
fn block_handed_on(p: &mut Program) {
    let word = p.array("word", &[0, 0]);
    let (mail, second) = (p.var("mail", 0), p.var("second_mail", 0));
    p.thread(|t| {
        t.store(word.at(1), 1, Relaxed, "slab_make: store word");
        t.store(mail, 1, Release, "program: hand block over");
        t.store(word.at(1), 2, Relaxed, "hand_over: store word");
    });
    p.thread(|t| {
        let block = t.load(mail, Acquire, "program: get block");
        t.if_(block.is_not(0), |t| t.store(second, block, Release, "program: hand block on"));
    });
    p.thread(|t| {
        let block = t.load(second, Acquire, "program: get block at last");
        t.if_(block.is_not(0), |t| {
            let first = t.load(word.at(block), Relaxed, "free: load word");
            let again = t.load(word.at(block), Relaxed, "deliver: load word");
            t.assert(first.is_not(0), "the word of a live block is not seen");
            t.assert(!first.is(2) | again.is(2), "a word goes back to its former owner");
        });
    });
}

pub fn protocol() -> Protocol {
    Protocol {
        name: "publication",
        scenarios: vec![
            Scenario { name: "first allocations", build: first_allocations },
            Scenario { name: "block handed over", build: block_handed_over },
            Scenario { name: "block handed on", build: block_handed_on },
        ],
        bugs: &["a free while the window is being found", "the same, and until then the base is 0"],
        others: &["gate:"],
        harmless: &[
            ("arena_ready: load is_ready in the gate", "plain", "it is written under the same gate"),
            ("slab_make: store word", "plain", "here the program orders it before every read; remote frees do not"),
        ],
    }
}
