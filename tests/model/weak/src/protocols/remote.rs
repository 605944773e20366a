//! Remote frees: src/slab/remote.h and remote.c, with what slab.c (slab_make,
//! slab_unmake, slab_hand_over) does to a page-map word meanwhile.
//!
//! What is simpler than the code: a slab is one unit with two blocks, bits 1 and 2 of
//! one bitmap word; a page-map word is its owner's number, 0 for no slab; a block's
//! contents are one location. Owners collect a bounded number of times. At the end
//! each block that was freed has to be in the free bitmap, or on its way there.
//!
//! SPDX-License-Identifier: MIT
use super::{gate_enter, gate_leave};
use crate::check::{Protocol, Scenario};
use crate::expr::Expr;
use crate::program::{Final, Loc, Order::*, Program, Update};
use crate::thread::Thread;

/// Every block of a slab.
const ALL: i64 = 3;
/// What a block holds before it is freed, when it is, and when it is in use again.
const BEFORE: i64 = 0;
const FREED: i64 = 1;
const REUSED: i64 = 2;

/// Indices from 1; 0 is nil, as in the code.
#[derive(Clone, Copy)]
struct Memory {
    word: Loc,
    announced: Loc,
    next: Loc,
    head: Loc,
    remote: Loc,
    /// The free bitmap, of the owning thread alone.
    free: Loc,
    /// Of the blocks of unit 1.
    contents: Loc,
}

fn memory(p: &mut Program, units: usize, words: &[i64]) -> Memory {
    let zeroes = vec![0; units + 1];
    Memory {
        word: p.array("word", words),
        announced: p.array("announced", &zeroes),
        next: p.array("next", &zeroes),
        head: p.array("head", &[0, 0, 0]),
        remote: p.array("remote", &zeroes),
        free: p.array("free", &zeroes),
        contents: p.array("block", &[BEFORE, BEFORE, BEFORE]),
    }
}

// ---- remote.c ----------------------------------------------------------------

fn push(t: &mut Thread, m: &Memory, unit: Expr, owner: Expr) {
    let head = t.load(m.head.at(owner), Relaxed, "announce: load pending.head");
    t.repeat(2, |t| {
        t.store(m.next.at(unit), head, Plain, "announce: store pending_next");
        let old = t.cas(m.head.at(owner), head, unit, AcqRel, "announce: push on pending.head");
        t.if_(old.is(head), |t| t.leave(0));
        t.set(head, old);
    });
}

fn announce(t: &mut Thread, m: &Memory, unit: Expr) {
    t.repeat(2, |t| {
        let announced = t.load(m.announced.at(unit), Seq, "announce: R2 load announced");
        t.if_(announced.is_not(0), |t| t.leave(0));
        let announced = t.exchange(m.announced.at(unit), 1, Seq, "announce: R2 set announced");
        t.if_(announced.is_not(0), |t| t.leave(0));
        let word = t.load(m.word.at(unit), Relaxed, "announce: load word");
        t.if_(word.is_not(0), |t| {
            push(t, m, unit, word);
            t.leave(0);
        });
        let again = t.reg();
        if t.bug("look before withdrawal") {
            t.load_to(again, m.word.at(unit), Seq, "announce: load word again");
            t.exchange(m.announced.at(unit), 0, Seq, "announce: withdraw");
        } else {
            t.exchange(m.announced.at(unit), 0, Seq, "announce: withdraw");
            t.load_to(again, m.word.at(unit), Seq, "announce: load word again");
        }
        if t.bug("no look after withdrawal") {
            t.leave(0);
        }
        t.if_(again.is(0), |t| t.leave(0));
    });
}

/// Returns whether this thread finds that the block was free already.
fn deliver(t: &mut Thread, m: &Memory, unit: i64, bit: i64) -> Expr {
    let twice = t.local(0);
    t.block(|t| {
        let word = t.load(m.word.at(unit), Relaxed, "deliver: load word");
        t.if_(word.is(0), |t| {
            t.set(twice, 1);
            t.leave(0);
        });
        let before = t.rmw(m.remote.at(unit), Update::Or, bit, Seq, "deliver: W1 set remote bits");
        t.set(twice, (before & bit).is_not(0));
        announce(t, m, unit.into());
        let again = t.load(m.word.at(unit), Seq, "deliver: load word again");
        t.if_(again.is(0), |t| take_back(t, m, unit, bit, twice));
    });
    twice
}

fn take_back(t: &mut Thread, m: &Memory, unit: i64, bit: i64, twice: Expr) {
    let before = t.rmw(m.remote.at(unit), Update::And, !bit, Acquire, "take_back: clear remote bits");
    let ours = t.local((before & bit).is_not(0));
    let now = t.load(m.word.at(unit), Relaxed, "take_back: load word");
    if t.bug("made anew not looked for") {
        t.if_(ours, |t| t.set(twice, 1));
        return;
    }
    t.if_(now.is(0) & ours, |t| t.set(twice, 1));
    t.if_(now.is_not(0) & ours, |t| {
        t.rmw(m.remote.at(unit), Update::Or, bit, Seq, "take_back: set remote bits");
        announce(t, m, unit.into());
    });
}

/// A free by a right program.
fn deliver_once(t: &mut Thread, m: &Memory, unit: i64, bit: i64) {
    let twice = deliver(t, m, unit, bit);
    t.assert(twice.is(0), "a block's only free is taken for a second one");
}

/// The program's last use of a block, and its free.
fn use_and_free(t: &mut Thread, m: &Memory, bit: i64, expected: i64) {
    let seen = t.load(m.contents.at(bit), Plain, "program: read block");
    t.assert(seen.is(expected), "a block is in use while its former user still reads it");
    t.store(m.contents.at(bit), FREED, Plain, "program: write block");
    deliver_once(t, m, 1, bit);
}

/// slab_put_bits. Blocks of unit 1 are handed out again and written.
fn put_bits(t: &mut Thread, m: &Memory, unit: Expr, bits: Expr, reuse: bool) {
    let free = t.load(m.free.at(unit), Plain, "slab_put_bits: load free bits");
    t.assert((free & bits).is(0), "a block is free twice");
    t.store(m.free.at(unit), free | bits, Plain, "slab_put_bits: store free bits");
    if reuse {
        for bit in [1, 2] {
            t.if_((bits & bit).is_not(0), |t| t.store(m.contents.at(bit), REUSED, Plain, "program: reuse block"));
        }
    }
}

fn collect_slab(t: &mut Thread, m: &Memory, unit: Expr, reuse: bool) {
    t.block(|t| {
        let some = t.load(m.remote.at(unit), Seq, "collect: R2 load remote bits");
        t.if_(some.is(0), |t| t.leave(0));
        let bits = t.exchange(m.remote.at(unit), 0, Seq, "collect: R2 fetch remote bits");
        put_bits(t, m, unit, bits, reuse);
    });
}

/// slab_unmake. Returns the bits of blocks that others have freed as well.
fn unmake(t: &mut Thread, m: &Memory) -> Expr {
    let bits = t.local(0);
    let look = |t: &mut Thread| {
        let some = t.load(m.remote.at(1), Seq, "slab_unmake: load remote bits");
        t.if_(some.is_not(0), |t| {
            let old = t.exchange(m.remote.at(1), 0, Relaxed, "slab_unmake: fetch remote bits");
            t.set(bits, old);
        });
    };
    if t.bug("strays looked for before the word is stored") {
        look(t);
        t.store(m.word.at(1), 0, Seq, "slab_unmake: store word");
    } else {
        t.store(m.word.at(1), 0, Seq, "slab_unmake: store word");
        look(t);
    }
    bits
}

/// remote_collect, for at most so many slabs. The caller is the owner's thread, or
/// holds the gate of the pool.
fn collect(t: &mut Thread, m: &Memory, owner: i64, slabs: usize, reuse: bool) {
    let taken = t.local(0);
    t.block(|t| {
        for _ in 0..slabs {
            t.if_(taken.is(0), |t| {
                let head = t.exchange(m.head.at(owner), 0, Acquire, "collect: take pending.head");
                t.set(taken, head);
            });
            t.if_(taken.is(0), |t| t.leave(0));
            let unit = t.local(taken);
            let word = t.reg();
            if t.bug("next after R1") {
                t.exchange(m.announced.at(unit), 0, Seq, "collect: R1 clear announced");
                t.load_to(taken, m.next.at(unit), Plain, "collect: load pending_next");
                t.load_to(word, m.word.at(unit), Seq, "collect: load word");
            } else if t.bug("look before R1") {
                t.load_to(taken, m.next.at(unit), Plain, "collect: load pending_next");
                t.load_to(word, m.word.at(unit), Seq, "collect: load word");
                t.exchange(m.announced.at(unit), 0, Seq, "collect: R1 clear announced");
            } else if t.bug("R1 after R2") {
                t.load_to(taken, m.next.at(unit), Plain, "collect: load pending_next");
                t.load_to(word, m.word.at(unit), Seq, "collect: load word");
                t.if_(word.is(owner), |t| collect_slab(t, m, unit, reuse));
                t.exchange(m.announced.at(unit), 0, Seq, "collect: R1 clear announced");
                t.set(word, 0);
            } else {
                t.load_to(taken, m.next.at(unit), Plain, "collect: load pending_next");
                t.exchange(m.announced.at(unit), 0, Seq, "collect: R1 clear announced");
                t.load_to(word, m.word.at(unit), Seq, "collect: load word");
            }
            if !t.bug("owner not looked at") {
                t.if_(word.is(owner), |t| collect_slab(t, m, unit, reuse));
                if !t.bug("another's slab dropped") {
                    t.if_(word.is_not(owner) & word.is_not(0), |t| announce(t, m, unit));
                }
            } else {
                t.if_(word.is_not(0), |t| collect_slab(t, m, unit, reuse));
            }
        }
    });
    t.assert(taken.is(0), "the scenario collects fewer slabs than are pending");
}

// ---- What must hold at the end -----------------------------------------------

/// `freed`: for each unit, the blocks that have come back to its slab.
fn nothing_is_lost(f: &Final, m: &Memory, freed: &[i64]) -> Result<(), &'static str> {
    for (unit, freed) in freed.iter().enumerate().skip(1) {
        if (f.at(m.free, unit) | f.at(m.remote, unit)) & freed != *freed {
            return Err("a freed block is lost: it is in no bitmap");
        }
        let mut stacks = 0;
        for owner in 1..m.head.len {
            let mut at = f.at(m.head, owner);
            for _ in 0..m.word.len {
                stacks += i64::from(at == unit as i64);
                at = if at == 0 { 0 } else { f.at(m.next, at as usize) };
            }
        }
        if f.at(m.remote, unit) != 0 && stacks == 0 {
            return Err("a freed block is lost: its slab is on no stack");
        }
        if f.at(m.announced, unit) != 0 && stacks == 0 {
            return Err("later frees will be lost: the slab is announced, and on no stack");
        }
        if stacks > 1 {
            return Err("a slab is on two stacks, or twice on one");
        }
    }
    for bit in [1, 2] {
        if f.at(m.free, 1) & bit != 0 && f.at(m.contents, bit as usize) == FREED {
            return Err("the former user's write comes after the next one's");
        }
    }
    Ok(())
}

// ---- Scenarios ---------------------------------------------------------------

/// Two threads free a block each; the owner collects twice.
fn two_freers(p: &mut Program) {
    let m = memory(p, 1, &[0, 1]);
    for bit in [1, 2] {
        p.thread(|t| use_and_free(t, &m, bit, BEFORE));
    }
    p.thread(|t| {
        collect(t, &m, 1, 1, true);
        collect(t, &m, 1, 1, true);
    });
    p.at_end(move |f| nothing_is_lost(f, &m, &[0, ALL]));
}

/// A slab is announced again while its owner takes another from the same stack.
fn two_slabs(p: &mut Program) {
    let m = memory(p, 2, &[0, 1, 1]);
    p.thread(|t| deliver_once(t, &m, 1, 1));
    p.thread(|t| {
        deliver_once(t, &m, 2, 1);
        deliver_once(t, &m, 1, 2);
    });
    p.thread(|t| collect(t, &m, 1, 3, false));
    p.at_end(move |f| nothing_is_lost(f, &m, &[0, ALL, 1]));
}

/// The slab of a pooled owner is adopted while its blocks are freed, and another
/// thread sweeps the pool.
fn hand_over(p: &mut Program) {
    let m = memory(p, 1, &[0, 1]);
    let gate = p.var("pool_gate", 0);
    for bit in [1, 2] {
        p.thread(|t| deliver_once(t, &m, 1, bit));
    }
    p.thread(|t| {
        gate_enter(t, gate);
        t.store(m.word.at(1), 2, Relaxed, "hand_over: store word");
        gate_leave(t, gate);
        collect(t, &m, 2, 1, false);
    });
    p.thread(|t| {
        gate_enter(t, gate);
        collect(t, &m, 1, 1, false);
        gate_leave(t, gate);
    });
    p.at_end(move |f| nothing_is_lost(f, &m, &[0, ALL]));
}

/// A slab is emptied, given back and made anew by another owner, while a thread that
/// has set its bit is still about to announce it; then a block of the new slab is freed.
fn made_anew(p: &mut Program) {
    let m = memory(p, 1, &[0, 1]);
    let (gate, in_arena, mail) = (p.var("arena_gate", 0), p.var("in_arena", 0), p.var("mail", 0));
    // Another thread has freed block 2 and announced the slab.
    p.start(m.remote, 1, 2);
    p.start(m.announced, 1, 1);
    p.start(m.head, 1, 1);
    p.thread(|t| deliver_once(t, &m, 1, 1));
    p.thread(|t| {
        collect(t, &m, 1, 1, false);
        let free = t.load(m.free.at(1), Plain, "slab_put_bits: load free bits");
        t.if_(free.is(ALL), |t| {
            let strays = unmake(t, &m);
            t.assert(strays.is(0), "a block's only free is taken for a second one");
            t.store(m.free.at(1), 0, Plain, "slab_put_bits: store free bits");
            gate_enter(t, gate);
            t.store(in_arena, 1, Plain, "arena_give: store tree");
            gate_leave(t, gate);
        });
    });
    p.thread(|t| {
        gate_enter(t, gate);
        let there = t.load(in_arena, Plain, "arena_take: load tree");
        gate_leave(t, gate);
        t.if_(there.is(1), |t| {
            t.store(m.free.at(1), 2, Plain, "slab_put_bits: store free bits");
            t.store(m.word.at(1), 2, Seq, "slab_make: store word");
            t.store(mail, 1, Release, "program: hand block over");
            collect(t, &m, 2, 1, false);
        });
    });
    p.thread(|t| {
        let there = t.load(mail, Acquire, "program: get block");
        t.if_(there.is(1), |t| deliver_once(t, &m, 1, 1));
    });
    p.at_end(move |f| nothing_is_lost(f, &m, &[0, 0]));
}

/// The unit is on an owner's stack, but its slab is gone, and another owner makes it
/// one of its own whose block is freed.
fn gone_while_pending(p: &mut Program) {
    let m = memory(p, 1, &[0, 0]);
    let mail = p.var("mail", 0);
    p.start(m.announced, 1, 1);
    p.start(m.head, 1, 1);
    p.thread(|t| collect(t, &m, 1, 1, false));
    p.thread(|t| {
        t.store(m.word.at(1), 2, Seq, "slab_make: store word");
        t.store(mail, 1, Release, "program: hand block over");
        collect(t, &m, 2, 1, false);
    });
    p.thread(|t| {
        let there = t.load(mail, Acquire, "program: get block");
        t.if_(there.is(1), |t| deliver_once(t, &m, 1, 1));
    });
    p.at_end(move |f| nothing_is_lost(f, &m, &[0, 0]));
}

/// A mistake: the last block of a slab that is out is freed by its owner's thread, which
/// gives the slab back, and by another. One of the two finds it, and no bit is left.
fn freed_twice(p: &mut Program) {
    let m = memory(p, 1, &[0, 1]);
    p.start(m.free, 1, 2);
    let freer = p.thread(|t| deliver(t, &m, 1, 1));
    let owner = p.thread(|t| {
        put_bits(t, &m, 1.into(), 1.into(), false);
        let strays = unmake(t, &m);
        t.local(strays.is_not(0))
    });
    p.at_end(move |f| match f.reg(0, freer) + f.reg(1, owner) {
        _ if f.at(m.remote, 1) != 0 => Err("a bit of a slab that is gone is left"),
        0 => Err("a double free is not found"),
        1 => Ok(()),
        _ => Err("a double free is found twice"),
    });
}

const LOOKED: &str =
    "the sequentially consistent load before it has decided; the read-modify-write only has to acquire";
const NOBODY_ELSE: &str = "no scenario has a third block that is freed at that moment; W1 shows what would be lost";
const STORE: &str = "the old value is not used: a sequentially consistent store does as well";

pub fn protocol() -> Protocol {
    Protocol {
        name: "remote",
        scenarios: vec![
            // Those that are explored fastest come first: a mistake is looked for until it is found.
            Scenario { name: "two freers", build: two_freers },
            Scenario { name: "gone while pending", build: gone_while_pending },
            Scenario { name: "freed twice", build: freed_twice },
            Scenario { name: "made anew", build: made_anew },
            Scenario { name: "two slabs", build: two_slabs },
            Scenario { name: "hand-over", build: hand_over },
        ],
        bugs: &[
            "look before withdrawal",
            "no look after withdrawal",
            "next after R1",
            "look before R1",
            "R1 after R2",
            "owner not looked at",
            "another's slab dropped",
            "made anew not looked for",
            "strays looked for before the word is stored",
        ],
        others: &["program:", "gate:"],
        harmless: &[
            ("announce: R2 set announced", "acq_rel", LOOKED),
            ("announce: R2 set announced", "acquire", LOOKED),
            ("collect: R2 fetch remote bits", "acq_rel", LOOKED),
            ("collect: R2 fetch remote bits", "acquire", LOOKED),
            ("announce: withdraw", "two steps", STORE),
            ("take_back: set remote bits", "two steps", NOBODY_ELSE),
            ("collect: R1 clear announced", "two steps", STORE),
            (
                "announce: push on pending.head",
                "release",
                "who pushes a slab reads nothing of those that are on the stack already",
            ),
        ],
    }
}
