// SPDX-License-Identifier: MIT
//! The statistics of a few samples.

use statrs::stats_tests::Alternative;
use statrs::stats_tests::mannwhitneyu::{MannWhitneyUMethod, mannwhitneyu};

pub const ALPHA: f64 = 0.05;

/// Two groups of three that do not overlap still have p = 0.1; of four, p = 0.029.
pub const MIN_SAMPLES: usize = 4;

/// Above this many samples in both groups the normal approximation is good.
const MAX_EXACT: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Summary {
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            min: *sorted.first()?,
            median: (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0,
            max: *sorted.last()?,
        })
    }

    /// From the smallest to the largest, as a part of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            return 0.0;
        }
        (self.max - self.min) / self.median
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    Real,
    Noise,
    /// Too few samples for the test, though they do not overlap.
    Unknown,
}

/// The Mann-Whitney U test, two-sided: could both groups be samples of the same?
pub fn difference(a: &[f64], b: &[f64]) -> Difference {
    if a.iter().chain(b).all(|x| *x == a[0]) {
        return Difference::Noise;
    }
    if a.len() < MIN_SAMPLES || b.len() < MIN_SAMPLES {
        return if overlap(a, b) { Difference::Noise } else { Difference::Unknown };
    }
    if p_value(a, b) < ALPHA { Difference::Real } else { Difference::Noise }
}

fn p_value(a: &[f64], b: &[f64]) -> f64 {
    if a.len() + b.len() <= MAX_EXACT {
        return exact_p_value(a, b);
    }
    let method = MannWhitneyUMethod::AsymptoticInclContinuityCorrection;
    mannwhitneyu(a, b, method, Alternative::TwoSided).map_or(1.0, |(_, p)| p)
}

/// Of all ways to choose the ranks of `a`, the part whose sum is at least as far from the expected one.
///
/// Not the library's exact method: in statrs 0.19.1 that gives the complement when the groups are of
/// one size, and it does not take ties, which counts of pages always have.
fn exact_p_value(a: &[f64], b: &[f64]) -> f64 {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let ranks: Vec<usize> = all.iter().map(|value| doubled_rank(*value, &all)).collect();

    // ways[k][s]: in how many ways k of the ranks looked at so far have the sum s.
    let total: usize = ranks.iter().sum();
    let mut ways = vec![vec![0f64; total + 1]; a.len() + 1];
    ways[0][0] = 1.0;
    for &rank in &ranks {
        for count in (0..a.len()).rev() {
            for sum in 0..=total - rank {
                ways[count + 1][sum + rank] += ways[count][sum];
            }
        }
    }
    let expected = a.len() * (all.len() + 1);
    let observed = ranks[..a.len()].iter().sum::<usize>().abs_diff(expected);
    let sums = ways[a.len()].iter().enumerate();
    let extreme: f64 = sums.filter(|(sum, _)| sum.abs_diff(expected) >= observed).map(|(_, ways)| ways).sum();
    extreme / ways[a.len()].iter().sum::<f64>()
}

/// Values that are equal share the mean of their ranks, so only its double is a whole number.
fn doubled_rank(value: f64, all: &[f64]) -> usize {
    let below = all.iter().filter(|other| **other < value).count();
    let equal = all.iter().filter(|other| **other == value).count();
    2 * below + equal + 1
}

fn overlap(a: &[f64], b: &[f64]) -> bool {
    match (Summary::of(a), Summary::of(b)) {
        (Some(a), Some(b)) => a.min <= b.max && b.min <= a.max,
        _ => false,
    }
}

/// What the reports say about the test.
pub fn how_noise_is_told() -> String {
    format!(
        "Noise: the difference from the best is not significant (Mann-Whitney U test, two-sided, \
         alpha {ALPHA}, without correction for the number of comparisons). The test needs at least \
         {MIN_SAMPLES} rounds; with fewer, ranges that overlap are noise, and of others it is not known ('?')."
    )
}

/// `None` of nothing.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    Some((logarithms / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[2.0, 3.0]).unwrap().spread(), 0.4);
    }

    #[test]
    fn four_rounds_suffice_to_tell_a_difference_and_three_do_not() {
        let low = [1.0, 1.1, 1.2, 1.3];
        let high = [2.0, 2.1, 2.2, 2.3];
        assert_eq!(difference(&low, &high), Difference::Real);
        assert_eq!(difference(&low[..3], &high[..3]), Difference::Unknown);
        assert_eq!(difference(&low[..3], &[1.15, 5.0, 6.0]), Difference::Noise);
        assert_eq!(difference(&low, &[1.05, 1.15, 1.25, 1.35]), Difference::Noise);
        // Ties, as with pages and system calls.
        assert_eq!(difference(&[1.0; 4], &[2.0; 4]), Difference::Real);
        assert_eq!(difference(&[1.0; 4], &[1.0; 4]), Difference::Noise);
        assert_eq!(difference(&[1.0; 3], &[1.0; 3]), Difference::Noise);
    }

    /// The published example of SciPy's documentation (scipy.stats.mannwhitneyu): p = 0.1111.
    #[test]
    fn exact_p_values_are_those_of_the_literature() {
        let p = exact_p_value(&[19.0, 22.0, 16.0, 29.0, 24.0], &[20.0, 11.0, 17.0, 12.0]);
        assert!((p - 1.0 / 9.0).abs() < 1e-12, "{p}");
        let p = exact_p_value(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]);
        assert!((p - 2.0 / 70.0).abs() < 1e-12, "{p}");
        let swapped = exact_p_value(&[5.0, 6.0, 7.0, 8.0], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(p, swapped);
    }

    #[test]
    fn exact_and_approximate_p_values_agree_where_they_meet() {
        let a: Vec<f64> = (0..20).map(f64::from).collect();
        let b: Vec<f64> = (0..20).map(|i| f64::from(i) + 4.5).collect();
        let method = MannWhitneyUMethod::AsymptoticInclContinuityCorrection;
        let (_, approximate) = mannwhitneyu(&a, &b, method, Alternative::TwoSided).unwrap();
        let exact = exact_p_value(&a, &b);
        assert!((exact - approximate).abs() < 0.002, "{exact} {approximate}");
    }

    #[test]
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
    }
}
