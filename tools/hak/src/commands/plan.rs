// SPDX-License-Identifier: MIT
//! How many rounds a run of the suite has, and about how long they take.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::Bench;
use crate::results::Results;
use crate::suite::Row;
use crate::trace::text::count;

/// `--quick` makes more than four rounds where they fit into twelve minutes; the rest is for reading and writing. Four take
/// longer under all allocators.
const QUICK_BUDGET: Duration = Duration::from_secs(700);
const QUICK_ROUNDS: (u32, u32) = (4, 12);
/// The whole suite ends within three hours; the rest is for reading and writing.
const FULL_BUDGET: Duration = Duration::from_secs(175 * 60);
const FULL_ROUNDS: (u32, u32) = (1, 5);

/// What a run takes beside the program: free memory is warmed, files are made and read.
const AROUND_A_RUN: f64 = 0.03;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub least: u32,
    pub most: u32,
    /// There are no more rounds than fit into it, but the least in any case.
    pub budget: Option<Duration>,
}

impl Plan {
    /// Where a run is to be compared with an earlier one, it has as many rounds as that.
    pub fn of(arguments: &Bench, against: Option<&Results>) -> Plan {
        let rounds = arguments.rounds.or_else(|| Some(against?.rounds.max(1)));
        let ((least, most), budget) =
            if arguments.quick { (QUICK_ROUNDS, QUICK_BUDGET) } else { (FULL_ROUNDS, FULL_BUDGET) };
        match (rounds, arguments.within) {
            (rounds, Some(budget)) => Plan { least: 1, most: rounds.unwrap_or(QUICK_ROUNDS.1), budget: Some(budget) },
            (Some(rounds), None) => Plan { least: rounds, most: rounds, budget: None },
            (None, None) => Plan { least, most, budget: Some(budget) },
        }
    }

    /// "12 rows under 3 allocators, 5 rounds: about 2 minutes", for one line before the measurement.
    pub fn describe(&self, rows: &[Row], allocators: usize) -> String {
        let rounds = match self.budget {
            Some(budget) if self.least < self.most => {
                format!("{}, and up to {} where they fit into {}", of_rounds(self.least), self.most, exactly(budget))
            }
            _ => of_rounds(self.least),
        };
        let time = roughly(self.estimate(rows, allocators));
        let (rows, allocators) = (count(rows.len() as u64, "row"), count(allocators as u64, "allocator"));
        format!("{rows} under {allocators}, {rounds}: {time}")
    }

    /// From what the suite says of its rows. On a machine that is twice as fast, it is half of that.
    fn estimate(&self, rows: &[Row], allocators: usize) -> Duration {
        let (least, most) = (seconds(rows, allocators, self.least), seconds(rows, allocators, self.most));
        let all = self.budget.map_or(most, |budget| most.min(budget.as_secs_f64()).max(least));
        Duration::from_secs_f64(all)
    }
}

/// In each round a row runs once under each allocator and once more, before them; programs and replays also run
/// once under each for the proof.
fn seconds(rows: &[Row], allocators: usize, rounds: u32) -> f64 {
    let of_row = |row: &Row| {
        let allocators = row.allocators(allocators);
        let rounds = row.max_rounds.map_or(rounds, |most| most.min(rounds)) as usize;
        let proofs = if row.needs_proof() { allocators } else { 0 };
        (rounds * (allocators + 1) + proofs) as f64 * (row.seconds() + AROUND_A_RUN)
    };
    rows.iter().map(of_row).sum()
}

fn of_rounds(rounds: u32) -> String {
    count(rounds.into(), "round")
}

fn exactly(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (number, unit) = if seconds % 60.0 == 0.0 { (seconds / 60.0, "minute") } else { (seconds, "second") };
    format!("{number} {unit}{}", if number == 1.0 { "" } else { "s" })
}

fn roughly(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..90.0 => format!("about {}", count(seconds.round().max(1.0) as u64, "second")),
        ..5400.0 => format!("about {:.0} minutes", seconds / 60.0),
        _ => format!("about {:.1} hours", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::suite;

    fn rows(text: &str) -> Vec<Row> {
        let row = |rest: &str| format!("[[row]]\nfamily='f'\ncommand=['x']\n{rest}\n");
        suite::parse(&text.split('/').map(row).collect::<String>()).unwrap()
    }

    #[test]
    fn every_run_of_a_row_is_counted() {
        let plan = |rounds| Plan { least: rounds, most: rounds, budget: None };
        let one = rows("name='a'\nkind='workload'\nseconds=1.97");
        assert_eq!(plan(5).describe(&one, 3), "1 row under 3 allocators, 5 rounds: about 40 seconds");
        let limited = rows("name='a'\nkind='workload'\nseconds=1.97\nmax_rounds=2");
        assert_eq!(plan(5).estimate(&limited, 3), Duration::from_secs(16));
        let program = rows("name='a'\nkind='program'\nseconds=0.97/name='b'\nkind='workload'\nseconds=9.97");
        assert_eq!(plan(2).estimate(&program, 4), Duration::from_secs(10 + 4 + 100));
        let beside =
            rows("name='a'\nkind='workload'\nseconds=0.97/name='b'\nkind='workload'\nseconds=1.97\nbeside='a'");
        assert_eq!(plan(3).estimate(&beside, 4), Duration::from_secs(15 + 12), "under one allocator");
    }

    #[test]
    fn a_quick_run_takes_as_long_as_it_may() {
        let quick = Plan { least: 4, most: 12, budget: Some(Duration::from_secs(585)) };
        let of = |seconds: &str| quick.estimate(&rows(&format!("name='a'\nkind='workload'\nseconds={seconds}")), 9);
        assert_eq!(of("0.97"), Duration::from_secs(120), "all rounds fit");
        assert_eq!(of("9.97"), Duration::from_secs(585), "some");
        assert_eq!(of("29.97"), Duration::from_secs(1200), "not even the fewest");
    }

    /// That it takes longer than what they fit into is no contradiction.
    #[test]
    fn only_rounds_beyond_the_fewest_have_to_fit() {
        let quick = Plan { least: 4, most: 12, budget: Some(Duration::from_secs(700)) };
        let long = rows("name='a'\nkind='workload'\nseconds=29.97");
        let told = "1 row under 9 allocators, 4 rounds, and up to 12 where they fit into 700 seconds: about 20 minutes";
        assert_eq!(quick.describe(&long, 9), told);
        let once = Plan { least: 1, most: 1, ..quick };
        assert_eq!(once.describe(&long, 9), "1 row under 9 allocators, 1 round: about 5 minutes");
    }

    #[test]
    fn the_whole_suite_ends_in_time_and_so_does_what_is_told_to() {
        let of = |options: &[&str]| {
            let words = ["hak", "bench"].iter().chain(options);
            match Cli::parse_from(words).command {
                Command::Bench(bench) => Plan::of(&bench, None),
                _ => unreachable!(),
            }
        };
        let parts = |options: &[&str]| {
            let plan = of(options);
            (plan.least, plan.most, plan.budget.map(|budget| budget.as_secs()))
        };
        assert_eq!(parts(&[]), (1, 5, Some(10_500)));
        assert_eq!(parts(&["--quick"]), (4, 12, Some(700)));
        assert_eq!(parts(&["--rounds", "7"]), (7, 7, None));
        assert_eq!(parts(&["--within", "2h"]), (1, 12, Some(7200)));
        assert_eq!(parts(&["--quick", "--within", "90s", "--rounds", "3"]), (1, 3, Some(90)));
        // Rows of an hour under nine allocators: a round is begun in any case, and that is foretold.
        let hours = rows("name='a'\nkind='workload'\nseconds=3599.97");
        assert!(of(&[]).describe(&hours, 9).ends_with("about 10.0 hours"));
    }

    #[test]
    fn the_time_that_was_given_is_told() {
        let times = [500, 1000, 90_000, 7_200_000].map(Duration::from_millis);
        assert_eq!(times.map(exactly), ["0.5 seconds", "1 second", "90 seconds", "120 minutes"]);
    }

    #[test]
    fn times_are_told_roughly() {
        let roughly = |seconds| roughly(Duration::from_secs_f64(seconds));
        assert_eq!(
            [0.1, 89.0, 150.0, 9000.0].map(roughly),
            ["about 1 second", "about 89 seconds", "about 2 minutes", "about 2.5 hours"]
        );
    }
}
