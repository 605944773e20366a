//! The memory model of C11 as repaired by O. Lahav, V. Vafeiadis, J. Kang, C.-K. Hur
//! and D. Dreyer, "Repairing Sequential Consistency in C/C++11", PLDI 2017 (RC11),
//! with the release sequences of C++20, which are the weaker ones: a release store is
//! continued by read-modify-writes only, not by later stores of its own thread.
//!
//! Events are done in an order that follows program order and reads-from, as RC11
//! has no cycles of the two. So what happens before an event is known when it is
//! done and never grows, and coherence is a matter of positions; only the axiom of
//! sequential consistency needs a search for cycles.
//!
//! SPDX-License-Identifier: MIT
use crate::graph::{Event, Graph, INITIAL, Kind, NONE, Set, bit, members};
use crate::program::Order;

/// A fence that the thread has just come to.
pub fn fence(graph: &mut Graph, event: u8) {
    let thread = &mut graph.threads[graph.events[event as usize].thread as usize];
    let e = &mut graph.events[event as usize];
    e.hb = thread.hb;
    if e.order.acquires() {
        e.hb |= thread.unacquired;
    }
    thread.hb = e.hb | bit(event);
    if e.order.releases() {
        thread.fence_sync = thread.hb;
    }
}

/// The thread comes to this access: what happens before it, without what it acquires.
pub fn arrive(graph: &mut Graph, event: u8) {
    let e = graph.events[event as usize];
    graph.events[event as usize].hb = graph.threads[e.thread as usize].hb;
}

/// The least position in the coherence order that an access to the location may see
/// (a read) or take its place behind (a write): nothing that happened before it, and
/// nothing that was read by what happened before it, is newer.
pub fn least_position(graph: &Graph, event: u8) -> usize {
    let e = &graph.events[event as usize];
    let writes = &graph.coherence[e.loc as usize];
    let mut seen: Set = 0;
    for before in members(e.hb) {
        let b = &graph.events[before as usize];
        if b.loc == e.loc && b.done {
            seen |= if b.kind == Kind::Read { bit(b.from) } else { bit(before) };
        }
    }
    writes.iter().rposition(|w| seen & bit(*w) != 0).unwrap_or(0)
}

/// The access is done: the thread's view of what has happened goes on.
pub fn finish(graph: &mut Graph, event: u8) {
    let mut e = graph.events[event as usize];
    let thread = &mut graph.threads[e.thread as usize];
    if e.kind == Kind::Read {
        let sync = graph.events[e.from as usize].sync;
        if e.order.acquires() {
            e.hb |= sync;
        } else if e.order != Order::Plain {
            thread.unacquired |= sync;
        }
    } else if e.order != Order::Plain {
        e.sync = thread.fence_sync;
        if e.order.releases() {
            e.sync |= e.hb | bit(event);
        }
        if e.partner != NONE {
            // It continues the release sequence that it has read from.
            let source = graph.events[e.partner as usize].from;
            e.sync |= graph.events[source as usize].sync;
        }
    }
    thread.hb = e.hb | bit(event);
    graph.events[event as usize] = e;
}

/// Whether the access races with another: two, one of them a write, one of them not
/// atomic, neither before the other.
pub fn races(graph: &Graph, event: u8) -> bool {
    let e = &graph.events[event as usize];
    graph.events.iter().enumerate().any(|(other, o)| {
        o.done
            && o.kind != Kind::Fence
            && o.loc == e.loc
            && o.thread != e.thread
            && o.thread != INITIAL
            && (o.kind == Kind::Write || e.kind == Kind::Write)
            && (o.order == Order::Plain || e.order == Order::Plain)
            && e.hb & bit(other as u8) == 0
    })
}

// ---- The order of what is sequentially consistent ---------------------------------

struct Relations<'a> {
    events: &'a [Event],
    coherence: &'a [Vec<u8>],
    /// For each event, what it happens before.
    hb_after: Vec<Set>,
    /// Of each write, its place in the coherence order of its location.
    position: Vec<usize>,
    /// For each location, its events.
    at: Vec<Set>,
    /// For each write, who reads it.
    readers: Vec<Set>,
}

impl<'a> Relations<'a> {
    fn new(graph: &'a Graph) -> Relations<'a> {
        let count = graph.events.len();
        let mut r = Relations {
            events: &graph.events,
            coherence: &graph.coherence,
            hb_after: vec![0; count],
            position: vec![0; count],
            at: vec![0; graph.coherence.len()],
            readers: vec![0; count],
        };
        for (i, e) in graph.events.iter().enumerate().filter(|(_, e)| e.done) {
            for before in members(e.hb) {
                r.hb_after[before as usize] |= bit(i as u8);
            }
            if e.loc != NONE {
                r.at[e.loc as usize] |= bit(i as u8);
            }
            if e.kind == Kind::Read {
                r.readers[e.from as usize] |= bit(i as u8);
            }
        }
        for writes in r.coherence {
            for (position, w) in writes.iter().enumerate() {
                r.position[*w as usize] = position;
            }
        }
        r
    }

    /// Writes that are coherence-after an event: modification order or reads-before.
    fn overwritten_by(&self, event: u8) -> Set {
        let e = &self.events[event as usize];
        if e.kind == Kind::Fence {
            return 0;
        }
        let source = if e.kind == Kind::Read { e.from } else { event };
        self.coherence[e.loc as usize][self.position[source as usize] + 1..].iter().fold(0, |s, w| s | bit(*w))
    }

    fn eco_after(&self, event: u8) -> Set {
        let later = self.overwritten_by(event);
        let own = if self.events[event as usize].kind == Kind::Write { self.readers[event as usize] } else { 0 };
        members(later).fold(later | own, |s, w| s | self.readers[w as usize])
    }

    fn thread_after(&self, event: u8) -> Set {
        let e = &self.events[event as usize];
        members(self.hb_after[event as usize])
            .filter(|i| self.events[*i as usize].thread == e.thread || e.thread == INITIAL)
            .fold(0, |s, i| s | bit(i))
    }

    fn elsewhere_after(&self, event: u8) -> Set {
        let loc = self.events[event as usize].loc;
        self.thread_after(event) & if loc == NONE { Set::MAX } else { !self.at[loc as usize] }
    }

    /// scb of the paper.
    fn scb_after(&self, event: u8) -> Set {
        let e = &self.events[event as usize];
        let mut after = self.thread_after(event) | self.overwritten_by(event);
        if e.loc != NONE {
            after |= self.hb_after[event as usize] & self.at[e.loc as usize];
        }
        let middle = members(self.elsewhere_after(event)).fold(0, |s, y| s | self.hb_after[y as usize]);
        members(middle).fold(after, |s, z| s | self.elsewhere_after(z))
    }
}

/// The axiom of sequential consistency: acyclic(psc_base ∪ psc_F).
pub fn seq_is_consistent(graph: &Graph) -> bool {
    let (mut all, mut fences): (Set, Set) = (0, 0);
    for (i, e) in graph.events.iter().enumerate() {
        if e.done && e.order == Order::Seq {
            all |= bit(i as u8);
            if e.kind == Kind::Fence {
                fences |= bit(i as u8);
            }
        }
    }
    if all.count_ones() < 2 {
        return true;
    }
    let r = Relations::new(graph);
    let mut edges = vec![];
    for from in members(all) {
        let is_fence = fences & bit(from) != 0;
        let starts = bit(from) | if is_fence { r.hb_after[from as usize] } else { 0 };
        let reached = members(starts).fold(0, |s, x| s | r.scb_after(x));
        let mut targets = reached & all;
        let mut through_eco = 0;
        if is_fence {
            let eco = members(r.hb_after[from as usize]).fold(0, |s, x| s | r.eco_after(x));
            through_eco = eco;
            targets |= r.hb_after[from as usize] & fences;
        }
        for fence in members(fences) {
            if graph.events[fence as usize].hb & (reached | through_eco) != 0 {
                targets |= bit(fence);
            }
        }
        edges.push((from, targets));
    }
    is_acyclic(all, &edges)
}

/// Whether a relation, given as each event's successors, has no cycle.
fn is_acyclic(mut left: Set, edges: &[(u8, Set)]) -> bool {
    loop {
        let before = left;
        for (from, to) in edges {
            if left & bit(*from) != 0 && to & left == 0 {
                left &= !bit(*from);
            }
        }
        if left == 0 {
            return true;
        }
        if left == before {
            return false;
        }
    }
}
