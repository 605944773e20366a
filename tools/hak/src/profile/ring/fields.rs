// SPDX-License-Identifier: MIT
//! Where the samples lie in a process, and what they are made of (src/front/record.c names them).

use anyhow::Result;

use crate::inspect::fields::{Field, Root};

pub struct Fields {
    pub event_bytes: u64,
    pub stack_bytes: u64,
    pub events: u64,
    pub stacks: u64,
    pub watched: u64,
    pub filter: u64,
    pub at_events: u64,
    pub at_stacks: u64,
    pub at_watched: u64,
    pub at_filter: u64,
    pub allocated: u64,
    pub record: Field,
    pub mean_bytes: Field,
    pub drained: Field,
    pub stacks_drained: Field,
    pub stack_count: Field,
    pub beat: Field,
    pub reader: Field,
    pub event_count: Field,
    pub dropped_count: Field,
    pub is_ending: Field,
    pub number: Field,
    pub kind: Field,
    pub thread: Field,
    pub block: Field,
    pub bytes: Field,
    pub mean: Field,
    pub stack: Field,
    pub time: Field,
    pub stack_number: Field,
    pub stack_length: Field,
    pub pc: Field,
    pub registers: Field,
    pub contents: Field,
}

impl Fields {
    pub fn of(root: &Root) -> Result<Fields> {
        let number = |name: &str| root.number(&format!("sample.{name}"));
        let variable = |name: &str| root.variable(&format!("sample.{name}"));
        let member = |name: &str| root.member(&format!("sample.{name}"));
        Ok(Fields {
            event_bytes: number("event_bytes")?,
            stack_bytes: number("stack_bytes")?,
            events: number("events")?,
            stacks: number("stacks")?,
            watched: number("watched")?,
            filter: number("filter")?,
            at_events: number("at.events")?,
            at_stacks: number("at.stacks")?,
            at_watched: number("at.watched")?,
            at_filter: number("at.filter")?,
            allocated: number("allocated")?,
            record: variable("record")?,
            mean_bytes: variable("mean_bytes")?,
            drained: variable("drained")?,
            stacks_drained: variable("stacks_drained")?,
            stack_count: variable("stack_count")?,
            beat: variable("beat")?,
            reader: variable("reader")?,
            event_count: variable("event_count")?,
            dropped_count: variable("dropped_count")?,
            is_ending: variable("is_ending")?,
            number: member("event.number")?,
            kind: member("event.kind")?,
            thread: member("event.thread_id")?,
            block: member("event.block")?,
            bytes: member("event.bytes")?,
            mean: member("event.mean_bytes")?,
            stack: member("event.stack")?,
            time: member("event.time_ms")?,
            stack_number: member("stack.number")?,
            stack_length: member("stack.bytes")?,
            pc: member("stack.pc")?,
            registers: member("stack.registers")?,
            contents: member("stack.contents")?,
        })
    }

    pub fn is_sane(&self) -> bool {
        let powers = [self.event_bytes, self.stack_bytes, self.events, self.stacks, self.watched, self.filter];
        powers.iter().all(|number| number.is_power_of_two() && *number <= 1 << 24)
            && self.events * self.event_bytes <= 1 << 28
            && self.stacks * self.stack_bytes <= 1 << 28
            && self.contents.at < self.stack_bytes
    }
}
