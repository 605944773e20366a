// SPDX-License-Identifier: MIT
//! How many rounds a run of the suite has, and about how long they take.

use std::time::Duration;

use crate::cli::Bench;
use crate::results::Results;
use crate::suite::{Kind, Row};

/// `--quick` promises twelve minutes; the rest is for reading and writing.
const QUICK_BUDGET: Duration = Duration::from_secs(700);
const QUICK_ROUNDS: (u32, u32) = (4, 12);
const FULL_ROUNDS: u32 = 5;

/// What a run takes beside the program: free memory is warmed, files are made and read.
const AROUND_A_RUN: f64 = 0.03;

pub struct Plan {
    pub least: u32,
    pub most: u32,
    pub budget: Option<Duration>,
}

impl Plan {
    /// Where a run is to be compared with an earlier one, it has as many rounds as that.
    pub fn of(arguments: &Bench, against: Option<&Results>) -> Plan {
        let rounds = arguments.rounds.or_else(|| Some(against?.rounds.max(1)));
        match (rounds, arguments.quick) {
            (Some(rounds), _) => Plan { least: rounds, most: rounds, budget: None },
            (None, true) => Plan { least: QUICK_ROUNDS.0, most: QUICK_ROUNDS.1, budget: Some(QUICK_BUDGET) },
            (None, false) => Plan { least: FULL_ROUNDS, most: FULL_ROUNDS, budget: None },
        }
    }

    /// "12 rows under 3 allocators, 5 rounds: about 2 minutes", for one line before the measurement.
    pub fn describe(&self, rows: &[Row], allocators: usize) -> String {
        let rounds = match self.budget {
            Some(budget) => format!(
                "{} to {} rounds, as many as fit into {} minutes",
                self.least,
                self.most,
                budget.as_secs().div_ceil(60)
            ),
            None => format!("{} rounds", self.least),
        };
        let time = roughly(self.estimate(rows, allocators));
        format!("{} rows under {allocators} allocators, {rounds}: {time}", rows.len())
    }

    /// From what the suite says of its rows. On a machine that is twice as fast, it is half of that.
    fn estimate(&self, rows: &[Row], allocators: usize) -> Duration {
        let (least, most) = (seconds(rows, allocators, self.least), seconds(rows, allocators, self.most));
        let all = self.budget.map_or(most, |budget| most.min(budget.as_secs_f64()).max(least));
        Duration::from_secs_f64(all)
    }
}

/// In each round a row runs once under each allocator and once more, before them; programs also run once
/// under each for the proof.
fn seconds(rows: &[Row], allocators: usize, rounds: u32) -> f64 {
    let of_row = |row: &Row| {
        let rounds = row.max_rounds.map_or(rounds, |most| most.min(rounds)) as usize;
        let proofs = if row.kind == Kind::Program { allocators } else { 0 };
        (rounds * (allocators + 1) + proofs) as f64 * (row.seconds() + AROUND_A_RUN)
    };
    rows.iter().map(of_row).sum()
}

fn roughly(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..90.0 => format!("about {:.0} seconds", seconds.max(1.0)),
        ..5400.0 => format!("about {:.0} minutes", seconds / 60.0),
        _ => format!("about {:.1} hours", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    fn rows(text: &str) -> Vec<Row> {
        let row = |rest: &str| format!("[[row]]\nfamily='f'\ncommand=['x']\n{rest}\n");
        suite::parse(&text.split('/').map(row).collect::<String>()).unwrap()
    }

    #[test]
    fn every_run_of_a_row_is_counted() {
        let plan = |rounds| Plan { least: rounds, most: rounds, budget: None };
        let one = rows("name='a'\nkind='workload'\nseconds=1.97");
        assert_eq!(plan(5).describe(&one, 3), "1 rows under 3 allocators, 5 rounds: about 40 seconds");
        let limited = rows("name='a'\nkind='workload'\nseconds=1.97\nmax_rounds=2");
        assert_eq!(plan(5).estimate(&limited, 3), Duration::from_secs(16));
        let program = rows("name='a'\nkind='program'\nseconds=0.97/name='b'\nkind='workload'\nseconds=9.97");
        assert_eq!(plan(2).estimate(&program, 4), Duration::from_secs(10 + 4 + 100));
    }

    #[test]
    fn a_quick_run_takes_as_long_as_it_may() {
        let quick = Plan { least: 4, most: 12, budget: Some(Duration::from_secs(585)) };
        let of = |seconds: &str| quick.estimate(&rows(&format!("name='a'\nkind='workload'\nseconds={seconds}")), 9);
        assert_eq!(of("0.97"), Duration::from_secs(120), "all rounds fit");
        assert_eq!(of("9.97"), Duration::from_secs(585), "some");
        assert_eq!(of("29.97"), Duration::from_secs(1200), "not even the fewest");
    }

    #[test]
    fn times_are_told_roughly() {
        let roughly = |seconds| roughly(Duration::from_secs_f64(seconds));
        assert_eq!(
            [0.1, 89.0, 150.0, 9000.0].map(roughly),
            ["about 1 seconds", "about 89 seconds", "about 2 minutes", "about 2.5 hours"]
        );
    }
}
