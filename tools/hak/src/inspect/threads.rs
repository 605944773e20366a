// SPDX-License-Identifier: MIT
//! Whose the heaps are: threads by the numbers and names that the system has for them.

use std::collections::HashMap;
use std::fs;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::inspect::census::Census;
use crate::inspect::layout::Layout;
use crate::inspect::tables::Tables;
use crate::inspect::target::{Target, printable, text};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A thread uses it.
    Attached,
    /// Its thread has ended; it waits for the next.
    Pooled,
    /// It is no thread's, but has slabs that their threads had no use for.
    Orphanage,
    /// Its thread is not there: it ended without notice, or was the parent's when the process was forked.
    Abandoned,
}

/// A heap, and what is in its magazines and slabs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Heap {
    pub heap: u64,
    pub state: State,
    /// As the process itself sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub cached_count: u64,
    pub cached: u64,
    pub outboxes: u64,
    pub slab_count: u64,
    pub slab_bytes: u64,
    pub free_in_slabs: u64,
    pub refills: u64,
    pub flushes: u64,
    pub remote_frees: u64,
    pub adoptions: u64,
}

pub fn heaps(target: &Target, layout: &Layout, tables: &Tables, census: &Census) -> Result<Vec<Heap>> {
    let (names, survivor) = (names(target), survivor(target, layout)?);
    let heap = |(index, copy): (usize, &crate::inspect::tables::HeapCopy)| {
        let (record, fields) = (&copy.record, &layout.heap);
        let id = index as u64 + 1;
        let survivor = survivor.filter(|(heap, _)| *heap == id).map(|(_, thread_id)| thread_id);
        let thread_id = survivor.unwrap_or_else(|| fields.thread_id.of(record, 0));
        let process_id = if survivor.is_some() { names.process_id } else { fields.process_id.of(record, 0) };
        let its_thread = names.threads.get(&(process_id, thread_id));
        let state = match fields.state.of(record, 0) {
            _ if tables.orphanages.contains(&id) => State::Orphanage,
            state if state == layout.state_pooled => State::Pooled,
            state if state == layout.state_attached && its_thread.is_some() => State::Attached,
            _ => State::Abandoned,
        };
        let counts = (0..layout.classes.len()).map(|class| {
            let blocks = layout.magazine_count(record, class).saturating_sub(copy.gaps[class]);
            (blocks, blocks * layout.classes[class].block_bytes)
        });
        let (cached_count, cached) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let outboxes = copy.on_the_way.iter().map(|(class, blocks)| blocks * layout.classes[*class].block_bytes);
        let owner = census.owners[index + 1];
        let is_attached = state == State::Attached;
        Heap {
            heap: id,
            state,
            thread_id: is_attached.then_some(thread_id),
            name: its_thread.filter(|_| is_attached).cloned(),
            cached_count,
            cached,
            outboxes: outboxes.sum(),
            slab_count: owner.slab_count,
            slab_bytes: owner.slab_bytes,
            free_in_slabs: owner.free_bytes,
            refills: fields.refills.of(record, 0),
            flushes: fields.flushes.of(record, 0),
            remote_frees: fields.remote_frees.of(record, 0),
            adoptions: fields.adoptions.of(record, 0),
        }
    };
    Ok(tables.heaps.iter().enumerate().map(heap).collect())
}

#[derive(Default)]
struct Names {
    process_id: u64,
    threads: HashMap<(u64, u64), String>,
}

/// The heap and the thread that a fork has left, as long as the heap does not have its number.
fn survivor(target: &Target, layout: &Layout) -> Result<Option<(u64, u64)>> {
    let variables = &layout.variables;
    let survivor = (variables.fork_survivor.value(target)?, variables.fork_thread_id.value(target)?);
    Ok((variables.fork_pending.value(target)? != 0).then_some(survivor))
}

/// Names of threads, by (process, thread) as the process itself sees these numbers: in a container they are others
/// than outside.
fn names(target: &Target) -> Names {
    let mut names = Names::default();
    for task in fs::read_dir(target.file("task")).into_iter().flatten().flatten() {
        let Ok(status) = text(task.path().join("status")) else { continue };
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim().to_owned())
        };
        let inner = |key: &str| value(key)?.split_whitespace().last()?.parse().ok();
        let thread = inner("NSpid:").or_else(|| inner("Pid:"));
        let process = inner("NStgid:").or_else(|| inner("Tgid:"));
        if let (Some(process), Some(thread), Some(name)) = (process, thread, value("Name:")) {
            names.process_id = process;
            names.threads.insert((process, thread), printable(&name));
        }
    }
    names
}
