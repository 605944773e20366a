//! Whose a lone block is: slab_take_over_single and slab_free_single in src/slab/single.c, and the flush of
//! an own one in src/slab/batch.c; huge_free's claim in src/arena/huge.c. Each is a
//! compare-and-swap on the page-map word, so that of several frees of one block one
//! wins. Frees that the program has not ordered are mistakes of the program: what is
//! checked is that the allocator's own data stays right all the same.
//!
//! Words: an owner's number, SHELVED, HUGE, 0 for nothing.
//!
//! SPDX-License-Identifier: MIT
use super::{gate_enter, gate_leave};
use crate::check::{Protocol, Scenario};
use crate::expr::Expr;
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

const SHELVED: i64 = 8;
const HUGE: i64 = 9;

#[derive(Clone, Copy)]
struct Memory {
    word: Loc,
    gate: Loc,
    /// What the arena's tree says: the units of the free run, 0 while it is in use.
    tree: Loc,
    /// run_units of the run's record.
    units: Loc,
    contents: Loc,
}

fn memory(p: &mut Program, word: i64) -> Memory {
    Memory {
        word: p.var("word", word),
        gate: p.var("arena_gate", 0),
        tree: p.var("tree", 0),
        units: p.var("run_units", 1),
        contents: p.var("block", 0),
    }
}

fn give(t: &mut Thread, m: &Memory, units: impl Into<Expr>) {
    gate_enter(t, m.gate);
    let free = t.load(m.tree, Plain, "arena_give: load tree");
    t.assert(free.is(0), "a run is given back twice");
    t.store(m.tree, units, Plain, "arena_give: store tree");
    gate_leave(t, m.gate);
}

/// arena_take of all that is there, as `units` units.
fn take(t: &mut Thread, m: &Memory, units: i64) -> Expr {
    gate_enter(t, m.gate);
    let there = t.load(m.tree, Plain, "arena_take: load tree");
    t.if_(there.is_not(0), |t| {
        t.store(m.tree, 0, Plain, "arena_take: store tree");
        t.store(m.units, units, Plain, "arena_take: store run_units");
    });
    gate_leave(t, m.gate);
    there
}

/// An own or, of a thread without a heap, another's single block goes to the arena.
fn free_single(t: &mut Thread, m: &Memory, owner: i64, site: &'static str) -> Expr {
    let seen = t.load(m.word, Relaxed, "free: load word");
    let won = t.local(0);
    t.if_(seen.is(owner), |t| {
        if t.bug("a flush looks and does not claim") {
            t.set(won, 1);
        } else {
            let old = t.cas(m.word, owner, SHELVED, AcqRel, site);
            t.set(won, old.is(owner));
        }
    });
    t.if_(won, |t| {
        t.store(m.word, 0, Relaxed, "slab_unmake: store word");
        give(t, m, 1);
    });
    won
}

/// Two threads that have seen the same word free the block: it goes to one of them.
fn two_take_over(p: &mut Program) {
    let m = memory(p, 3);
    let wins = [1, 2].map(|me| {
        p.thread(|t| {
            let old = t.cas(m.word, 3, me, AcqRel, "slab_take_over_single: claim word");
            t.if_(old.is(3), |t| t.store(m.contents, me, Plain, "program: write block"));
            old
        })
    });
    p.at_end(move |f| {
        let winners = wins.iter().enumerate().filter(|(i, old)| f.reg(*i, **old) == 3).count();
        if winners == 1 { Ok(()) } else { Err("not one has the block") }
    });
}

/// The owner flushes a block that another thread frees; a third takes what comes free.
fn flush_and_take_over(p: &mut Program) {
    let m = memory(p, 1);
    let flushed = p.thread(|t| free_single(t, &m, 1, "flush_single: claim word"));
    let taken = p.thread(|t| {
        let old = t.cas(m.word, 1, 2, AcqRel, "slab_take_over_single: claim word");
        t.if_(old.is(1), |t| t.store(m.contents, 2, Plain, "program: write block"));
        t.local(old.is(1))
    });
    p.thread(|t| {
        let there = take(t, &m, 1);
        t.if_(there.is_not(0), |t| {
            t.store(m.contents, 3, Plain, "program: write block");
            t.store(m.word, 4, Relaxed, "slab_make: store word");
        });
    });
    p.at_end(move |f| if f.reg(0, flushed) + f.reg(1, taken) != 1 { Err("not one has the block") } else { Ok(()) });
}

/// A thread without a heap frees another's block, whose owner flushes it at once.
fn flush_and_free(p: &mut Program) {
    let m = memory(p, 1);
    let a = p.thread(|t| free_single(t, &m, 1, "flush_single: claim word"));
    let b = p.thread(|t| free_single(t, &m, 1, "slab_free_single: claim word"));
    p.at_end(move |f| {
        let wins = f.reg(0, a) + f.reg(1, b);
        if wins != 1 || f.get(m.tree) != 1 { Err("not one has given the block back") } else { Ok(()) }
    });
}

/// huge_free by two threads, while another takes the run for a block of two units: a
/// free that comes so late frees the new block, all of it.
fn huge(p: &mut Program) {
    let m = memory(p, HUGE);
    for _ in 0..2 {
        p.thread(|t| {
            let seen = t.load(m.word, Relaxed, "free: load word");
            t.if_(seen.is(HUGE), |t| {
                let old = t.cas(m.word, HUGE, 0, AcqRel, "huge_free: claim word");
                t.if_(old.is(HUGE), |t| {
                    let units = t.load(m.units, Plain, "huge_free: load run_units");
                    give(t, &m, units);
                });
            });
        });
    }
    let taken = p.thread(|t| {
        let there = take(t, &m, 2);
        t.if_(there.is_not(0), |t| t.store(m.word, HUGE, Release, "huge take: store first word"));
        t.local(there.is_not(0))
    });
    p.at_end(move |f| {
        let right = match (f.reg(2, taken), f.get(m.word)) {
            (0, 0) => 1,
            (1, 0) => 2,
            _ => 0,
        };
        if f.get(m.tree) == right { Ok(()) } else { Err("a run of the wrong length is given back") }
    });
}

const ATOMIC: &str = "who wins is a matter of atomicity alone: the class is in the word itself, the arena's data \
    are read under its gate, and the contents are ordered by the program";
const GATE: &str = "the arena's gate releases what the freeing thread has done";

pub fn protocol() -> Protocol {
    Protocol {
        name: "ownership",
        scenarios: vec![
            Scenario { name: "two take over", build: two_take_over },
            Scenario { name: "flush and take over", build: flush_and_take_over },
            Scenario { name: "flush and free", build: flush_and_free },
            Scenario { name: "huge", build: huge },
        ],
        bugs: &["a flush looks and does not claim"],
        others: &["program:", "gate:"],
        harmless: &[
            ("flush_single: claim word", "acquire", ATOMIC),
            ("flush_single: claim word", "release", ATOMIC),
            ("flush_single: claim word", "relaxed", ATOMIC),
            ("slab_free_single: claim word", "acquire", ATOMIC),
            ("slab_free_single: claim word", "release", ATOMIC),
            ("slab_free_single: claim word", "relaxed", ATOMIC),
            ("slab_take_over_single: claim word", "acquire", ATOMIC),
            ("slab_take_over_single: claim word", "release", ATOMIC),
            ("slab_take_over_single: claim word", "relaxed", ATOMIC),
            ("huge_free: claim word", "acquire", GATE),
        ],
    }
}
