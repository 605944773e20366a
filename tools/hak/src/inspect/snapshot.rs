// SPDX-License-Identifier: MIT
//! One look at a process, in the words and the order of hak_stats_json, and what only a look from outside knows.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::failure::{BAD_INPUT, failure};
use crate::files;
use crate::inspect::Inspected;
use crate::inspect::census::Census;
use crate::inspect::layout::Layout;
use crate::inspect::tables::Tables;
use crate::inspect::threads::{self, Heap};
use crate::results;

/// Of the part that hak adds. Within one fields are only added.
const FORMAT: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Snapshot {
    /// Of the library.
    pub version: String,
    #[serde(flatten)]
    pub figures: Figures,
    pub is_measured: bool,
    pub classes: Vec<Class>,
    /// `None` in what the library itself has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<Inspect>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heaps: Vec<Heap>,
}

/// hak_stats_t and hak_account_t; docs/configuration.md explains them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub reserved: u64,
    pub committed: u64,
    pub dirty_free: u64,
    pub metadata: u64,
    pub slab_bytes: u64,
    pub large_bytes: u64,
    pub huge_bytes: u64,
    pub live: u64,
    pub cached: u64,
    pub free_in_slabs: u64,
    pub slab_count: u64,
    pub heap_count: u64,
    pub heap_pooled_count: u64,
    pub refills: u64,
    pub flushes: u64,
    pub remote_frees: u64,
    pub adoptions: u64,
    pub mmap_calls: u64,
    pub munmap_calls: u64,
    pub madvise_calls: u64,
    pub mremap_calls: u64,
    pub errors: u64,
    pub outboxes: u64,
    pub slab_tails: u64,
    pub clean_free: u64,
    pub peak_in_use: u64,
    pub purged_aged: u64,
    pub purged_strained: u64,
    pub purged_idle: u64,
    pub purged_trimmed: u64,
    pub flushed_unused: u64,
    pub flushed_stripped: u64,
    pub flushed_ended: u64,
    pub purged_limited: u64,
    pub hard_limit: u64,
    pub soft_limit: u64,
    pub container_limit: u64,
    pub charged: u64,
    pub refused_purges: u64,
    pub refused_membarriers: u64,
    pub refused_threads: u64,
    pub mapped: u64,
    pub returned: u64,
    pub resident: u64,
    pub resident_live: u64,
    pub resident_cached: u64,
    pub resident_outboxes: u64,
    pub resident_free_in_slabs: u64,
    pub resident_slab_tails: u64,
    pub resident_dirty: u64,
    pub resident_huge_page_slack: u64,
    pub resident_metadata: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Class {
    pub block_bytes: u64,
    pub slab_count: u64,
    pub live_count: u64,
    pub cached_count: u64,
    pub outbox_count: u64,
    pub free_count: u64,
    pub tail_bytes: u64,
    pub resident_bytes: u64,
    /// Of the live blocks, so much at the most was not asked for: the step from the next smaller class, less a byte, for
    /// each. What was asked for is kept nowhere. `None` in what the library itself has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding_most_bytes: Option<u64>,
}

impl Class {
    /// Of the blocks that its slabs have room for, in percent, as it is shown.
    pub fn live_share(&self) -> String {
        let all = self.live_count + self.cached_count + self.outbox_count + self.free_count;
        format!("{:.1}", self.live_count as f64 * 100.0 / all.max(1) as f64)
    }
}

impl Figures {
    /// Bytes that were given back to the system, for all reasons.
    pub fn returned(&self) -> u64 {
        self.purged_aged + self.purged_strained + self.purged_idle + self.purged_trimmed + self.purged_limited
    }

    /// What grows or stays as long as a program runs, of which a look from outside misses nothing.
    pub fn never_less(&self) -> [u64; 13] {
        [
            self.mmap_calls,
            self.munmap_calls,
            self.madvise_calls,
            self.mremap_calls,
            self.peak_in_use,
            self.purged_aged,
            self.purged_strained,
            self.purged_idle,
            self.purged_trimmed,
            self.purged_limited,
            self.flushed_unused,
            self.flushed_stripped,
            self.flushed_ended,
        ]
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inspect {
    pub format: u32,
    pub tool_version: String,
    pub taken: String,
    pub process_id: u32,
    pub program: String,
    pub file: String,
    pub layout: u32,
    /// What could not be had, and why.
    #[serde(default)]
    pub remarks: Vec<String>,
    pub moving_superslab_count: u64,
    pub moving_heap_count: u64,
    pub huge_count: u64,
}

impl Snapshot {
    pub fn of(inspected: &Inspected, tables: &Tables, census: &Census) -> Result<Snapshot> {
        let (target, layout) = (&inspected.target, &inspected.layout);
        let heaps = threads::heaps(target, layout, tables, census)?;
        let mut figures = by_the_books(layout, tables, census, &heaps);
        by_what_is_resident(layout, tables, census, &mut figures);
        let mut remarks: Vec<String> = inspected.found.remark.iter().cloned().collect();
        if tables.units == 0 {
            remarks.push("the process has not asked hakmem for memory yet".into());
        } else if !tables.is_measured {
            remarks.push(format!(
                "{} cannot be read, so that all that may be resident counts as resident",
                target.file("pagemap")
            ));
        }
        let class = |class: usize| {
            let found = &census.classes[class];
            let live_count = census.live(layout, class);
            let below = class.checked_sub(1).map_or(0, |below| layout.classes[below].block_bytes);
            Class {
                block_bytes: layout.classes[class].block_bytes,
                slab_count: found.slabs,
                live_count,
                cached_count: found.cached,
                outbox_count: found.in_outboxes,
                free_count: found.free,
                tail_bytes: census.tail_bytes(layout, class),
                resident_bytes: found.out_resident_bytes + found.free_resident_bytes + found.tail_resident_bytes,
                rounding_most_bytes: Some(live_count * layout.classes[class].block_bytes.saturating_sub(below + 1)),
            }
        };
        Ok(Snapshot {
            version: inspected.found.root.version.clone(),
            figures,
            is_measured: tables.is_measured && tables.units > 0,
            classes: (0..layout.classes.len()).filter(|index| census.classes[*index].slabs > 0).map(class).collect(),
            inspect: Some(Inspect {
                format: FORMAT,
                tool_version: env!("CARGO_PKG_VERSION").into(),
                taken: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
                process_id: target.pid,
                program: target.program(),
                file: inspected.found.file.clone(),
                layout: inspected.found.root.layout,
                remarks,
                moving_superslab_count: tables.moving_superslabs,
                moving_heap_count: tables.moving_heaps,
                huge_count: census.huge_count,
            }),
            heaps,
        })
    }

    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Of `hak inspect --json`, or of the library: HAKMEM_STATS_FILE, hak_stats_json.
    pub fn load(path: &Path) -> Result<Snapshot> {
        #[derive(Deserialize)]
        struct Head {
            inspect: Option<Format>,
            committed: Option<u64>,
            format: Option<serde_json::Value>,
        }
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let bad = |reason: String| failure(BAD_INPUT, format!("{}: {reason}", path.display()));
        let text = files::text(path).map_err(|error| bad(error.to_string()))?;
        let head: Head = serde_json::from_str(&text).map_err(|error| match error.classify() {
            serde_json::error::Category::Eof => bad(format!("it is cut off ({error})")),
            _ => bad(format!("it is no file of hak inspect --json ({error})")),
        })?;
        if head.format.is_some_and(|format| format == results::FORMAT) {
            return Err(bad("it is no file of hak inspect --json, but results, which hak report reads".into()));
        }
        if head.committed.is_none() {
            return Err(bad("it is no file of hak inspect --json: it has no 'committed'".into()));
        }
        if let Some(Format { format }) = head.inspect.filter(|inspect| inspect.format > FORMAT) {
            return Err(bad(format!("written by a newer hak: format {format}, and this one reads up to {FORMAT}")));
        }
        serde_json::from_str(&text).map_err(|error| bad(format!("damaged: {error}")))
    }
}

/// As stats_from of src/observe/account.c.
fn by_the_books(layout: &Layout, tables: &Tables, census: &Census, heaps: &[Heap]) -> Figures {
    let figure = |name: &str| tables.figures.iter().find(|(its, _)| *its == name).map_or(0, |(_, value)| *value);
    let no_threads = tables.orphanages.len() as u64;
    let mut figures = Figures {
        reserved: tables.units * layout.unit_bytes,
        committed: census.committed,
        dirty_free: census.dirty,
        metadata: tables.metadata_bytes,
        huge_bytes: census.huge_bytes,
        heap_count: (heaps.len() as u64).saturating_sub(no_threads),
        heap_pooled_count: tables.pooled_count.saturating_sub(no_threads),
        refills: heaps.iter().map(|heap| heap.refills).sum(),
        flushes: heaps.iter().map(|heap| heap.flushes).sum(),
        remote_frees: heaps.iter().map(|heap| heap.remote_frees).sum(),
        adoptions: heaps.iter().map(|heap| heap.adoptions).sum(),
        mmap_calls: figure("mmap_calls"),
        munmap_calls: figure("munmap_calls"),
        madvise_calls: figure("madvise_calls"),
        mremap_calls: figure("mremap_calls"),
        errors: figure("errors"),
        clean_free: (census.committed + census.lost_bytes).saturating_sub(census.used + census.dirty),
        peak_in_use: tables.peak_units * layout.unit_bytes,
        purged_aged: figure("purged_aged"),
        purged_strained: figure("purged_strained"),
        purged_idle: figure("purged_idle"),
        purged_trimmed: figure("purged_trimmed"),
        flushed_unused: figure("flushed_unused"),
        flushed_stripped: figure("flushed_stripped"),
        flushed_ended: figure("flushed_ended"),
        purged_limited: figure("purged_limited"),
        // The most that there can be stands for none.
        hard_limit: Some(figure("hard_limit")).filter(|limit| *limit != u64::MAX).unwrap_or(0),
        soft_limit: figure("soft_limit"),
        container_limit: figure("container_limit"),
        charged: figure("charged"),
        refused_purges: figure("refused_purges"),
        refused_membarriers: figure("refused_membarriers"),
        refused_threads: figure("refused_threads"),
        ..Figures::default()
    };
    for (class, found) in census.classes.iter().enumerate() {
        let (block, bytes) = (layout.classes[class].block_bytes, census.blocks(layout, class));
        if layout.is_single(class) {
            figures.large_bytes += bytes * block;
        } else {
            figures.slab_bytes += bytes * block;
            figures.slab_count += found.slabs;
        }
        figures.cached += found.cached * block;
        figures.outboxes += found.in_outboxes * block;
        figures.free_in_slabs += found.free * block;
        figures.slab_tails += census.tail_bytes(layout, class);
    }
    figures.slab_bytes += census.spare_bytes;
    figures.free_in_slabs += census.spare_bytes;
    let all = figures.slab_bytes + figures.large_bytes + figures.huge_bytes;
    figures.live = all.saturating_sub(figures.cached + figures.outboxes + figures.free_in_slabs);
    figures
}

/// As account_from of src/observe/account.c.
fn by_what_is_resident(layout: &Layout, tables: &Tables, census: &Census, figures: &mut Figures) {
    figures.resident_live = census.huge_resident_bytes;
    figures.resident_dirty = census.dirty_resident_bytes;
    figures.resident_huge_page_slack = census.slack_resident_bytes;
    let known = tables.metadata_resident_bytes.filter(|_| tables.is_measured);
    figures.resident_metadata = known.unwrap_or(tables.metadata_bytes);
    for (class, found) in census.classes.iter().enumerate() {
        let cached = census.resident_share(layout, class, found.cached);
        let outboxes = census.resident_share(layout, class, found.in_outboxes).min(found.out_resident_bytes - cached);
        figures.resident_cached += cached;
        figures.resident_outboxes += outboxes;
        figures.resident_live += found.out_resident_bytes - cached - outboxes;
        figures.resident_free_in_slabs += found.free_resident_bytes;
        figures.resident_slab_tails += found.tail_resident_bytes;
    }
    figures.resident_free_in_slabs += census.spare_resident_bytes;
    figures.resident = figures.resident_live
        + figures.resident_cached
        + figures.resident_outboxes
        + figures.resident_free_in_slabs
        + figures.resident_slab_tails
        + figures.resident_dirty
        + figures.resident_huge_page_slack
        + figures.resident_metadata;
    // The heap may have grown since it was read how large it is.
    figures.mapped = (figures.committed + figures.metadata).max(figures.resident);
    figures.returned = figures.mapped - figures.resident;
}
