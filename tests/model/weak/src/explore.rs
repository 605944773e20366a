//! Goes through all executions of a program that a memory model allows, each once.
//!
//! At any moment: threads run ahead; then, if some write can be done, it is, at each
//! place of the coherence order in turn; else some read reads from each write that
//! is there, in turn, and in one branch more is put off until another write comes.
//! In C11 every execution can be put together so, as program order and reads-from
//! have no cycle there; in ARMv8, as dependencies and reads-from have none. And since
//! what comes next is a function of what is there, no execution is met twice.
//! What breaks an axiom stays broken when more is added, so it is left at once.
//!
//! SPDX-License-Identifier: MIT
use crate::graph::{Event, Graph, Kind, Model, NONE, Set, Status, bit};
use crate::program::{Final, Op, Order, Program, from_here_on};
use crate::{arm, c11, witness};

/// What was found.
#[derive(Default)]
pub struct Outcome {
    /// Executions in which every thread ended.
    pub complete: u64,
    /// Executions that reached the bound of a loop.
    pub cut: u64,
    /// Executions in which some thread waits for ever.
    pub stuck: u64,
    pub error: Option<Error>,
    /// Whether more was to be explored than was allowed.
    pub gave_up: bool,
    /// Of all executions, those that the program starts with left out.
    pub most_events: usize,
}

pub struct Error {
    pub message: &'static str,
    pub execution: String,
}

/// Which read is gone on with where there are several: makes no difference to what is
/// found, and if it did the explorer would be wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// One with nothing before it in its thread that is not done, first.
    First,
    /// One that has, first.
    Last,
}

pub struct Explorer<'a> {
    program: &'a Program,
    model: Model,
    pick: Pick,
    /// For each thread and operation, the locations that may be written from there on.
    may_write: Vec<Vec<Set>>,
    outcome: Outcome,
    steps_left: u64,
}

/// Explores until the end, the first error or that many steps.
pub fn explore(program: &Program, model: Model, pick: Pick, steps: u64) -> Outcome {
    let may_write = program.threads.iter().map(|code| from_here_on(code, written_by)).collect();
    let mut explorer = Explorer { program, model, pick, may_write, outcome: Outcome::default(), steps_left: steps };
    explorer.visit(Graph::new(program, model));
    explorer.outcome
}

/// The locations that an operation may write.
fn written_by(op: &Op) -> Set {
    match op {
        Op::Store { place, .. } | Op::Rmw { place, .. } | Op::Cas { place, .. } | Op::AwaitCas { place, .. } => {
            place.locations()
        }
        _ => 0,
    }
}

impl<'a> Explorer<'a> {
    fn over(&self) -> bool {
        self.outcome.error.is_some() || self.outcome.gave_up
    }

    fn visit(&mut self, mut graph: Graph<'a>) {
        while !self.over() {
            if self.steps_left == 0 {
                self.outcome.gave_up = true;
                return;
            }
            self.steps_left -= 1;
            graph.fetch();
            if graph.threads.iter().any(|t| t.status == Status::Impossible) {
                return;
            }
            if let Some(t) = graph.threads.iter().position(|t| t.status == Status::Choosing) {
                let Op::Choose { options, .. } = self.program.threads[t][graph.threads[t].pc] else { unreachable!() };
                for choice in 0..options {
                    let mut next = graph.clone();
                    next.chosen(t, choice);
                    self.visit(next);
                }
                return;
            }
            if let Some((event, value)) = next_write(&graph) {
                let places = write_places(&mut graph, event);
                let Some((last, others)) = places.split_last() else { return };
                for place in others {
                    let mut next = graph.clone();
                    if self.do_write(&mut next, event, value, *place) {
                        self.visit(next);
                    }
                }
                if !self.do_write(&mut graph, event, value, *last) {
                    return;
                }
                continue;
            }
            let Some(NextRead { event, can_wait, sources, .. }) = self.next_read(&graph) else {
                return self.at_the_end(&graph);
            };
            let Some((last, others)) = sources.split_last() else { return }; // in vain
            for source in if can_wait { &sources } else { others } {
                let mut next = graph.clone();
                if self.do_read(&mut next, event, *source) {
                    self.visit(next);
                }
            }
            if can_wait {
                let loc = graph.events[event as usize].loc as usize;
                graph.events[event as usize].deferred = graph.coherence[loc].iter().fold(0, |s, w| s | bit(*w));
            } else if !self.do_read(&mut graph, event, *last) {
                return;
            }
        }
    }

    // ---- Writes ----------------------------------------------------------------

    fn do_write(&mut self, graph: &mut Graph<'a>, event: u8, value: i64, place: usize) -> bool {
        let e = &mut graph.events[event as usize];
        e.value = value;
        e.done = true;
        let loc = e.loc as usize;
        graph.coherence[loc].insert(place, event);
        self.is_consistent(graph, event)
    }

    // ---- Reads -----------------------------------------------------------------

    /// The read to go on with: one that has waited in vain, so that this branch ends;
    /// else one with the fewest ways to go on.
    fn next_read(&self, graph: &Graph) -> Option<NextRead> {
        let undone =
            (0..graph.events.len() as u8).filter(|e| !graph.events[*e as usize].done).fold(0, |s, e| s | bit(e));
        let mut best: Option<NextRead> = None;
        for event in 0..graph.events.len() as u8 {
            let e = &graph.events[event as usize];
            if e.kind != Kind::Read || e.done || e.loc == NONE {
                continue;
            }
            let sources = read_sources(graph, event);
            let knows = e.sure && graph.compares_with(event).is_some();
            let can_wait = !knows && (e.awaits.is_some() || self.may_be_written(graph, event));
            if sources.is_empty() && can_wait {
                continue;
            }
            let hurried = graph.threads[e.thread as usize].mine & undone & (bit(event) - 1) != 0;
            let ways = (
                !sources.is_empty() || can_wait,
                hurried == (self.pick == Pick::First),
                sources.len() + usize::from(can_wait),
            );
            if best.as_ref().is_none_or(|b| ways < b.ways) {
                best = Some(NextRead { event, can_wait, sources, ways });
            }
        }
        best
    }

    /// Whether a write that is not there yet may go to the read's location.
    fn may_be_written(&self, graph: &Graph, event: u8) -> bool {
        let e = &graph.events[event as usize];
        let place = |x: &Event| if x.loc != NONE { bit(x.loc) } else { ((1 << x.place.1) - 1) << x.place.0 };
        let of_others = graph.threads.iter().enumerate().any(|(t, thread)| {
            t != e.thread as usize
                && matches!(thread.status, Status::Running | Status::Choosing)
                && self.may_write[t][thread.pc] >> e.loc & 1 != 0
        });
        of_others
            || graph.events.iter().enumerate().any(|(i, x)| {
                let is_earlier_or_foreign = x.thread != e.thread || (i as u8) < event;
                x.kind == Kind::Write && !x.done && is_earlier_or_foreign && place(x) >> e.loc & 1 != 0
            })
    }

    fn do_read(&mut self, graph: &mut Graph<'a>, event: u8, source: u8) -> bool {
        let value = graph.events[source as usize].value;
        let e = &mut graph.events[event as usize];
        e.from = source;
        e.value = value;
        e.done = true;
        if self.model == Model::C11 && graph.compares_with(event).is_some_and(|expected| expected != value) {
            graph.events[event as usize].order = Order::Relaxed; // of a compare-and-swap that fails
        }
        self.is_consistent(graph, event)
    }

    fn is_consistent(&mut self, graph: &mut Graph<'a>, event: u8) -> bool {
        if self.model != Model::C11 {
            return arm::is_coherent(graph, event) && arm::is_ordered(graph);
        }
        c11::arrive(graph, event);
        let e = &graph.events[event as usize];
        let at = if e.kind == Kind::Read { e.from } else { event };
        let position = graph.coherence[e.loc as usize].iter().position(|w| *w == at).expect("it is there");
        let least = c11::least_position(graph, event);
        if position < least || (e.kind == Kind::Write && position == least) {
            return false;
        }
        c11::finish(graph, event);
        if !c11::seq_is_consistent(graph) {
            return false;
        }
        if c11::races(graph, event) {
            self.fail(graph, "a data race");
            return false;
        }
        true
    }

    // ---- The end ---------------------------------------------------------------

    fn at_the_end(&mut self, graph: &Graph) {
        let is_held_up = |e: &Event| {
            // It would go on if it read what stays there.
            e.awaits.is_some() && !e.takes(graph.memory(e.loc as usize))
        };
        if !graph.events.iter().all(|e| e.done || is_held_up(e)) {
            return; // some event was put off in vain
        }
        self.outcome.most_events = self.outcome.most_events.max(graph.events.len() - graph.coherence.len());
        let waits = graph.events.iter().any(|e| !e.done);
        let is_cut = graph.threads.iter().any(|t| t.status == Status::Cut);
        for (condition, message) in &graph.asserts {
            if graph.evaluate(*condition) == Some(0) {
                return self.fail(graph, message);
            }
        }
        if is_cut {
            self.outcome.cut += 1;
        } else if waits {
            self.outcome.stuck += 1;
            if self.program.must_end {
                self.fail(graph, "a thread waits for ever");
            }
        } else {
            self.outcome.complete += 1;
            let memory = |loc| graph.memory(loc);
            let register = |thread, number| graph.register(thread, number);
            if let Some(check) = &self.program.at_end
                && let Err(message) = check(&Final { memory: &memory, register: &register })
            {
                self.fail(graph, message);
            }
        }
    }

    fn fail(&mut self, graph: &Graph, message: &'static str) {
        self.outcome.error = Some(Error { message, execution: witness::describe(graph) });
    }
}

struct NextRead {
    event: u8,
    /// Whether it may read from a write that is not there yet, or wait for ever.
    can_wait: bool,
    sources: Vec<u8>,
    ways: (bool, bool, usize),
}

/// A write whose place and value are known.
fn next_write(graph: &Graph) -> Option<(u8, i64)> {
    (0..graph.events.len() as u8).find_map(|event| {
        let e = &graph.events[event as usize];
        let ready = e.kind == Kind::Write && !e.done && e.loc != NONE;
        let waits = e.after_partner && !graph.events[e.partner as usize].done;
        if ready && !waits { Some((event, graph.evaluate(e.operand)?)) } else { None }
    })
}

/// Whether the write at a position of the coherence order is half of a
/// read-modify-write that has read the one before: nothing may come between.
fn is_tied(graph: &Graph, writes: &[u8], position: usize) -> bool {
    let w = &graph.events[writes[position] as usize];
    if w.partner == NONE || position == 0 {
        return false;
    }
    let read = &graph.events[w.partner as usize];
    read.done && read.from == writes[position - 1]
}

fn write_places(graph: &mut Graph, event: u8) -> Vec<usize> {
    let e = graph.events[event as usize];
    let writes = &graph.coherence[e.loc as usize];
    let is_free = |position: &usize| *position == writes.len() || !is_tied(graph, writes, *position);
    if e.partner != NONE && graph.events[e.partner as usize].done {
        let source = graph.events[e.partner as usize].from;
        let position = writes.iter().position(|w| *w == source).expect("it is there") + 1;
        return Some(position).filter(is_free).into_iter().collect();
    }
    (1..=writes.len()).filter(is_free).collect()
}

fn read_sources(graph: &Graph, event: u8) -> Vec<u8> {
    let e = &graph.events[event as usize];
    let writes = &graph.coherence[e.loc as usize];
    let half_done = e.partner != NONE && graph.events[e.partner as usize].done;
    (0..writes.len())
        .filter(|position| {
            let is_next = |w: &u8| *w == e.partner;
            !half_done || writes.get(position + 1).is_some_and(is_next)
        })
        .map(|position| writes[position])
        .filter(|w| e.deferred & bit(*w) == 0)
        .filter(|w| {
            let value = graph.events[*w as usize].value;
            e.takes(value) && (!e.sure || graph.compares_with(event).is_none_or(|expected| expected == value))
        })
        .collect()
}
