// SPDX-License-Identifier: MIT
//! What is said of one process, section by section, in lines that fit: on a screen and without one.

use crate::inspect::report::{KINDS, huge_row, kib, mib, whose};
use crate::inspect::snapshot::{Class, Figures, Snapshot};
use crate::inspect::threads::Heap;
use crate::report::table::Fitted;
use crate::top::course::{Course, Decision, FLUSHED, PURGED};

pub struct Section {
    pub title: &'static str,
    /// The first has the titles of the columns.
    pub lines: Vec<String>,
}

pub fn sections(course: &Course, width: usize) -> Vec<Section> {
    let snapshot = &course.last.snapshot;
    let mut all = vec![
        Section { title: "account", lines: account(&snapshot.figures).lines(width) },
        Section { title: "given back", lines: given_back(course).lines(width) },
    ];
    if has_limits(&snapshot.figures) {
        all.push(Section { title: "limits", lines: limits(&snapshot.figures).lines(width) });
    }
    all.push(Section { title: "threads", lines: threads(&snapshot.heaps).lines(width) });
    all.push(Section { title: "size classes", lines: classes(snapshot).lines(width) });
    all
}

/// What the figures are of.
pub fn head(snapshot: &Snapshot) -> String {
    let Some(inspect) = &snapshot.inspect else { return String::new() };
    let (program, pid) = (&inspect.program, inspect.process_id);
    format!("process {pid}, {program}, under hakmem {}, {}", snapshot.version, inspect.taken)
}

/// What has to be known about the figures.
pub fn remarks(snapshot: &Snapshot) -> Vec<String> {
    let Some(inspect) = &snapshot.inspect else { return Vec::new() };
    let mut all: Vec<String> = inspect.remarks.iter().map(|remark| format!("note: {remark}")).collect();
    let (superslabs, heaps) = (inspect.moving_superslab_count, inspect.moving_heap_count);
    if superslabs + heaps > 0 {
        all.push(format!("moving: {superslabs} SuperSlabs and {heaps} heaps are a mixture of moments"));
    }
    all
}

fn account(figures: &Figures) -> Fitted {
    let mut table = Fitted::new("MiB").number("resident", None).number("mapped", Some(1)).text("", Some(2));
    for (name, resident, all, meaning) in KINDS {
        table.row(vec![name.into(), mib(resident(figures)), mib(all(figures)), meaning.into()]);
    }
    table
}

fn given_back(course: &Course) -> Fitted {
    let mut table = Fitted::new("given back").number("MiB/s", None).number("MiB", Some(1)).text("", Some(2));
    let mut row = |(name, tally, reason): Decision| {
        let rate = course.rate(tally).map_or("-".into(), |bytes| format!("{:.2}", bytes / f64::from(1 << 20)));
        table.row(vec![name.into(), rate, mib(tally(&course.last.snapshot.figures)), reason.into()]);
    };
    PURGED.into_iter().for_each(&mut row);
    FLUSHED.into_iter().for_each(&mut row);
    table
}

type LimitOf = (&'static str, fn(&Figures) -> u64);
const LIMITS: [LimitOf; 3] =
    [("hard", |f| f.hard_limit), ("soft", |f| f.soft_limit), ("container's", |f| f.container_limit)];

fn has_limits(figures: &Figures) -> bool {
    LIMITS.iter().any(|(_, limit)| limit(figures) > 0)
}

fn limits(figures: &Figures) -> Fitted {
    let mut table = Fitted::new("limit").number("MiB", None).number("charged MiB", None).number("charged %", Some(1));
    for (name, limit) in LIMITS.into_iter().filter(|(_, limit)| limit(figures) > 0) {
        let share = figures.charged as f64 * 100.0 / limit(figures) as f64;
        table.row(vec![name.into(), mib(limit(figures)), mib(figures.charged), format!("{share:.1}")]);
    }
    table
}

fn threads(heaps: &[Heap]) -> Fitted {
    let mut table = Fitted::new("thread")
        .number("cached KiB", None)
        .number("outboxes KiB", Some(4))
        .number("slabs", Some(3))
        .number("slabs KiB", Some(1))
        .number("free KiB", Some(2));
    let mut sorted: Vec<&Heap> = heaps.iter().collect();
    sorted.sort_by_key(|heap| (std::cmp::Reverse(heap.cached + heap.outboxes + heap.slab_bytes), heap.heap));
    for heap in sorted {
        table.row(vec![
            whose(heap),
            kib(heap.cached),
            kib(heap.outboxes),
            heap.slab_count.to_string(),
            kib(heap.slab_bytes),
            kib(heap.free_in_slabs),
        ]);
    }
    table
}

/// Resident, and no block that the program holds.
fn waste(class: &Class) -> u64 {
    class.resident_bytes.saturating_sub(class.live_count * class.block_bytes)
}

fn classes(snapshot: &Snapshot) -> Fitted {
    let mut table = Fitted::new("block")
        .number("slabs", Some(2))
        .number("live", Some(1))
        .number("live %", None)
        .number("resident KiB", Some(3))
        .number("waste KiB", None);
    for class in &snapshot.classes {
        table.row(vec![
            class.block_bytes.to_string(),
            class.slab_count.to_string(),
            class.live_count.to_string(),
            class.live_share(),
            (class.resident_bytes / 1024).to_string(),
            (waste(class) / 1024).to_string(),
        ]);
    }
    huge_row(&mut table, snapshot, 6);
    table
}

#[cfg(test)]
pub mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::inspect::snapshot::Inspect;
    use crate::inspect::threads::State;
    use crate::top::course::tests::look;

    pub fn heap(number: u64, name: &str, cached: u64) -> Heap {
        Heap {
            heap: number,
            state: State::Attached,
            thread_id: Some(100 + number),
            name: Some(name.into()),
            cached_count: cached / 64,
            cached,
            outboxes: 0,
            slab_count: 3,
            slab_bytes: 3 << 16,
            free_in_slabs: 1 << 12,
            refills: 0,
            flushes: 0,
            remote_frees: 0,
            adoptions: 0,
        }
    }

    fn fill(snapshot: &mut Snapshot, second: u64) {
        let figures = &mut snapshot.figures;
        (figures.resident, figures.resident_live) = ((100 + second * 10) << 20, 80 << 20);
        (figures.live, figures.mapped) = (90 << 20, 200 << 20);
        (figures.purged_aged, figures.flushed_unused) = ((4 + second) << 20, second << 19);
        (figures.soft_limit, figures.charged) = (400 << 20, 100 << 20);
        let class = |block_bytes: u64, live_count: u64| Class {
            block_bytes,
            slab_count: 2,
            live_count,
            cached_count: 100,
            outbox_count: 0,
            free_count: 300,
            tail_bytes: 0,
            resident_bytes: 128 << 10,
            rounding_most_bytes: None,
        };
        snapshot.classes = vec![class(64, 1600), class(4096, 1)];
        snapshot.heaps = vec![heap(1, "program", 1 << 16), heap(2, "worker", 1 << 17)];
        snapshot.inspect = Some(Inspect {
            format: 1,
            tool_version: "0.1.0".into(),
            taken: format!("2026-01-01T00:00:{second:02}.000Z"),
            process_id: 1234,
            program: "program".into(),
            file: "libhakmem.so".into(),
            layout: 1,
            remarks: Vec::new(),
            moving_superslab_count: 0,
            moving_heap_count: 0,
            huge_count: 2,
        });
    }

    /// A process that has grown for some seconds.
    pub fn course(looks: u64) -> Course {
        let start = Instant::now();
        let at = |second: u64| look(start + Duration::from_secs(second), |snapshot| fill(snapshot, second));
        let mut course = Course::begin(at(0));
        (1..looks).for_each(|second| course.go_on(at(second)));
        course
    }

    fn words(course: &Course, title: &str, start: &str) -> String {
        let sections = sections(course, 200);
        let section = sections.iter().find(|section| section.title == title).unwrap();
        let line = section.lines.iter().find(|line| line.trim_start().starts_with(start));
        let line = line.unwrap_or_else(|| panic!("no {start}: {:?}", section.lines));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_said_of_a_process() {
        let course = course(3);
        assert_eq!(words(&course, "account", "live"), "live 80.00 90.00 held by the program");
        assert_eq!(words(&course, "account", "in all").split(" what").next(), Some("in all 120.00 200.00"));
        assert_eq!(words(&course, "given back", "purged_aged"), "purged_aged 1.00 6.00 nobody took it for a second");
        assert!(words(&course, "given back", "flushed_unused").starts_with("flushed_unused 0.50 1.00 "));
        assert_eq!(words(&course, "limits", "soft"), "soft 400.00 100.00 25.0");
        assert_eq!(words(&course, "threads", "worker"), "worker (102) 128.0 0.0 3 192.0 4.0");
        assert_eq!(words(&course, "size classes", "64"), "64 2 1600 80.0 128 28");
        assert_eq!(words(&course, "size classes", "huge"), "huge 2");
        let threads = &sections(&course, 200)[3];
        assert!(threads.lines[1].contains("worker"), "the one with most comes first: {:?}", threads.lines);
    }

    #[test]
    fn after_one_look_there_are_no_rates() {
        assert!(words(&course(1), "given back", "purged_aged").starts_with("purged_aged - 4.00"));
    }

    #[test]
    fn without_limits_nothing_is_said_of_them() {
        let mut course = course(1);
        course.last.snapshot.figures.soft_limit = 0;
        assert!(sections(&course, 80).iter().all(|section| section.title != "limits"));
    }
}
