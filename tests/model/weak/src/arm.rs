//! The memory model of ARMv8 (other-multi-copy-atomic), after C. Pulte, S. Flur,
//! W. Deacon, J. French, S. Sarkar and P. Sewell, "Simplifying ARM Concurrency",
//! POPL 2018: coherence of each location with program order ("internal"), no cycle
//! in ordered-before ("external"), and atomicity, which `explore` sees to.
//!
//! What only orders more is left out: ISB, and dependencies of a compare-and-swap's
//! write on what it compares with.
//!
//! SPDX-License-Identifier: MIT
use crate::graph::{Graph, INITIAL, Kind, NONE, Set, bit, members};

/// Whether the event, just done, agrees with those of its thread and location: seen
/// in program order, positions in the coherence order do not go back.
pub fn is_coherent(graph: &Graph, event: u8) -> bool {
    let e = &graph.events[event as usize];
    let writes = &graph.coherence[e.loc as usize];
    let position = |event: u8| {
        let x = &graph.events[event as usize];
        let source = if x.kind == Kind::Read { x.from } else { event };
        writes.iter().position(|w| *w == source).expect("it is in the order")
    };
    let mine = position(event);
    for other in members(graph.threads[e.thread as usize].mine) {
        let o = &graph.events[other as usize];
        if other == event || !o.done || o.kind == Kind::Fence || o.loc != e.loc {
            continue;
        }
        let theirs = position(other);
        // Events of a thread are numbered in program order.
        let (first, second, later) = if other < event { (theirs, mine, e.kind) } else { (mine, theirs, o.kind) };
        if first > second || (first == second && later == Kind::Write) {
            return false;
        }
    }
    true
}

/// The external axiom: ordered-before has no cycle.
pub fn is_ordered(graph: &Graph) -> bool {
    let count = graph.events.len();
    let mut before: Vec<Set> = graph.events.iter().map(|e| e.lob).collect();
    let mut readers: Vec<Set> = vec![0; count];
    for (i, e) in graph.events.iter().enumerate() {
        if e.done && e.kind == Kind::Read {
            readers[e.from as usize] |= bit(i as u8);
            let source = &graph.events[e.from as usize];
            if source.thread == INITIAL {
                continue;
            }
            if source.thread != e.thread {
                before[i] |= bit(e.from); // rfe
            } else {
                before[i] |= source.addr | source.data; // forwarded
                if source.partner != NONE && e.order.acquires() {
                    before[i] |= bit(e.from);
                }
            }
        }
    }
    for writes in &graph.coherence {
        for (position, w) in writes.iter().enumerate().skip(1) {
            let write = &graph.events[*w as usize];
            for earlier in &writes[..position] {
                let source = &graph.events[*earlier as usize];
                let foreign = members(readers[*earlier as usize])
                    .filter(|r| graph.events[*r as usize].thread != write.thread)
                    .fold(0, |s, r| s | bit(r));
                before[*w as usize] |= foreign; // fre
                if source.thread == INITIAL {
                    continue;
                }
                if source.thread != write.thread {
                    before[*w as usize] |= bit(*earlier); // coe
                } else {
                    before[*w as usize] |= source.data | source.ctrl;
                    if source.order.releases() {
                        before[*w as usize] |= source.lob; // po;[L];coi
                    }
                }
            }
        }
    }
    let mut left: Set = if count == 128 { Set::MAX } else { (1 << count) - 1 };
    loop {
        let start = left;
        for event in members(start) {
            if before[event as usize] & left == 0 {
                left &= !bit(event);
            }
        }
        if left == 0 || left == start {
            return left == 0;
        }
    }
}
