//! The classic litmus tests, with the verdicts that are known of them: they say
//! whether the two models are what they claim to be. Each asks whether some
//! execution ends as its last line says.
//!
//! SPDX-License-Identifier: MIT
use crate::explore::{Pick, explore};
use crate::expr::Expr;
use crate::graph::Model;
use crate::litmus_more::{chains, coherence, fences_and_races, repaired, updates};
use crate::program::Order::{self, *};
use crate::program::{Final, Loc, Planted, Program};
use crate::thread::Thread;

/// May be, or may not, in that model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    May,
    Not,
}
pub use Verdict::{May, Not};

/// Verdicts under C11; ARMv8 with exclusives and LDAPR; with exclusives and LDAR;
/// with atomic instructions and LDAR.
pub struct Verdicts(pub Verdict, pub Verdict, pub Verdict, pub Verdict);

/// The same under all of ARMv8's mappings.
pub fn on(c11: Verdict, arm: Verdict) -> Verdicts {
    Verdicts(c11, arm, arm, arm)
}

const MODELS: [(&str, Model); 4] = [
    ("C11", Model::C11),
    ("ARMv8 exclusives, LDAPR", Model::ARM_WEAKEST),
    ("ARMv8 exclusives, LDAR", Model::Arm { lse: false, rcpc: false }),
    ("ARMv8 atomics, LDAR", Model::Arm { lse: true, rcpc: false }),
];

pub struct Litmus {
    failures: usize,
    count: usize,
}

impl Litmus {
    /// `body` writes the program over x, y and z, and returns the registers that `ends` looks at.
    pub fn test(
        &mut self,
        name: &str,
        verdicts: Verdicts,
        body: impl Fn(&mut Program, Loc, Loc, Loc) -> Vec<(usize, Expr)>,
        ends: impl Fn(&[i64], &dyn Fn(Loc) -> i64) -> bool + Copy + 'static,
    ) {
        let expected = [verdicts.0, verdicts.1, verdicts.2, verdicts.3];
        for ((model_name, model), expected) in MODELS.iter().zip(expected) {
            let mut program = Program::new(&Planted::default());
            let (x, y, z) = (program.var("x", 0), program.var("y", 0), program.var("z", 0));
            let registers = body(&mut program, x, y, z);
            program.at_end(move |f: &Final| {
                let values: Vec<i64> = registers.iter().map(|(t, r)| f.reg(*t, *r)).collect();
                if ends(&values, &|loc| f.get(loc)) { Err("it may be") } else { Ok(()) }
            });
            let outcome = explore(&program, *model, Pick::First, u64::MAX);
            assert!(outcome.error.is_some() || outcome.complete > 0, "{name}: no execution at all");
            let verdict = if outcome.error.is_some() { May } else { Not };
            self.count += 1;
            if verdict != expected {
                self.failures += 1;
                let word = if expected == May { "allowed" } else { "forbidden" };
                println!("FAILED {name}: has to be {word} under {model_name}");
                if let Some(error) = outcome.error {
                    print!("{}", error.execution);
                }
            }
        }
    }
}

pub fn load(t: &mut Thread, loc: Loc, order: Order) -> Expr {
    t.load(loc, order, site("load", order))
}
pub fn store(t: &mut Thread, loc: Loc, value: impl Into<Expr>, order: Order) {
    t.store(loc, value, order, site("store", order));
}
pub fn exchange(t: &mut Thread, loc: Loc, value: i64, order: Order) -> Expr {
    t.exchange(loc, value, order, site("exchange", order))
}
pub fn fence(t: &mut Thread, order: Order) {
    t.fence(order, site("fence", order));
}
fn site(what: &str, order: Order) -> &'static str {
    format!("{what} {order:?}").leak()
}

/// Store to one, load of the other, in two threads.
fn store_buffering(
    store_order: Order,
    load_order: Order,
    between: Option<Order>,
) -> impl Fn(&mut Program, Loc, Loc, Loc) -> Vec<(usize, Expr)> {
    move |p, x, y, _| {
        let mut registers = vec![];
        for (i, (mine, other)) in [(x, y), (y, x)].into_iter().enumerate() {
            let r = p.thread(|t| {
                store(t, mine, 1, store_order);
                if let Some(order) = between {
                    fence(t, order);
                }
                load(t, other, load_order)
            });
            registers.push((i, r));
        }
        registers
    }
}

fn message_passing(
    store_order: Order,
    load_order: Order,
    fences: Option<(Order, Order)>,
) -> impl Fn(&mut Program, Loc, Loc, Loc) -> Vec<(usize, Expr)> {
    move |p, x, y, _| {
        p.thread(|t| {
            store(t, x, 1, Relaxed);
            if let Some((release, _)) = fences {
                fence(t, release);
            }
            store(t, y, 1, store_order);
        });
        let (a, b) = p.thread(|t| {
            let a = load(t, y, load_order);
            if let Some((_, acquire)) = fences {
                fence(t, acquire);
            }
            (a, load(t, x, Relaxed))
        });
        vec![(1, a), (1, b)]
    }
}

fn two_readers(write: Order, read: Order) -> impl Fn(&mut Program, Loc, Loc, Loc) -> Vec<(usize, Expr)> {
    move |p, x, y, _| {
        p.thread(|t| store(t, x, 1, write));
        p.thread(|t| store(t, y, 1, write));
        let (a, b) = p.thread(|t| (load(t, x, read), load(t, y, read)));
        let (c, d) = p.thread(|t| (load(t, y, read), load(t, x, read)));
        vec![(2, a), (2, b), (3, c), (3, d)]
    }
}

pub fn run() -> usize {
    let mut l = Litmus { failures: 0, count: 0 };
    let both_zero = |r: &[i64], _: &dyn Fn(Loc) -> i64| r == [0, 0];
    let stale = |r: &[i64], _: &dyn Fn(Loc) -> i64| r == [1, 0];

    // Store buffering: only sequential consistency forbids it.
    l.test("SB relaxed", on(May, May), store_buffering(Relaxed, Relaxed, None), both_zero);
    l.test("SB release/acquire", Verdicts(May, May, Not, Not), store_buffering(Release, Acquire, None), both_zero);
    l.test("SB seq", on(Not, Not), store_buffering(Seq, Seq, None), both_zero);
    l.test("SB seq stores, relaxed loads", on(May, May), store_buffering(Seq, Relaxed, None), both_zero);
    l.test("SB seq fences", on(Not, Not), store_buffering(Relaxed, Relaxed, Some(Seq)), both_zero);
    l.test("SB acq_rel fences", on(May, Not), store_buffering(Relaxed, Relaxed, Some(AcqRel)), both_zero);
    for (name, rmw, read, verdicts) in [
        ("SB exchanges seq, loads seq", Seq, Seq, on(Not, Not)),
        ("SB exchanges seq, loads acquire", Seq, Acquire, Verdicts(May, May, Not, Not)),
        ("SB exchanges seq, loads relaxed", Seq, Relaxed, on(May, May)),
        ("SB exchanges acq_rel, loads relaxed", AcqRel, Relaxed, on(May, May)),
        ("SB exchanges release, loads relaxed", Release, Relaxed, on(May, May)),
    ] {
        let body = move |p: &mut Program, x, y, _| {
            let mut registers = vec![];
            for (i, (mine, other)) in [(x, y), (y, x)].into_iter().enumerate() {
                let r = p.thread(|t| {
                    exchange(t, mine, 1, rmw);
                    load(t, other, read)
                });
                registers.push((i, r));
            }
            registers
        };
        l.test(name, verdicts, body, both_zero);
    }

    // Message passing: release and acquire forbid it, each alone does not.
    l.test("MP relaxed", on(May, May), message_passing(Relaxed, Relaxed, None), stale);
    l.test("MP release/acquire", on(Not, Not), message_passing(Release, Acquire, None), stale);
    l.test("MP release/relaxed", on(May, May), message_passing(Release, Relaxed, None), stale);
    l.test("MP relaxed/acquire", on(May, May), message_passing(Relaxed, Acquire, None), stale);
    l.test("MP fences", on(Not, Not), message_passing(Relaxed, Relaxed, Some((Release, Acquire))), stale);
    // An address that depends on what was read orders on the machine, not in C.
    let dependent = |p: &mut Program, x: Loc, y: Loc, _| {
        p.thread(|t| {
            store(t, x, 1, Relaxed);
            store(t, y, 1, Release);
        });
        let (a, b) = p.thread(|t| {
            let a = load(t, y, Relaxed);
            (a, t.load(Loc { first: 0, len: 2 }.at(a & 2), Relaxed, "load Relaxed"))
        });
        vec![(1, a), (1, b)]
    };
    l.test("MP release/address", on(May, Not), dependent, stale);
    let after_branch = |p: &mut Program, x: Loc, y: Loc, _| {
        p.thread(|t| {
            store(t, x, 1, Relaxed);
            store(t, y, 1, Release);
        });
        let (a, b) = p.thread(|t| {
            let a = load(t, y, Relaxed);
            let b = t.local(7);
            t.if_(a.is(1), |t| t.load_to(b, x, Relaxed, "load Relaxed"));
            (a, b)
        });
        vec![(1, a), (1, b)]
    };
    l.test("MP release/branch", on(May, May), after_branch, stale);

    // Load buffering: C as repaired forbids it; the machine, only what depends.
    for (name, order, depends, verdicts) in [
        ("LB relaxed", Relaxed, false, on(Not, May)),
        ("LB data", Relaxed, true, on(Not, Not)),
        ("LB acquire", Acquire, false, on(Not, Not)),
    ] {
        let body = move |p: &mut Program, x, y, _| {
            let mut registers = vec![];
            for (i, (from, to)) in [(x, y), (y, x)].into_iter().enumerate() {
                let r = p.thread(|t| {
                    let r = load(t, from, order);
                    store(t, to, if depends { r | 1 } else { 1.into() }, Relaxed);
                    r
                });
                registers.push((i, r));
            }
            registers
        };
        l.test(name, verdicts, body, |r, _| r == [1, 1]);
    }
    let branches = |p: &mut Program, x, y, _| {
        let mut registers = vec![];
        for (i, (from, to)) in [(x, y), (y, x)].into_iter().enumerate() {
            let r = p.thread(|t| {
                let r = load(t, from, Relaxed);
                t.if_(r.is(1), |t| store(t, to, 1, Relaxed));
                r
            });
            registers.push((i, r));
        }
        registers
    };
    l.test("LB control", on(Not, Not), branches, |r, _| r == [1, 1]);

    // Independent reads of independent writes: ARMv8 is multi-copy-atomic.
    let disagree = |r: &[i64], _: &dyn Fn(Loc) -> i64| r == [1, 0, 1, 0];
    l.test("IRIW relaxed", on(May, May), two_readers(Relaxed, Relaxed), disagree);
    l.test("IRIW release/acquire", on(May, Not), two_readers(Release, Acquire), disagree);
    l.test("IRIW seq", on(Not, Not), two_readers(Seq, Seq), disagree);

    coherence(&mut l);
    chains(&mut l);
    updates(&mut l);
    repaired(&mut l);
    fences_and_races(&mut l);
    println!("litmus: {} verdicts, {} wrong", l.count, l.failures);
    l.failures
}
