// SPDX-License-Identifier: MIT
//! A running process, looked at from outside: what its hakmem keeps, and where.
//!
//! Everything is read with process_vm_readv and from /proc, and written through /proc/PID/mem. Nothing runs in the process, nothing stops it, and
//! pages that it has never touched are not read, as that would make them be there.

pub mod census;
pub mod fields;
pub mod found;
pub mod identity;
pub mod layout;
pub mod pages;
pub mod picture;
pub mod picture_text;
pub mod report;
pub mod snapshot;
pub mod tables;
pub mod target;
pub mod threads;

use anyhow::Result;

use crate::inspect::census::Census;
use crate::inspect::layout::Layout;
use crate::inspect::snapshot::Snapshot;
use crate::inspect::tables::Tables;
use crate::inspect::target::Target;

/// A process whose hakmem has been found.
pub struct Inspected {
    pub target: Target,
    pub layout: Layout,
    pub found: found::Found,
}

impl Inspected {
    pub fn attach(pid: u32) -> Result<Inspected> {
        let target = Target::open(pid)?;
        let found = found::find(&target)?;
        Inspected::of(target, found)
    }

    /// To be written to, as long as it runs the same program.
    pub fn attach_for_writing(pid: u32) -> Result<Inspected> {
        let target = Target::open_for_writing(pid)?;
        let found = found::find(&target)?;
        Inspected::of(target, found)
    }

    pub fn of(target: Target, found: found::Found) -> Result<Inspected> {
        let layout = Layout::of(&target, &found.root)?;
        Ok(Inspected { target, layout, found })
    }

    /// One look.
    pub fn look(&self) -> Result<(Tables, Census, Snapshot)> {
        // What becomes another program has other memory, in which whatever was looked for is not.
        self.seen().map_err(|error| self.target.replaced().unwrap_or(error))
    }

    fn seen(&self) -> Result<(Tables, Census, Snapshot)> {
        let tables = Tables::read(&self.target, &self.layout)?;
        let census = Census::of(&tables, &self.layout);
        let snapshot = Snapshot::of(self, &tables, &census)?;
        Ok((tables, census, snapshot))
    }
}
