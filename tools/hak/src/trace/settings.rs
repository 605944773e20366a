// SPDX-License-Identifier: MIT
//! What a traced program would cost under other settings of hakmem.

use std::path::Path;

use anyhow::Result;

use crate::allocators::{self, Allocator};
use crate::cli::Choice;
use crate::files::Whole;
use crate::helpers::Helpers;
use crate::huge_pages::{Control, Setting};
use crate::trace::plan;
use crate::trace::replay::{Replayed, Stage, Touch};

/// No limit is smaller.
const LEAST_LIMIT: u64 = 1 << 20;

/// Also whether it was interrupted.
pub fn replay(trace: &Whole, library: Option<&Path>, rounds: u32) -> Result<(Vec<Replayed>, bool)> {
    let choice = Choice {
        allocators: vec![allocators::HAKMEM.into()],
        allocator: library.map(|path| format!("{}={}", allocators::HAKMEM, path.display())).into_iter().collect(),
        build: None,
    };
    let hakmem = allocators::choose(&choice)?.remove(0);
    let helpers = Helpers::unpack()?;
    let file = helpers.directory().join("plan");
    plan::make(trace, &file)?;
    let stage = Stage { helpers: &helpers, plan: &file, touch: Touch::All };
    Ok(all(&stage, &hakmem, rounds))
}

fn all(stage: &Stage, hakmem: &Allocator, rounds: u32) -> (Vec<Replayed>, bool) {
    let now = with(hakmem, "as it is", &[]);
    // How much it takes, for the limit.
    let (first, interrupted) = stage.run(std::slice::from_ref(&now), 1);
    if interrupted {
        return (first, true);
    }
    let peak_kib = first[0].rounds.first().map_or(0, |round| round.peak_kib);
    let limit = (peak_kib * 1024 * 3 / 4).max(LEAST_LIMIT).to_string();
    let settings: [(&str, &str); 5] = [
        ("HAKMEM_PROFILE", "memory"),
        ("HAKMEM_PROFILE", "speed"),
        ("HAKMEM_INT", "inline"),
        ("HAKMEM_INT", "off"),
        ("HAKMEM_SOFT_LIMIT", &limit),
    ];
    let mut list = vec![now];
    list.extend(settings.iter().map(|pair| with(hakmem, &format!("{}={}", pair.0, pair.1), &[*pair])));
    let (mut replayed, mut interrupted) = stage.run(&list, rounds);
    // Then there is what was measured for the limit.
    if interrupted && replayed.iter().all(|one| one.rounds.is_empty()) {
        return (first, true);
    }
    // For the process and those that it starts, so not in turn with the others.
    if !interrupted && let Ok(_held) = Control::of_system().hold(Setting::Never) {
        let last;
        (last, interrupted) = stage.run(&[with(hakmem, "no huge pages", &[])], rounds);
        replayed.extend(last);
    }
    (replayed, interrupted)
}

fn with(hakmem: &Allocator, name: &str, variables: &[(&str, &str)]) -> Allocator {
    let mut allocator = Allocator { name: name.into(), ..hakmem.clone() };
    allocator.environment.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
    allocator
}
