//! The classic litmus tests, with the verdicts that are known of them: they say
//! whether the two models are what they claim to be. Each asks whether some
//! execution ends as its last line says.
//!
//! SPDX-License-Identifier: MIT
use crate::explore::explore;
use crate::expr::Expr;
use crate::graph::Model;
use crate::program::Order::{self, *};
use crate::program::{Final, Loc, Planted, Program, Thread, Update};

/// May be, or may not, in that model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    May,
    Not,
}
use Verdict::{May, Not};

/// Verdicts under C11; ARMv8 with exclusives and LDAPR; with exclusives and LDAR;
/// with atomic instructions and LDAR.
struct Verdicts(Verdict, Verdict, Verdict, Verdict);

/// The same under all of ARMv8's mappings.
fn on(c11: Verdict, arm: Verdict) -> Verdicts {
    Verdicts(c11, arm, arm, arm)
}

const MODELS: [(&str, Model); 4] = [
    ("C11", Model::C11),
    ("ARMv8 exclusives, LDAPR", Model::ARM_WEAKEST),
    ("ARMv8 exclusives, LDAR", Model::Arm { lse: false, rcpc: false }),
    ("ARMv8 atomics, LDAR", Model::Arm { lse: true, rcpc: false }),
];

struct Litmus {
    failures: usize,
    count: usize,
}

impl Litmus {
    /// `body` writes the program over x, y and z, and returns the registers that `ends` looks at.
    fn test(
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
            let outcome = explore(&program, *model, u64::MAX);
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

fn load(t: &mut Thread, loc: Loc, order: Order) -> Expr {
    t.load(loc, order, site("load", order))
}
fn store(t: &mut Thread, loc: Loc, value: impl Into<Expr>, order: Order) {
    t.store(loc, value, order, site("store", order));
}
fn exchange(t: &mut Thread, loc: Loc, value: i64, order: Order) -> Expr {
    t.exchange(loc, value, order, site("exchange", order))
}
fn fence(t: &mut Thread, order: Order) {
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
            (a, t.load(Loc { first: 0, len: 2 }.at(a * 0), Relaxed, "load Relaxed"))
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

    more(&mut l);
    println!("litmus: {} verdicts, {} wrong", l.count, l.failures);
    l.failures
}

fn more(l: &mut Litmus) {
    // Coherence of one location.
    let rr = |p: &mut Program, x, _, _| {
        p.thread(|t| store(t, x, 1, Relaxed));
        let (a, b) = p.thread(|t| (load(t, x, Relaxed), load(t, x, Relaxed)));
        vec![(1, a), (1, b)]
    };
    l.test("CoRR", on(Not, Not), rr, |r, _| r == [1, 0]);
    let wr = |p: &mut Program, x, _, _| {
        let a = p.thread(|t| {
            store(t, x, 1, Relaxed);
            load(t, x, Relaxed)
        });
        p.thread(|t| store(t, x, 2, Relaxed));
        vec![(0, a)]
    };
    l.test("CoWR old", on(Not, Not), wr, |r, _| r == [0]);
    l.test("CoWR new", on(May, May), wr, |r, _| r == [2]);
    let rw = |p: &mut Program, x, _, _| {
        let a = p.thread(|t| {
            let a = load(t, x, Relaxed);
            store(t, x, 1, Relaxed);
            a
        });
        vec![(0, a)]
    };
    l.test("CoRW", on(Not, Not), rw, |r, _| r == [1]);

    // Two writes each, in opposite order; R; S.
    for (name, order, verdicts) in [
        ("2+2W relaxed", Relaxed, on(May, May)),
        ("2+2W release", Release, on(May, Not)),
        ("2+2W seq", Seq, on(Not, Not)),
    ] {
        let body = move |p: &mut Program, x, y, _| {
            for (first, second) in [(x, y), (y, x)] {
                p.thread(|t| {
                    store(t, first, 1, order);
                    store(t, second, 2, order);
                });
            }
            vec![]
        };
        l.test(name, verdicts, body, |_, m| m(X) == 1 && m(Y) == 1);
    }
    for (name, write, read, verdicts) in [
        ("R relaxed", Relaxed, Relaxed, on(May, May)),
        ("R release/acquire", Release, Acquire, Verdicts(May, May, Not, Not)),
        ("R seq", Seq, Seq, on(Not, Not)),
    ] {
        let body = move |p: &mut Program, x, y, _| {
            p.thread(|t| {
                store(t, x, 1, write);
                store(t, y, 1, write);
            });
            let a = p.thread(|t| {
                store(t, y, 2, write);
                load(t, x, read)
            });
            vec![(1, a)]
        };
        l.test(name, verdicts, body, |r, m| r == [0] && m(Y) == 2);
    }
    for (name, write, read, verdicts) in [
        ("S relaxed", Relaxed, Relaxed, on(May, May)),
        ("S release/acquire", Release, Acquire, on(Not, Not)),
        ("S release/relaxed", Release, Relaxed, on(May, May)),
    ] {
        let body = move |p: &mut Program, x, y, _| {
            p.thread(|t| {
                store(t, x, 2, Relaxed);
                store(t, y, 1, write);
            });
            let a = p.thread(|t| {
                let a = load(t, y, read);
                store(t, x, 1, Relaxed);
                a
            });
            vec![(1, a)]
        };
        l.test(name, verdicts, body, |r, m| r == [1] && m(X) == 2);
    }

    // Chains of three threads.
    for (name, middle, last, verdicts) in [
        ("WRC release/acquire", (Relaxed, Release), Acquire, on(Not, Not)),
        ("WRC relaxed/acquire", (Acquire, Relaxed), Acquire, Verdicts(May, Not, Not, Not)),
        ("WRC relaxed", (Relaxed, Relaxed), Relaxed, on(May, May)),
    ] {
        let body = move |p: &mut Program, x, y, _| {
            p.thread(|t| store(t, x, 1, Relaxed));
            let a = p.thread(|t| {
                let a = load(t, x, middle.0);
                store(t, y, 1, middle.1);
                a
            });
            let (b, c) = p.thread(|t| (load(t, y, last), load(t, x, Relaxed)));
            vec![(1, a), (2, b), (2, c)]
        };
        l.test(name, verdicts, body, |r, _| r == [1, 1, 0]);
    }
    for (name, order, verdicts) in
        [("ISA2 release/acquire", (Release, Acquire), on(Not, Not)), ("ISA2 relaxed", (Relaxed, Relaxed), on(May, May))]
    {
        let body = move |p: &mut Program, x, y, z| {
            p.thread(|t| {
                store(t, x, 1, Relaxed);
                store(t, y, 1, order.0);
            });
            let a = p.thread(|t| {
                let a = load(t, y, order.1);
                store(t, z, 1, order.0);
                a
            });
            let (b, c) = p.thread(|t| (load(t, z, order.1), load(t, x, Relaxed)));
            vec![(1, a), (2, b), (2, c)]
        };
        l.test(name, verdicts, body, |r, _| r == [1, 1, 0]);
    }

    // Read-modify-writes: none comes between, and release sequences go through them.
    let both_add = |p: &mut Program, x, _, _| {
        for _ in 0..2 {
            p.thread(|t| {
                t.rmw(x, Update::Add, 1, Relaxed, "add");
            });
        }
        vec![]
    };
    l.test("add and add", on(Not, Not), both_add, |_, m| m(X) != 2);
    let both_in_two_steps = |p: &mut Program, x, _, _| {
        for _ in 0..2 {
            p.thread(|t| {
                let a = load(t, x, Relaxed);
                store(t, x, a + 1, Relaxed);
            });
        }
        vec![]
    };
    l.test("add and add in two steps", on(May, May), both_in_two_steps, |_, m| m(X) == 1);
    let both_win = |p: &mut Program, x, _, _| {
        let a = p.thread(|t| t.cas(x, 0, 1, AcqRel, "cas"));
        let b = p.thread(|t| t.cas(x, 0, 2, AcqRel, "cas"));
        vec![(0, a), (1, b)]
    };
    l.test("cas and cas", on(Not, Not), both_win, |r, _| r == [0, 0]);
    l.test("cas and cas, one wins", on(May, May), both_win, |r, m| r == [0, 1] && m(X) == 1);
    let through = |p: &mut Program, x, y, _| {
        p.thread(|t| {
            store(t, x, 1, Relaxed);
            store(t, y, 1, Release);
        });
        p.thread(|t| {
            t.rmw(y, Update::Add, 1, Relaxed, "add");
        });
        let (a, b) = p.thread(|t| (load(t, y, Acquire), load(t, x, Relaxed)));
        vec![(2, a), (2, b)]
    };
    l.test("MP through an addition", on(Not, Not), through, |r, _| r == [2, 0]);
    let own_store_after = |p: &mut Program, x, y, _| {
        p.thread(|t| {
            store(t, x, 1, Relaxed);
            store(t, y, 1, Release);
            store(t, y, 2, Relaxed);
        });
        let (a, b) = p.thread(|t| (load(t, y, Acquire), load(t, x, Relaxed)));
        vec![(1, a), (1, b)]
    };
    // C++20 allows it, C11 did not; on ARMv8, po;[L];coi forbids it.
    l.test("MP through an own store", on(May, Not), own_store_after, |r, _| r == [2, 0]);

    // What RC11 changed: it allows what some machines do (the first two), and makes
    // fences stronger (the third).
    let z6u = |p: &mut Program, x, y, _| {
        p.thread(|t| {
            store(t, x, 1, Seq);
            store(t, y, 1, Release);
        });
        let (a, b) = p.thread(|t| (t.rmw(y, Update::Add, 1, Seq, "add seq"), load(t, y, Relaxed)));
        let c = p.thread(|t| {
            store(t, y, 3, Seq);
            load(t, x, Seq)
        });
        vec![(1, a), (1, b), (2, c)]
    };
    l.test("Z6.U", on(May, Not), z6u, |r, _| r == [1, 3, 0]);
    let iriw_mixed = |p: &mut Program, x, y, _| {
        p.thread(|t| store(t, x, 1, Seq));
        p.thread(|t| store(t, y, 1, Seq));
        let (a, b) = p.thread(|t| (load(t, x, Acquire), load(t, y, Seq)));
        let (c, d) = p.thread(|t| (load(t, y, Acquire), load(t, x, Seq)));
        vec![(2, a), (2, b), (3, c), (3, d)]
    };
    l.test("IRIW acquire, then seq", on(May, Not), iriw_mixed, |r, _| r == [1, 0, 1, 0]);
    for (name, between, verdicts) in
        [("RWC seq fences", Seq, on(Not, Not)), ("RWC acq_rel fences", AcqRel, on(May, Not))]
    {
        let body = move |p: &mut Program, x, y, _| {
            p.thread(|t| store(t, x, 1, Relaxed));
            let (a, b) = p.thread(|t| {
                let a = load(t, x, Relaxed);
                fence(t, between);
                (a, load(t, y, Relaxed))
            });
            let c = p.thread(|t| {
                store(t, y, 1, Relaxed);
                fence(t, between);
                load(t, x, Relaxed)
            });
            vec![(1, a), (1, b), (2, c)]
        };
        l.test(name, verdicts, body, |r, _| r == [1, 0, 0]);
    }

    // An atomic instruction with both orders is a fence between what is around it; a
    // pair of exclusives is not.
    let around = |p: &mut Program, x, y, z| {
        let mut registers = vec![];
        for (i, (mine, other)) in [(x, y), (y, x)].into_iter().enumerate() {
            let r = p.thread(|t| {
                store(t, mine, 1, Relaxed);
                exchange(t, z, 1, Seq);
                load(t, other, Relaxed)
            });
            registers.push((i, r));
        }
        registers
    };
    l.test("SB around an exchange of one variable", on(Not, Not), around, |r, _| r == [0, 0]);
    let around_own = |p: &mut Program, x, y, _| {
        let own = [p.var("u", 0), p.var("v", 0)];
        let mut registers = vec![];
        for (i, (mine, other)) in [(x, y), (y, x)].into_iter().enumerate() {
            let r = p.thread(|t| {
                store(t, mine, 1, Relaxed);
                exchange(t, own[i], 1, Seq);
                load(t, other, Relaxed)
            });
            registers.push((i, r));
        }
        registers
    };
    l.test("SB around exchanges of two", Verdicts(May, May, May, Not), around_own, |r, _| r == [0, 0]);

    // A data race is an error in C.
    let race = |p: &mut Program, x, y, _| {
        p.thread(|t| {
            store(t, x, 1, Plain);
            store(t, y, 1, Relaxed);
        });
        let (a, b) = p.thread(|t| (load(t, y, Relaxed), load(t, x, Plain)));
        vec![(1, a), (1, b)]
    };
    l.test("MP plain", on(May, May), race, |r, _| r == [1, 0]);
}

const X: Loc = Loc { first: 0, len: 1 };
const Y: Loc = Loc { first: 1, len: 1 };
