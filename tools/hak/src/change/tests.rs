// SPDX-License-Identifier: MIT

use super::*;
use crate::made::row_with;
use crate::results::{Figure, Kind, Row};

const STEADY: [f64; 4] = [1.0, 1.02, 0.99, 1.01];

fn suite(rows: Vec<Row>) -> Results {
    let allocator = |name: &str| Allocator {
        name: name.into(),
        version: "1".into(),
        library: None,
        source: "made".into(),
        environment: Default::default(),
        compiler: None,
        fingerprint: None,
    };
    let mut results = Results::new(Kind::Bench, ["glibc", "hakmem", "other"].map(allocator).into(), 4);
    results.rows = rows;
    results.machine.load = 0.0;
    results
}

/// What glibc, hakmem and another take in each round, all of it so many times on this day; hakmem's memory.
fn row(name: &str, hakmem: f64, day: f64, mib: f64) -> Row {
    let of = |each: f64, mib: f64| STEADY.iter().map(|one| (one * each * day, mib)).collect::<Vec<_>>();
    let mut row = row_with(vec![("glibc", of(1.0, 10.0)), ("hakmem", of(hakmem, mib)), ("other", of(2.0, 10.0))]);
    row.name = name.into();
    // Not in step with the others: there is a scatter.
    row.columns[1].samples[0].figure = row.columns[1].samples[0].figure.map(|figure| figure * 1.01);
    row
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 0.02
}

#[test]
fn a_slow_day_is_no_change() {
    let then = suite(vec![row("a", 0.5, 1.0, 10.0), row("b", 0.5, 1.0, 10.0)]);
    let now = suite(vec![row("a", 0.5, 1.4, 10.0), row("b", 0.4, 1.4, 12.0)]);
    let time = between(&then, &now, Measure::Time);
    let names: Vec<(&str, Effect)> = time.rows.iter().map(|row| (row.row.name.as_str(), row.effect)).collect();
    assert_eq!(names, [("a", Effect::Noise), ("b", Effect::Better)], "the worst first");
    assert!(near(time.rows[0].ratio, 1.0) && near(time.rows[1].ratio, 0.8));
    assert!(near(time.rows[0].others.unwrap(), 1.4) && near(time.rows[0].now / time.rows[0].then, 1.4));
    let mean = time.mean.as_ref().unwrap();
    assert!((mean.ratio - (time.rows[0].ratio * time.rows[1].ratio).sqrt()).abs() < 1e-9);
    assert!(mean.estimate.is_some_and(|estimate| !estimate.contains_one() && near(estimate.ratio, 0.8f64.sqrt())));
    assert_eq!((time.count(Effect::Better), time.count(Effect::Worse)), (1, 0));

    let memory = between(&then, &now, Measure::Memory);
    assert!(memory.rows.iter().all(|row| row.others.is_none()), "memory has no mood");
    assert_eq!((memory.rows[0].row.name.as_str(), memory.rows[0].effect), ("b", Effect::Worse));
    assert!(near(memory.rows[0].ratio, 1.2));
}

#[test]
fn only_what_is_the_same_is_a_measure() {
    let then = suite(vec![row("a", 0.5, 1.0, 10.0)]);
    let mut now = suite(vec![row("a", 0.5, 1.4, 10.0)]);
    now.allocators[0].version = "2".into();
    now.allocators[2].compiler = Some("cc 2".into());
    assert_eq!(unchanged(&then, &now), ["other"], "what one of the files does not tell is taken for the same");
    assert!(remarks(&then, &now).contains(&"glibc: 1 then, 2 now: no measure".into()));
    now.allocators[2].version = "2".into();
    let time = between(&then, &now, Measure::Time);
    assert!(time.rows[0].others.is_none() && near(time.rows[0].ratio, 1.4) && time.rows[0].effect == Effect::Worse);
    assert!(remarks(&then, &now).iter().any(|remark| remark.contains("the machine's mood counts")));
    // One that failed in a row is none there.
    let mut now = suite(vec![row("a", 0.5, 1.4, 10.0)]);
    now.rows[0].columns[0].failure = Some("it broke".into());
    now.rows[0].columns[2].samples.pop();
    assert!(between(&then, &now, Measure::Time).rows[0].others.is_none());
}

#[test]
fn operations_per_second_are_compared_by_what_one_costs() {
    let rate = |hakmem| {
        let mut row = row("a", hakmem, 1.0, 10.0);
        row.figure = Some(Figure { key: "ops_per_s".into(), more_is_better: true });
        suite(vec![row])
    };
    let (then, now) = (rate(1.0), rate(2.0));
    let time = between(&then, &now, Measure::Time);
    assert!(near(time.rows[0].ratio, 0.5) && near(time.rows[0].now / time.rows[0].then, 2.0));
    assert_eq!(time.rows[0].effect, Effect::Better);
}

#[test]
fn few_rounds_prove_nothing() {
    let then = suite(vec![row("a", 0.5, 1.0, 10.0)]);
    let few = |hakmem: f64, rounds: usize| {
        let mut now = suite(vec![row("a", hakmem, 1.0, 10.0)]);
        now.rows[0].columns.iter_mut().for_each(|column| column.samples.truncate(rounds));
        now
    };
    let effect = |now: &Results| between(&then, now, Measure::Time).rows[0].effect;
    assert_eq!(effect(&few(0.4, 3)), Effect::Unknown);
    assert_eq!(effect(&few(0.5, 3)), Effect::Noise);
    assert_eq!(effect(&few(0.4, 4)), Effect::Better);
    let once = few(0.4, 1);
    assert_eq!(between(&then, &once, Measure::Time).rows[0].estimate, None);
}

#[test]
fn what_is_other_work_is_not_compared() {
    let then = suite(vec![row("a", 0.5, 1.0, 10.0), row("b", 0.5, 1.0, 10.0), row("gone", 0.5, 1.0, 10.0)]);
    let mut now = suite(vec![row("a", 0.5, 1.0, 10.0), row("b", 0.5, 1.0, 10.0), row("new", 0.5, 1.0, 10.0)]);
    now.rows[1].command.push("--ops".into());
    now.machine.kernel = "Linux 99".into();
    now.machine.memory_mib += 1;
    let (mut then, mut now) = (then, now);
    then.work.insert("tool".into(), "1-aa".into());
    now.work.insert("tool".into(), "1-bb".into());
    assert_eq!(between(&then, &now, Measure::Time).rows.len(), 1);
    let remarks = remarks(&then, &now);
    let expected = [
        format!("kernel: {} then, Linux 99 now", then.machine.kernel),
        "tool is not the same file as then".into(),
        "not compared: b: its command is another".into(),
        "rows that there are only then: 1".into(),
        "rows that there are only now: 1".into(),
    ];
    assert_eq!(remarks, expected);
    now.rows[0].columns[1].failure = Some("round 3: it broke".into());
    assert!(between(&then, &now, Measure::Time).rows.is_empty());
    let said = "not compared: a: hakmem failed now, round 3: it broke".to_owned();
    assert!(super::remarks(&then, &now).contains(&said));
    now.machine.load = 9.0 * now.machine.cores as f64;
    assert!(super::remarks(&then, &now).iter().any(|remark| remark.starts_with("now, the machine is busy (load ")));
    now.rows.clear();
    assert!(between(&then, &now, Measure::Time).mean.is_none());
}
