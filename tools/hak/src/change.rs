// SPDX-License-Identifier: MIT
//! What a change did: hakmem in the rows of one file, beside the same rows of an earlier one.
//!
//! The two were measured at different times, and the machine may have been in another mood. What has not
//! changed tells that: the other allocators that both files have in the same version. So what is compared is
//! how many times as much as they hakmem took, then and now (a ratio of ratios). Memory is the same whatever
//! else the machine does, and is compared as it is.

use std::collections::BTreeSet;

use crate::allocators::{Allocator, HAKMEM};
use crate::analysis::{Measure, value_of};
use crate::resampling::{self, MeanRatio};
use crate::results::{Results, Row};
use crate::stats::{CONFIDENCE, Estimate, Evidence, MIN_ROUNDS, geometric_mean};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Better,
    Worse,
    Noise,
    /// Too few rounds to tell, though all of them agree.
    Unknown,
}

impl Effect {
    pub fn name(self) -> &'static str {
        match self {
            Effect::Better => "better",
            Effect::Worse => "worse",
            Effect::Noise => "noise",
            Effect::Unknown => "?",
        }
    }
}

/// One row in both files.
pub struct Change<'a> {
    pub row: &'a Row,
    pub then: f64,
    pub now: f64,
    /// How many times as much the other allocators take as they did; `None` where they are no measure.
    pub others: Option<f64>,
    pub ratio: f64,
    /// `None` of a row that ran only once in one of the files.
    pub estimate: Option<Estimate>,
    pub effect: Effect,
}

/// All rows that can be compared by one measure, the worst first.
pub struct Changes<'a> {
    pub measure: Measure,
    pub rows: Vec<Change<'a>>,
    /// Over all of them: their geometric mean. Only of measures that have means.
    pub mean: Option<Mean>,
}

pub struct Mean {
    pub ratio: f64,
    pub estimate: Option<Estimate>,
}

impl Changes<'_> {
    pub fn count(&self, effect: Effect) -> usize {
        self.rows.iter().filter(|row| row.effect == effect).count()
    }
}

/// What each round of a row cost: hakmem, and those that it is measured with; 1 if there are none.
type Rounds = Vec<(u32, f64, f64)>;

pub fn between<'a>(then: &Results, now: &'a Results, measure: Measure) -> Changes<'a> {
    let yardsticks = yardsticks(then, now, measure);
    let pairs = now.rows.iter().filter_map(|row| Some((comparable(then, row).ok()??, row)));
    let mut rows = Vec::new();
    let (mut all_then, mut all_now) = (Vec::new(), Vec::new());
    for (old, new) in pairs {
        let Some((change, [before, after])) = change(old, new, measure, &yardsticks) else { continue };
        rows.push(change);
        all_then.push(before);
        all_now.push(after);
    }
    let mean = (Measure::WITH_MEANS.contains(&measure) && !rows.is_empty()).then(|| {
        let [then, now] = [&all_then, &all_now].map(|rows| mean_of(rows));
        Mean { ratio: now.ratio() / then.ratio(), estimate: resampling::change(&now, &then, CONFIDENCE) }
    });
    rows.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    Changes { measure, rows, mean }
}

/// The row of the earlier file that is the same work; `Ok(None)` if it has none of that name.
pub fn comparable<'a>(then: &'a Results, row: &Row) -> Result<Option<&'a Row>, &'static str> {
    let Some(old) = then.rows.iter().find(|old| old.name == row.name) else { return Ok(None) };
    // What its figures are is known once it has run.
    let ran = [old, row].iter().all(|row| row.columns.iter().any(|column| column.counts()));
    let reasons = [
        (old.command != row.command, "its command is another"),
        (old.kind != row.kind || old.threads != row.threads, "it is another kind of row"),
        (ran && (old.memory != row.memory || old.figure != row.figure), "its figures are others"),
    ];
    match reasons.iter().find(|(differs, _)| *differs) {
        Some((_, reason)) => Err(reason),
        None => Ok(Some(old)),
    }
}

/// Whether hakmem has a value in any row: there is nothing to compare with otherwise.
pub fn has_hakmem(results: &Results) -> bool {
    results.rows.iter().any(|row| row.column(HAKMEM).is_some_and(|column| column.counts()))
}

/// The other allocators that are the same in both files.
pub fn unchanged<'a>(then: &Results, now: &'a Results) -> Vec<&'a str> {
    let same = |a: &Allocator, b: &Allocator| {
        let compilers = a.compiler.as_ref().zip(b.compiler.as_ref());
        a.name == b.name && a.version == b.version && compilers.is_none_or(|(one, other)| one == other)
    };
    let others = now.allocators.iter().filter(|allocator| allocator.name != HAKMEM);
    others
        .filter(|allocator| then.allocators.iter().any(|old| same(old, allocator)))
        .map(|allocator| allocator.name.as_str())
        .collect()
}

fn yardsticks<'a>(then: &Results, now: &'a Results, measure: Measure) -> Vec<&'a str> {
    if measure == Measure::Memory { Vec::new() } else { unchanged(then, now) }
}

fn change<'a>(old: &Row, new: &'a Row, measure: Measure, peers: &[&str]) -> Option<(Change<'a>, [Rounds; 2])> {
    let both = |name: &&&str| [old, new].iter().all(|row| has_all_rounds(row, name, measure));
    let peers: Vec<&str> = peers.iter().filter(both).copied().collect();
    let (before, after) = (rounds(old, measure, &peers)?, rounds(new, measure, &peers)?);
    let (then, now) = (mean_of(std::slice::from_ref(&before)), mean_of(std::slice::from_ref(&after)));
    let estimate = resampling::change(&now, &then, CONFIDENCE);
    let others = |rounds: &Rounds| cost_of(rounds, |round| round.2);
    let shown = |rounds: &Rounds, row| measure.value(row, cost_of(rounds, |round| round.1));
    let change = Change {
        row: new,
        then: shown(&before, old),
        now: shown(&after, new),
        others: (!peers.is_empty()).then(|| others(&after) / others(&before)),
        ratio: now.ratio() / then.ratio(),
        estimate,
        effect: effect(&before, &after, estimate),
    };
    Some((change, [before, after]))
}

fn effect(before: &Rounds, after: &Rounds, estimate: Option<Estimate>) -> Effect {
    let ratios = |rounds: &Rounds| rounds.iter().map(|round| round.1 / round.2).collect::<Vec<f64>>();
    let (then, now) = (ratios(before), ratios(after));
    if then.len() < MIN_ROUNDS || now.len() < MIN_ROUNDS {
        let below = |a: &[f64], b: &[f64]| a.iter().all(|one| b.iter().all(|other| one < other));
        return if below(&then, &now) || below(&now, &then) { Effect::Unknown } else { Effect::Noise };
    }
    match estimate {
        Some(estimate) if !estimate.contains_one() && estimate.ratio < 1.0 => Effect::Better,
        Some(estimate) if !estimate.contains_one() => Effect::Worse,
        _ => Effect::Noise,
    }
}

fn costs(row: &Row, name: &str, measure: Measure) -> Vec<(u32, f64)> {
    let column = row.column(name).filter(|column| column.counts());
    let costs = column.map_or_else(Vec::new, |column| measure.costs(row, column));
    costs.into_iter().filter(|(_, cost)| *cost > 0.0 && cost.is_finite()).collect()
}

fn has_all_rounds(row: &Row, name: &str, measure: Measure) -> bool {
    let of = |name: &str| costs(row, name, measure).iter().map(|(round, _)| *round).collect::<BTreeSet<u32>>();
    let theirs = of(name);
    !theirs.is_empty() && of(HAKMEM).is_subset(&theirs)
}

fn rounds(row: &Row, measure: Measure, peers: &[&str]) -> Option<Rounds> {
    let others: Vec<Vec<(u32, f64)>> = peers.iter().map(|name| costs(row, name, measure)).collect();
    let of_others = |round: u32| {
        let values = others.iter().flatten().filter(|(its, _)| *its == round).map(|(_, cost)| *cost);
        geometric_mean(&values.collect::<Vec<f64>>()).unwrap_or(1.0)
    };
    let rounds: Rounds =
        costs(row, HAKMEM, measure).into_iter().map(|(round, cost)| (round, cost, of_others(round))).collect();
    (!rounds.is_empty()).then_some(rounds)
}

/// As a row's value is: of the better half.
fn cost_of(rounds: &Rounds, of: impl Fn(&(u32, f64, f64)) -> f64) -> f64 {
    value_of(&rounds.iter().map(of).collect::<Vec<f64>>(), false).expect("there are rounds")
}

fn mean_of(rows: &[Rounds]) -> MeanRatio {
    let ratio = |rounds: &Rounds| cost_of(rounds, |round| round.1) / cost_of(rounds, |round| round.2);
    let ratio = geometric_mean(&rows.iter().map(ratio).collect::<Vec<f64>>()).expect("there are rows");
    MeanRatio::of(ratio, rows)
}

/// What else is not the same, one line each.
pub fn remarks(then: &Results, now: &Results) -> Vec<String> {
    let mut out = now.machine.differences(&then.machine);
    for (results, when) in [(then, "then"), (now, "now")] {
        out.extend(results.machine.busy().map(|warning| format!("{when}, {warning}")));
    }
    for allocator in &now.allocators {
        let Some(old) = then.allocators.iter().find(|old| old.name == allocator.name) else { continue };
        let (was, is) = (&old.compiler, &allocator.compiler);
        if let (Some(was), Some(is)) = (was, is)
            && was != is
        {
            out.push(format!("compiler of {}: {was} then, {is} now", allocator.name));
        }
        if old.version != allocator.version && allocator.name != HAKMEM {
            out.push(format!("{}: {} then, {} now: no measure", allocator.name, old.version, allocator.version));
        }
    }
    if unchanged(then, now).is_empty() {
        out.push("no other allocator is the same in both: the machine's mood counts as a change".into());
    }
    for (name, was) in &then.work {
        if now.work.get(name).is_some_and(|is| is != was) {
            out.push(format!("{name} is not the same file as then"));
        }
    }
    for row in &now.rows {
        if let Err(reason) = comparable(then, row) {
            out.push(format!("not compared: {}: {reason}", row.name));
        }
    }
    for (results, when) in [(then, "then"), (now, "now")] {
        for row in results.rows.iter().filter(|row| now.rows.iter().any(|other| other.name == row.name)) {
            if let Some(reason) = row.column(HAKMEM).and_then(|column| column.failure.as_ref()) {
                out.push(format!("not compared: {}: hakmem failed {when}, {reason}", row.name));
            }
        }
    }
    let without = |these: &Results, those: &Results| {
        these.rows.iter().filter(|row| those.rows.iter().all(|other| other.name != row.name)).count()
    };
    for (count, place) in [(without(then, now), "then"), (without(now, then), "now")] {
        if count > 0 {
            out.push(format!("rows that there are only {place}: {count}"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
