// SPDX-License-Identifier: MIT
//! Where on a curve another allocator becomes better than hakmem, or hakmem better than all others.

use crate::analysis::{self, Against, Measure};
use crate::results::Results;
use crate::stats::Difference;
use crate::sweep::Point;

/// Neighbours so near to each other are not looked between.
const NEAR_ENOUGH: f64 = 1.25;

/// Between two values of x that were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossover {
    /// Of the lower end.
    pub point: Point,
    pub low: u64,
    pub high: u64,
    /// Where the ratio to the best of the others would be 1, if its logarithm were straight between them.
    pub estimate: f64,
    /// Whether hakmem is the better one above.
    pub hakmem_above: bool,
    /// The best of the others on the side where hakmem is not.
    pub peer: String,
    /// There are values between the two, and at all of them the difference is within the noise.
    pub is_blurred: bool,
}

/// A value of x at which hakmem has a ratio to the best of the others.
struct Standing<'a> {
    point: &'a Point,
    ratio: f64,
    peer: String,
    is_noise: bool,
}

pub fn all(results: &Results) -> Vec<Crossover> {
    curves(results).iter().flat_map(|curve| of_curve(&standings(results, curve))).collect()
}

/// One point of each curve, in the order of the file.
pub fn curves(results: &Results) -> Vec<&Point> {
    let mut curves: Vec<&Point> = Vec::new();
    for point in results.rows.iter().filter_map(|row| row.sweep.as_ref()) {
        if !curves.iter().any(|other| other.is_on_curve_of(point)) {
            curves.push(point);
        }
    }
    curves
}

/// The one that tells most: where the ends are farthest from each other, and nothing was measured between.
pub fn widest(results: &Results, is_done: impl Fn(&Crossover) -> bool) -> Option<Crossover> {
    let width = |crossover: &Crossover| crossover.high as f64 / crossover.low as f64;
    let open = |crossover: &Crossover| !crossover.is_blurred && width(crossover) > NEAR_ENOUGH && !is_done(crossover);
    all(results).into_iter().filter(open).max_by(|a, b| width(a).total_cmp(&width(b)))
}

fn standings<'a>(results: &'a Results, curve: &Point) -> Vec<Standing<'a>> {
    let of_row = |row: &'a crate::results::Row| {
        let point = row.sweep.as_ref().filter(|point| point.is_on_curve_of(curve))?;
        let duel = analysis::duel(row, Measure::Sweep, Against::Best)?;
        Some(Standing { point, ratio: duel.ratio, peer: duel.peer, is_noise: duel.difference == Difference::Noise })
    };
    let mut standings: Vec<Standing> = results.rows.iter().filter_map(of_row).collect();
    standings.sort_by_key(|standing| standing.point.x);
    standings
}

/// From one value at which the difference is beyond the noise to the next such, where the better one changes.
fn of_curve(standings: &[Standing]) -> Vec<Crossover> {
    let decided: Vec<usize> = (0..standings.len()).filter(|index| !standings[*index].is_noise).collect();
    let crossing = |pair: &[usize]| {
        let (low, high) = (&standings[pair[0]], &standings[pair[1]]);
        let behind = [low, high].map(|standing| standing.ratio > 1.0);
        (behind[0] != behind[1]).then(|| {
            let logarithms = [low, high].map(|standing| (standing.point.x as f64).ln());
            let part = low.ratio.ln() / (low.ratio.ln() - high.ratio.ln());
            Crossover {
                point: low.point.clone(),
                low: low.point.x,
                high: high.point.x,
                estimate: (logarithms[0] + part * (logarithms[1] - logarithms[0])).exp(),
                hakmem_above: behind[0],
                peer: if behind[0] { low.peer.clone() } else { high.peer.clone() },
                is_blurred: pair[1] > pair[0] + 1,
            }
        })
    };
    decided.windows(2).filter_map(crossing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::row_of;
    use crate::results::{Kind, Row};

    fn results(points: &[(u64, f64, f64)]) -> Results {
        let mut results = Results::new(Kind::Bench, Vec::new(), 4);
        results.rows = points.iter().map(|(x, ours, theirs)| row(*x, *ours, *theirs)).collect();
        results
    }

    fn row(x: u64, ours: f64, theirs: f64) -> Row {
        let steady = |value: f64| [1.0, 1.01, 0.99, 1.0].map(|factor| factor * value);
        let shaken = [1.0, 1.0, 1.01, 0.99].map(|factor| factor * theirs);
        let mut row = row_of(&[("glibc", &steady(9.0)), ("hakmem", &steady(ours)), ("other", &shaken)]);
        let point = Point { sweep: "s".into(), axis: "bytes".into(), x, line: None, is_probe: false };
        row.sweep = Some(point);
        row
    }

    #[test]
    fn it_lies_between_two_values_that_tell() {
        // In any order; the better one changes between 100 and 400, and back between 400 and 1600.
        let results = results(&[(1600, 1.0, 2.0), (100, 1.0, 2.0), (400, 2.0, 1.0)]);
        let found = all(&results);
        let ends: Vec<(u64, u64, bool)> = found.iter().map(|one| (one.low, one.high, one.hakmem_above)).collect();
        assert_eq!(ends, [(100, 400, false), (400, 1600, true)]);
        assert!((found[0].estimate / 200.0 - 1.0).abs() < 0.02, "{}", found[0].estimate);
        assert_eq!(found[0].peer, "other");
        assert!(!found[0].is_blurred);
    }

    #[test]
    fn what_is_noise_is_no_crossover_and_is_not_looked_into() {
        let same = results(&[(100, 1.0, 2.0), (200, 1.0, 1.0), (400, 2.0, 1.0), (800, 2.0, 2.0)]);
        let found = all(&same);
        assert_eq!((found.len(), found[0].low, found[0].high, found[0].is_blurred), (1, 100, 400, true));
        assert_eq!(widest(&same, |_| false), None);
        assert!(all(&results(&[(100, 1.0, 2.0), (200, 1.0, 1.0)])).is_empty());
    }

    #[test]
    fn the_widest_is_looked_into_until_the_ends_are_near() {
        let two = results(&[(100, 1.0, 2.0), (400, 2.0, 1.0), (4000, 1.0, 2.0)]);
        assert_eq!(widest(&two, |_| false).map(|one| (one.low, one.high)), Some((400, 4000)));
        assert_eq!(widest(&two, |one| one.low == 400).map(|one| one.low), Some(100));
        assert_eq!(widest(&results(&[(100, 1.0, 2.0), (120, 2.0, 1.0)]), |_| false), None);
    }
}
