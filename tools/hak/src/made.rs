// SPDX-License-Identifier: MIT
//! Results for unit tests.

use crate::process::Usage;
use crate::results::{Column, Figure, Row, Sample};

/// Each allocator with the seconds of its rounds; everybody takes 10 MiB.
pub fn row_of(columns: &[(&str, &[f64])]) -> Row {
    let columns: Vec<(&str, Vec<(f64, f64)>)> = columns
        .iter()
        .map(|(name, seconds)| (*name, seconds.iter().map(|seconds| (*seconds, 10.0)).collect()))
        .collect();
    row_with(columns)
}

/// Each allocator with the seconds and MiB of its rounds.
pub fn row_with(columns: Vec<(&str, Vec<(f64, f64)>)>) -> Row {
    let column = |(name, rounds): (&str, Vec<(f64, f64)>)| {
        let mut column = Column::new(name);
        let sample = |(round, (seconds, mib)): (u32, (f64, f64))| Sample {
            round,
            figure: Some(seconds),
            memory_mib: mib,
            peak_tree_kib: None,
            memory_over_time: Vec::new(),
            latency: Default::default(),
            memories: Default::default(),
            usage: Usage {
                wall_seconds: seconds,
                user_seconds: seconds,
                system_seconds: 0.0,
                peak_kib: (mib * 1024.0) as u64,
                minor_faults: 1,
                major_faults: 0,
            },
        };
        column.samples = (1..).zip(rounds).map(sample).collect();
        column
    };
    Row {
        name: "made".into(),
        family: "made".into(),
        kind: "program".into(),
        threads: 1,
        command: vec!["made".into()],
        parameters: Default::default(),
        figure: Some(Figure { key: "wall_seconds".into(), more_is_better: false }),
        memory: "peak resident memory".into(),
        huge_pages: None,
        not_run: None,
        alone: None,
        beside: None,
        sweep: None,
        took_seconds: None,
        columns: columns.into_iter().map(column).collect(),
    }
}
