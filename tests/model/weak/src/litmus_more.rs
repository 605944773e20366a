//! Litmus tests, continued: coherence, chains of threads, read-modify-writes, and
//! what is peculiar to each model.
//!
//! SPDX-License-Identifier: MIT
use crate::litmus::{Litmus, May, Not, Verdicts, exchange, fence, load, on, store};
use crate::program::{Loc, Order::*, Program, Update};

/// Where the variables of every litmus test are.
const X: Loc = Loc { first: 0, len: 1 };
const Y: Loc = Loc { first: 1, len: 1 };

pub fn coherence(l: &mut Litmus) {
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
}

pub fn chains(l: &mut Litmus) {
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

    // A store after a branch, or after an access whose address depends, waits on ARMv8.
    for (name, by_address) in [("S release/branch", false), ("S release/address of another", true)] {
        let body = move |p: &mut Program, x: Loc, y: Loc, _| {
            p.thread(|t| {
                store(t, x, 2, Relaxed);
                store(t, y, 1, Release);
            });
            let a = p.thread(|t| {
                let a = load(t, y, Relaxed);
                if by_address {
                    t.load(Loc { first: 2, len: 1 }.at(a & 2), Relaxed, "load Relaxed");
                } else {
                    t.if_(a.is(1), |_| ());
                }
                store(t, x, 1, Relaxed);
                a
            });
            vec![(1, a)]
        };
        l.test(name, on(May, Not), body, |r, m| r == [1] && m(X) == 2);
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
}

pub fn updates(l: &mut Litmus) {
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
}

pub fn repaired(l: &mut Litmus) {
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
}

pub fn fences_and_races(l: &mut Litmus) {
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
