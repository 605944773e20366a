// SPDX-License-Identifier: MIT
//! Every allocation and free of a program, in the order in which they happened, in a file.

pub mod arguments;
pub mod call;
pub mod columns;
pub mod explain;
pub mod live;
pub mod numbers;
pub mod plan;
pub mod predict;
pub mod read;
pub mod region;
pub mod replay;
pub mod resident;
pub mod resolve;
pub mod ring;
pub mod segments;
pub mod settings;
pub mod text;
pub mod write;

use serde::{Deserialize, Serialize};

/// A block is named by how many were allocated before it. One that `realloc` moves keeps its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// `alignment` is 0 where none was asked for. `address` is where the block was.
    Allocate {
        block: u64,
        kind: Kind,
        size: u64,
        alignment: u64,
        address: u64,
    },
    Reallocate {
        block: u64,
        size: u64,
        address: u64,
    },
    Free {
        block: u64,
    },
    /// So many bytes of the pages of a large block are resident, as it goes next or has stayed until the end. What the
    /// last one says of a block, before it is freed or reallocated, is what counts.
    Resident {
        block: u64,
        bytes: u64,
    },
    /// A request that was refused.
    Refused {
        size: u64,
    },
    /// Everything after this happened so many microseconds after the start, or later.
    Time {
        microseconds: u64,
    },
    /// The process has become another program: all blocks are gone.
    Image,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Malloc,
    Calloc,
    Aligned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Counted from 0, in the order in which threads were first seen.
    pub thread: u32,
    pub what: What,
}

/// The start of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub tool_version: String,
    pub command: Vec<String>,
    /// Since 1970.
    pub started_ms: u64,
    pub machine: String,
}

/// The end of a file, if the program ended before the disk was full, and before hak.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    pub events: u64,
    pub threads: u64,
    pub seconds: f64,
    /// Of calls that got no ring, or never came.
    pub lost: u64,
    /// How the program ended.
    pub status: String,
}
