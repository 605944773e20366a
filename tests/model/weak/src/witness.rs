//! An execution as text: what each thread did, and in which order each location
//! was written.
//!
//! SPDX-License-Identifier: MIT
use crate::graph::{Graph, INITIAL, Kind, NONE, members};
use std::fmt::Write;

pub fn describe(graph: &Graph) -> String {
    let mut text = String::new();
    let loc = |e: u8| match graph.events[e as usize].loc {
        NONE => "?",
        loc => graph.program.locations[loc as usize].0.as_str(),
    };
    for (t, thread) in graph.threads.iter().enumerate() {
        let _ = writeln!(text, "  thread {t}:");
        for i in members(thread.mine) {
            let e = &graph.events[i as usize];
            let site = graph.program.sites[e.site as usize].name;
            let order = format!("{:?}", e.order).to_lowercase();
            let _ = match e.kind {
                Kind::Fence => writeln!(text, "    e{i}: fence, {order}    [{site}]"),
                _ if !e.done => writeln!(text, "    e{i}: waits for {}    [{site}]", loc(i)),
                Kind::Write => writeln!(text, "    e{i}: {} = {}, {order}    [{site}]", loc(i), e.value),
                Kind::Read => {
                    let from = match graph.events[e.from as usize].thread {
                        INITIAL => "the start".to_string(),
                        _ => format!("e{}", e.from),
                    };
                    writeln!(text, "    e{i}: reads {} = {} from {from}, {order}    [{site}]", loc(i), e.value)
                }
            };
        }
    }
    for (writes, (name, initial)) in graph.coherence.iter().zip(&graph.program.locations) {
        if writes.len() > 1 {
            let order: Vec<String> = writes[1..].iter().map(|w| format!("e{w}")).collect();
            let _ = writeln!(text, "  {name}: {initial}, then {}", order.join(", "));
        }
    }
    text
}
