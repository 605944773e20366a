// SPDX-License-Identifier: MIT
//! How sure a mean over rows is, of which each has rounds of its own.

use std::collections::BTreeMap;

use statrs::statistics::Statistics;

use crate::stats::{Estimate, Evidence, quantile};

/// Their scatter is then known to a part in sixty.
const RESAMPLES: usize = 2000;

/// The same rounds give the same interval.
const SEED: u64 = 1979;

/// The geometric mean of rows' ratios, each that of two allocators by the better half of their rounds.
///
/// How far it would be from here in other rounds is told by the bootstrap (Efron, "Bootstrap methods: another
/// look at the jackknife", Annals of Statistics 7, 1979): rounds are drawn anew from those that there were, with
/// all that ran in them, so that what disturbed a round goes with it. Of a few rounds that scatters too little by
/// (n-1)/n, and its interval is Student's: of a plain mean of rounds this is exactly what `Ratios` has.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanRatio {
    ratio: f64,
    /// The one of most rounds comes last.
    groups: Vec<Group>,
}

/// The rows that ran in the same rounds: what they add to the variance of the mean's logarithm.
#[derive(Debug, Clone, PartialEq)]
struct Group {
    rows: usize,
    rounds: usize,
    variance: f64,
}

/// Logarithms of what the rounds cost, with the places of the rounds, the smallest first.
type Costs = Vec<(usize, f64)>;

impl MeanRatio {
    /// Of each row what both cost in the rounds that both have: (round, one, the other).
    pub fn of(ratio: f64, rows: &[Vec<(u32, f64, f64)>]) -> MeanRatio {
        let mut groups: BTreeMap<(usize, Vec<u32>), Vec<[Costs; 2]>> = BTreeMap::new();
        for row in rows {
            let rounds: Vec<u32> = row.iter().map(|(round, ..)| *round).collect();
            groups.entry((rounds.len(), rounds)).or_default().push([costs(row, |row| row.1), costs(row, |row| row.2)]);
        }
        let mut random = fastrand::Rng::with_seed(SEED);
        let group = |((rounds, _), pairs): ((usize, Vec<u32>), Vec<[Costs; 2]>)| Group {
            rows: pairs.len(),
            rounds,
            variance: variance(&mut random, rounds, &pairs) / (rows.len() as f64).powi(2),
        };
        MeanRatio { ratio, groups: groups.into_iter().map(group).collect() }
    }

    pub fn rows(&self) -> usize {
        self.groups.iter().map(|group| group.rows).sum()
    }

    /// How many rows ran in one round only, which says nothing of their scatter.
    pub fn once(&self) -> usize {
        self.groups.iter().filter(|group| group.rounds < 2).map(|group| group.rows).sum()
    }
}

impl Evidence for MeanRatio {
    /// Of the rows that have most.
    fn rounds(&self) -> usize {
        self.groups.last().map_or(0, |group| group.rounds)
    }

    fn ratio(&self) -> f64 {
        self.ratio
    }

    /// Rows that have fewer rounds than others get no more.
    fn half(&self, rounds: usize, confidence: f64) -> Option<f64> {
        let most = self.rounds();
        let grown = |group: &Group| match group.rounds == most {
            true => Group { rounds, variance: group.variance * most as f64 / rounds as f64, ..*group },
            false => group.clone(),
        };
        let groups: Vec<Group> = self.groups.iter().map(grown).collect();
        half(&scatter(&groups)?, confidence)
    }
}

/// A part of the variance of a logarithm, and in how many degrees of freedom it is known.
type Scatter = (f64, f64);

/// `None` if no row ran more than once.
fn scatter(groups: &[Group]) -> Option<Vec<Scatter>> {
    let parts = groups.iter().filter(|group| group.rounds >= 2);
    let parts: Vec<Scatter> = parts.map(|group| (group.variance, (group.rounds - 1) as f64)).collect();
    (!parts.is_empty()).then_some(parts)
}

/// Of the sum of these parts. Degrees of freedom are Welch's ("The generalization of 'Student's' problem when
/// several different population variances are involved", Biometrika 34, 1947).
fn half(parts: &[Scatter], confidence: f64) -> Option<f64> {
    let variance: f64 = parts.iter().map(|(variance, _)| variance).sum();
    if !variance.is_finite() {
        return None;
    }
    if variance == 0.0 {
        return Some(0.0);
    }
    let shares = parts.iter().map(|(variance, freedom)| variance.powi(2) / freedom);
    Some(quantile(variance.powi(2) / shares.sum::<f64>(), confidence) * variance.sqrt())
}

/// How many times as large a ratio is as the same one of rounds at another time: both scatter, each in its own.
/// `None` if nothing is known of the scatter of one of them.
pub fn change(now: &MeanRatio, then: &MeanRatio, confidence: f64) -> Option<Estimate> {
    let parts = [scatter(&now.groups)?, scatter(&then.groups)?].concat();
    Some(Estimate::around((now.ratio / then.ratio).ln(), half(&parts, confidence)?))
}

fn costs(row: &[(u32, f64, f64)], of: impl Fn(&(u32, f64, f64)) -> f64) -> Costs {
    let mut costs: Costs = row.iter().map(|pair| of(pair).ln()).enumerate().collect();
    costs.sort_by(|a, b| a.1.total_cmp(&b.1));
    costs
}

/// Of the sum of the rows' logarithms.
fn variance(random: &mut fastrand::Rng, rounds: usize, pairs: &[[Costs; 2]]) -> f64 {
    if rounds < 2 {
        return 0.0;
    }
    let mut drawn = vec![0; rounds];
    let sums = (0..RESAMPLES).map(|_| {
        drawn.fill(0);
        (0..rounds).for_each(|_| drawn[random.usize(..rounds)] += 1);
        pairs.iter().map(|[one, other]| better_half(one, &drawn) - better_half(other, &drawn)).sum::<f64>()
    });
    sums.collect::<Vec<f64>>().population_variance() * rounds as f64 / (rounds - 1) as f64
}

/// The mean of the better half, which a row's value is (`analysis.rs`), of rounds that were drawn so many times.
fn better_half(costs: &Costs, drawn: &[usize]) -> f64 {
    let half = drawn.len().div_ceil(2);
    let mut left = half;
    let mut sum = 0.0;
    for (round, cost) in costs {
        let times = drawn[*round].min(left);
        if times > 0 {
            sum += cost * times as f64;
            left -= times;
        }
    }
    sum / half as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{CONFIDENCE, MIN_ROUNDS};
    use statrs::distribution::{ContinuousCDF, Normal};

    /// Of one row, in rounds from the first on.
    fn row(ours: &[f64], theirs: &[f64]) -> Vec<(u32, f64, f64)> {
        (1..).zip(ours.iter().zip(theirs)).map(|(round, (one, other))| (round, *one, *other)).collect()
    }

    fn of(rows: &[Vec<(u32, f64, f64)>]) -> MeanRatio {
        let value = |costs: Vec<f64>| crate::analysis::value_of(&costs, false).unwrap();
        let ratio = |row: &Vec<(u32, f64, f64)>| {
            value(row.iter().map(|pair| pair.1).collect()) / value(row.iter().map(|pair| pair.2).collect())
        };
        MeanRatio::of(crate::stats::geometric_mean(&rows.iter().map(ratio).collect::<Vec<_>>()).unwrap(), rows)
    }

    /// Factors whose logarithms are scattered by 5 %.
    fn noise(random: &mut fastrand::Rng, count: usize) -> Vec<f64> {
        let normal = Normal::new(0.0, 0.05).unwrap();
        (0..count).map(|_| normal.inverse_cdf(random.f64().max(1e-12)).exp()).collect()
    }

    /// As a machine is that does other work, too: a round can only be slower.
    fn delays(random: &mut fastrand::Rng, count: usize) -> Vec<f64> {
        (0..count).map(|_| random.f64().max(1e-12).powf(-0.05)).collect()
    }

    #[test]
    fn the_rounds_that_there_were_have_the_value_of_the_reports() {
        for costs in [&[5.0, 1.0, 3.0][..], &[2.0, 9.0, 4.0, 4.0], &[7.0]] {
            let sorted = super::costs(&row(costs, costs), |row| row.1);
            let value = better_half(&sorted, &vec![1; costs.len()]).exp();
            assert!((value - crate::analysis::value_of(costs, false).unwrap()).abs() < 1e-12, "{costs:?}");
        }
        // Of three that are drawn, one twice, two count.
        let sorted = super::costs(&row(&[5.0, 1.0, 3.0], &[1.0; 3]), |row| row.1);
        assert!((better_half(&sorted, &[1, 0, 2]) - 3f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn what_disturbs_a_round_of_both_is_no_uncertainty() {
        let base = [1.0, 3.0, 2.0, 5.0, 1.5];
        let paired = of(&[row(&base.map(|cost| cost * 0.9), &base), row(&base.map(|cost| cost * 0.8), &base)]);
        let estimate = paired.estimate(CONFIDENCE).unwrap();
        assert!((estimate.ratio - 0.72f64.sqrt()).abs() < 1e-12 && estimate.half() < 1e-9, "{estimate:?}");
        let shuffled = of(&[row(&[3.0, 1.0, 5.0, 2.0, 1.5].map(|cost| cost * 0.9), &base)]);
        assert!(shuffled.estimate(CONFIDENCE).unwrap().contains_one());
    }

    /// Of two rounds the better half is one: draws give the differences of both, and of each in a quarter.
    #[test]
    fn the_interval_is_students() {
        let (low, high) = (0.1f64.exp(), 0.3f64.exp());
        let two = of(&[row(&[low, high], &[1.0, 1.0])]);
        // 0.1 in three quarters of the draws: their variance is 0.04 * 3 / 16, here times 2 / (2 - 1);
        // t(0.975, 1) = 12.706 (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
        let expected = 12.706 * (0.04f64 * 3.0 / 16.0 * 2.0).sqrt();
        let half = two.half(2, 0.95).unwrap();
        assert!((half / expected - 1.0).abs() < 0.05, "{half} {expected}");
        assert_eq!(two, of(&[row(&[low, high], &[1.0, 1.0])]), "the same every time");
        // Twice the rows with the same scatter, all in the same rounds: as wide, since they go together.
        let both = of(&[row(&[low, high], &[1.0, 1.0]), row(&[low, high], &[1.0, 1.0])]);
        assert!((both.half(2, 0.95).unwrap() / half - 1.0).abs() < 1e-9);
    }

    #[test]
    fn no_difference_is_found_where_there_is_none_but_in_one_of_twenty_cases() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut found = |of_one: fn(&mut fastrand::Rng, usize) -> Vec<f64>, rounds: usize, rows: usize| {
            let mut row = || row(&of_one(&mut random, rounds), &of_one(&mut random, rounds));
            let cases = (0..400).map(|_| of(&(0..rows).map(|_| row()).collect::<Vec<_>>()));
            cases.filter(|case| !case.estimate(CONFIDENCE).unwrap().contains_one()).count()
        };
        for (rounds, rows) in [(4, 1), (4, 4), (9, 2)] {
            for (name, of_one) in [("noise", noise as fn(&mut fastrand::Rng, usize) -> _), ("delays", delays)] {
                let found = found(of_one, rounds, rows);
                // At least as sure as is said, and not so sure that nothing would ever be found.
                assert!((1..=30).contains(&found), "{name}: {found} of 400 at {rounds} rounds of {rows} rows");
            }
        }
    }

    #[test]
    fn a_change_is_found_through_the_scatter_of_both_times() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut found = |factor: f64, of_one: fn(&mut fastrand::Rng, usize) -> Vec<f64>, rounds: [usize; 2]| {
            let mut side = |rounds: usize, factor: f64| {
                let ours: Vec<f64> = of_one(&mut random, rounds).iter().map(|cost| cost * factor).collect();
                of(&[row(&ours, &of_one(&mut random, rounds))])
            };
            let cases = (0..400).map(|_| change(&side(rounds[0], factor), &side(rounds[1], 1.0), CONFIDENCE));
            cases.filter(|case| !case.unwrap().contains_one()).count()
        };
        for (name, of_one) in [("noise", noise as fn(&mut fastrand::Rng, usize) -> _), ("delays", delays)] {
            for rounds in [[4, 4], [9, 5]] {
                let none = found(1.0, of_one, rounds);
                assert!(none <= 30, "{name}: {none} of 400 at {rounds:?} rounds, and nothing had changed");
                let half = found(0.5, of_one, rounds);
                assert!(half >= 200, "{name}: {half} of 400 at {rounds:?} rounds, where it took half the time");
            }
        }
        let (quiet, once) = (of(&[row(&[0.5; 4], &[1.0; 4])]), of(&[row(&[0.5], &[1.0])]));
        assert_eq!(change(&quiet, &quiet, 0.95).unwrap().uncertainty(), 0.0);
        assert_eq!((change(&quiet, &once, 0.95), change(&once, &quiet, 0.95)), (None, None));
    }

    #[test]
    fn rows_of_fewer_rounds_keep_their_scatter() {
        let mut random = fastrand::Rng::with_seed(3);
        let quiet = |rounds: usize| row(&vec![0.5; rounds], &vec![1.0; rounds]);
        let noisy = |random: &mut fastrand::Rng, rounds| row(&noise(random, rounds), &noise(random, rounds));
        let mixed = of(&[quiet(9), noisy(&mut random, 3), quiet(1)]);
        assert_eq!((mixed.rows(), mixed.once(), mixed.rounds()), (3, 1, 9));
        assert!(mixed.half(9, 0.95).unwrap() > 0.0);
        assert_eq!(mixed.half(9, 0.95), mixed.half(900, 0.95), "more rounds are none of the row of three");
        assert_eq!(mixed.rounds_for(1e-6, 0.95, 10_000), None);
        let grows = of(&[noisy(&mut random, 6)]);
        let half = grows.half(6, 0.95).unwrap();
        let needed = grows.rounds_for(half / 4.0, 0.95, 10_000).unwrap();
        assert!((50..=100).contains(&needed), "{needed}: a quarter of the width takes some 16 times the rounds");
        // Nothing is known of a single round, and four that agree are sure.
        assert_eq!(of(&[quiet(1)]).estimate(0.95), None);
        assert_eq!(of(&[quiet(MIN_ROUNDS)]).half(MIN_ROUNDS, 0.95), Some(0.0));
    }
}
