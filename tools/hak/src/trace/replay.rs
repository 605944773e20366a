// SPDX-License-Identifier: MIT
//! A plan carried out under an allocator: with proof that it was that one, and how long and how much it took.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use crate::allocators::Allocator;
use crate::helpers::Helpers;
use crate::measure::{self, Ran, Stop, describe_end};
use crate::process::Job;
use crate::proof::Proof;
use crate::stats::Summary;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// Write into each page of each block, as far as the trace does not say that the program did not
    All,
    /// Write into the first and the last byte of each block
    Ends,
    /// Write into no block
    None,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Round {
    pub seconds: f64,
    pub peak_kib: u64,
}

#[derive(Serialize)]
pub struct Replayed {
    pub name: String,
    pub version: String,
    pub proof: Option<Proof>,
    pub calls: u64,
    pub refused: u64,
    pub rounds: Vec<Round>,
    pub failure: Option<String>,
}

impl Replayed {
    fn median(&self, of: impl Fn(&Round) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.rounds.iter().map(of).collect();
        Summary::of(&values).map(|summary| summary.median)
    }

    pub fn seconds(&self) -> Option<f64> {
        self.median(|round| round.seconds)
    }

    pub fn peak_mib(&self) -> Option<f64> {
        self.median(|round| round.peak_kib as f64 / 1024.0)
    }
}

pub struct Stage<'a> {
    pub helpers: &'a Helpers,
    pub plan: &'a Path,
    pub touch: Touch,
}

impl Stage<'_> {
    pub fn job(&self) -> Job {
        let touch = match self.touch {
            Touch::All => "a",
            Touch::Ends => "e",
            Touch::None => "n",
        };
        let words: [OsString; 3] = [self.helpers.replay.clone().into(), self.plan.into(), touch.into()];
        Job { command: words.to_vec(), ..Job::default() }
    }

    /// Each one once with proof, which does not count, and then all in turn, round by round. Whether it was interrupted
    /// comes with what there is then.
    pub fn run(&self, allocators: &[Allocator], rounds: u32) -> (Vec<Replayed>, bool) {
        let mut all = Vec::new();
        for allocator in allocators {
            let mut replayed = Replayed {
                name: allocator.name.clone(),
                version: allocator.version.clone(),
                proof: None,
                calls: 0,
                refused: 0,
                rounds: Vec::new(),
                failure: None,
            };
            match measure::prove(self.helpers, self.job(), allocator, &[]) {
                Ok(proven) => match (proven.proof, read(&proven.ran)) {
                    (Ok(proof), Ok((_, calls, refused))) => {
                        replayed.proof = Some(proof);
                        (replayed.calls, replayed.refused) = (calls, refused);
                    }
                    (Err(reason), Ok(_)) => replayed.failure = Some(format!("it did not serve the replay: {reason}")),
                    (_, Err(reason)) => replayed.failure = Some(reason),
                },
                Err(Stop::Failed(reason)) => replayed.failure = Some(reason),
                Err(Stop::Interrupted) => return (all, true),
            }
            all.push(replayed);
        }
        for round in 0..rounds as usize {
            for index in 0..all.len() {
                // Another one first in each round.
                let index = (index + round) % all.len();
                let replayed = &mut all[index];
                if replayed.failure.is_some() {
                    continue;
                }
                let ran = measure::run(self.helpers, self.job(), &allocators[index], &[]);
                match ran.and_then(|ran| read(&ran).map_err(Stop::Failed)) {
                    Ok((round, ..)) => replayed.rounds.push(round),
                    Err(Stop::Failed(reason)) => replayed.failure = Some(reason),
                    Err(Stop::Interrupted) => return (all, true),
                }
            }
        }
        (all, false)
    }
}

/// What the replayer has printed: a round, calls, and how many of them were refused.
pub fn read(ran: &Ran) -> Result<(Round, u64, u64), String> {
    let said = String::from_utf8_lossy(&ran.stdout);
    let fields: HashMap<&str, &str> = said.trim_end().split('\t').filter_map(|word| word.split_once('=')).collect();
    if !ran.status.success() || !said.starts_with("replayed\t") {
        return Err(describe_end(ran));
    }
    let number = |name: &str| fields.get(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let round = Round { seconds: number("seconds"), peak_kib: number("peak_kib") as u64 };
    Ok((round, number("calls") as u64, number("refused") as u64))
}
