//! The shelf of src/arena/shelf.h: places into which threads put runs, and out of which they
//! take them, by one atomic step each; what a run's memory, its record and its word are then
//! whose. Two places of one length; the count of units is left out, as nobody relies on it.
//!
//! Words: an owner's number, SHELVED.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{Protocol, Scenario};
use crate::expr::Expr;
use crate::program::{Loc, Order::*, Program};
use crate::thread::Thread;

const SHELVED: i64 = 8;

#[derive(Clone, Copy)]
struct Run {
    number: i64,
    word: Loc,
    units: Loc,
    contents: Loc,
}

/// `word`: its owner's. A run that lies on the shelf already was grown before.
fn run(p: &mut Program, number: i64, word: i64) -> Run {
    let names = [("word of 1", "units of 1", "contents of 1"), ("word of 2", "units of 2", "contents of 2")];
    let (word_name, units, contents) = names[number as usize - 1];
    Run {
        number,
        word: p.var(word_name, word),
        units: p.var(units, if word == SHELVED { 2 } else { 1 }),
        contents: p.var(contents, 0),
    }
}

/// A block of owner `me` is freed: the word is claimed, the run put. Returns whether it was.
fn free(t: &mut Thread, r: &Run, me: i64, places: &[Loc]) -> Expr {
    let put = t.local(0);
    let old = if t.bug("a free does not claim the block") {
        t.load(r.word, Relaxed, "slab_free_single: claim word")
    } else {
        t.cas(r.word, me, SHELVED, AcqRel, "slab_free_single: claim word")
    };
    t.if_(old.is(me), |t| {
        t.block(|t| {
            for place in places {
                let there = t.load(*place, Relaxed, "shelf_put: look");
                t.if_(there.is(0), |t| {
                    if t.bug("a run is put without comparing") {
                        t.store(*place, r.number, Release, "shelf_put: compare and swap");
                        t.set(put, 1);
                        t.leave(0);
                    } else {
                        let old = t.cas(*place, 0, r.number, AcqRel, "shelf_put: compare and swap");
                        t.if_(old.is(0), |t| {
                            t.set(put, 1);
                            t.leave(0);
                        });
                    }
                });
            }
        });
    });
    put
}

/// What is done with a run that was taken: the record is read, the word made the taker's, and
/// the block given to the program.
fn have(t: &mut Thread, r: &Run, me: i64) {
    let units = t.load(r.units, Plain, "taker: load run_units");
    t.assert(units.is_not(1), "the record is an old one");
    t.store(r.word, me, Release, "take_shelved: store word");
    t.store(r.contents, me, Plain, "program: write block");
}

/// Returns the number of the run, 0 for none.
fn take(t: &mut Thread, runs: &[Run], me: i64, places: &[Loc]) -> Expr {
    let got = t.local(0);
    t.block(|t| {
        for place in places {
            let there = t.load(*place, Relaxed, "shelf_take: look");
            t.if_(there.is_not(0), |t| {
                let found = t.exchange(*place, 0, Acquire, "shelf_take: exchange");
                t.if_(found.is_not(0), |t| {
                    t.set(got, found);
                    for r in runs {
                        t.if_(found.is(r.number), |t| have(t, r, me));
                    }
                    t.leave(0);
                });
            });
        }
    });
    got
}

/// A run that has lain there for long, whose value was seen, is taken down.
fn take_old(t: &mut Thread, r: &Run, me: i64, place: Loc) -> Expr {
    let got = t.local(0);
    let there = t.load(place, Relaxed, "shelf_take_old: look");
    t.if_(there.is_not(0), |t| {
        if t.bug("a run is taken down without comparing") {
            t.store(place, 0, Relaxed, "shelf_take_old: compare and swap");
            t.set(got, 1);
        } else {
            let old = t.cas(place, r.number, 0, Acquire, "shelf_take_old: compare and swap");
            t.if_(old.is(r.number), |t| t.set(got, 1));
        }
    });
    t.if_(got, |t| have(t, r, me));
    got
}

/// A thread has made its block larger and filled it, and frees it; another takes it.
fn freed_and_taken(p: &mut Program) {
    let r = run(p, 1, 1);
    let place = p.var("place", 0);
    let put = p.thread(|t| {
        t.store(r.units, 2, Plain, "program: grow block");
        t.store(r.contents, 1, Plain, "program: write block");
        free(t, &r, 1, &[place])
    });
    let got = p.thread(|t| take(t, &[r], 2, &[place]));
    p.at_end(move |f| match (f.reg(0, put), f.reg(1, got), f.get(place), f.get(r.word)) {
        (1, 0, 1, SHELVED) | (1, 1, 0, 2) => Ok(()),
        _ => Err("the run is lost"),
    });
}

fn on_the_shelf(p: &mut Program) -> (Run, Loc) {
    let r = run(p, 1, SHELVED);
    let place = p.var("place", 1);
    (r, place)
}

/// Two threads want what lies there.
fn two_take(p: &mut Program) {
    let (r, place) = on_the_shelf(p);
    let got = [2, 3].map(|me| p.thread(|t| take(t, &[Run { number: 1, ..r }], me, &[place])));
    p.at_end(move |f| if f.reg(0, got[0]) + f.reg(1, got[1]) == 1 { Ok(()) } else { Err("not one has the run") });
}

/// Two threads free blocks where there is one place, and a third takes one.
fn two_put(p: &mut Program) {
    let runs = [run(p, 1, 1), run(p, 2, 2)];
    let place = p.var("place", 0);
    let put = [0, 1].map(|i| {
        p.thread(|t| {
            t.store(runs[i].units, 2, Plain, "program: grow block");
            t.store(runs[i].contents, 1, Plain, "program: write block");
            free(t, &runs[i], i as i64 + 1, &[place])
        })
    });
    let got = p.thread(|t| take(t, &runs, 3, &[place]));
    p.at_end(move |f| {
        let there = i64::from(f.get(place) != 0) + i64::from(f.reg(2, got) != 0);
        if f.reg(0, put[0]) + f.reg(1, put[1]) == there { Ok(()) } else { Err("a run is lost") }
    });
}

/// Somebody takes down what he has seen; meanwhile it is taken, used, and put there again.
fn it_comes_back(p: &mut Program) {
    let (r, place) = on_the_shelf(p);
    let down = p.thread(|t| take_old(t, &r, 2, place));
    let put = p.thread(|t| {
        let put = t.local(0);
        let got = take(t, &[r], 3, &[place]);
        t.if_(got, |t| {
            let again = free(t, &r, 3, &[place]);
            t.set(put, again);
        });
        put
    });
    p.at_end(move |f| {
        let _ = f.reg(1, put);
        if f.reg(0, down) + f.get(place) == 1 { Ok(()) } else { Err("not one has the run") }
    });
}

/// A block is freed by two threads that have seen the same word.
fn freed_twice(p: &mut Program) {
    let r = run(p, 1, 1);
    let places = [p.var("place", 0), p.var("second place", 0)];
    let put = [0, 1].map(|_| p.thread(|t| free(t, &r, 1, &places)));
    p.at_end(move |f| {
        let there = f.get(places[0]) + f.get(places[1]);
        if f.reg(0, put[0]) + f.reg(1, put[1]) == 1 && there == 1 { Ok(()) } else { Err("it lies there twice") }
    });
}

const WORD: &str = "who wins is a matter of atomicity alone: what the winner has done is released where the run is put";
const PLACE: &str = "a run is put where nothing was: there is nobody to acquire from";
const PUBLISHED: &str = "the record and the later words are those of the former block, which the place has published, \
    and the program orders what it does with a block that it hands over";

pub fn protocol() -> Protocol {
    Protocol {
        name: "shelf",
        scenarios: vec![
            Scenario { name: "freed and taken", build: freed_and_taken },
            Scenario { name: "two take", build: two_take },
            Scenario { name: "two put", build: two_put },
            Scenario { name: "it comes back", build: it_comes_back },
            Scenario { name: "freed twice", build: freed_twice },
        ],
        bugs: &[
            "a run is put without comparing",
            "a run is taken down without comparing",
            "a free does not claim the block",
        ],
        others: &["program:", "taker:"],
        harmless: &[
            ("slab_free_single: claim word", "acquire", WORD),
            ("slab_free_single: claim word", "release", WORD),
            ("slab_free_single: claim word", "relaxed", WORD),
            ("shelf_put: compare and swap", "release", PLACE),
            ("take_shelved: store word", "relaxed", PUBLISHED),
        ],
    }
}
