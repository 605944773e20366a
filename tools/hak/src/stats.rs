// SPDX-License-Identifier: MIT
//! The statistics of a few samples: how many times as much one thing takes as another, and is it noise.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

/// Of the intervals that reports show.
pub const CONFIDENCE: f64 = 0.95;

/// Of fewer logarithms the t distribution's interval says more about their distribution than about them.
pub const MIN_ROUNDS: usize = 4;

/// Of so many rounds one at each end is left out: a disturbance of the machine should not decide.
const TRIMMED: usize = 8;

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
    /// Too few rounds to tell, though all of them agree.
    Unknown,
}

/// How many times as much one took as the other, round by round, as logarithms in ascending order.
///
/// Both ran in the same minute of the machine, so what disturbed that round has met both, and their
/// ratio is steadier than either.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios(Vec<f64>);

/// A ratio and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    pub fn around(logarithm: f64, half: f64) -> Estimate {
        Estimate { ratio: logarithm.exp(), low: (logarithm - half).exp(), high: (logarithm + half).exp() }
    }

    /// Half of the interval.
    pub fn uncertainty(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    pub fn contains_one(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }

    /// Of the logarithm, which is the same to both sides.
    pub fn half(&self) -> f64 {
        (self.high / self.low).ln() / 2.0
    }
}

/// What rounds say of a ratio.
pub trait Evidence {
    fn rounds(&self) -> usize;

    fn ratio(&self) -> f64;

    /// How far the interval of the ratio's logarithm reaches to each side if there are so many rounds, and they
    /// go on to differ as they did. `None` of a single round, which says nothing of that.
    fn half(&self, rounds: usize, confidence: f64) -> Option<f64>;

    fn estimate(&self, confidence: f64) -> Option<Estimate> {
        Some(Estimate::around(self.ratio().ln(), self.half(self.rounds(), confidence)?))
    }

    /// How many rounds there have to be for an interval of the logarithm that reaches no further than
    /// `half` to each side; `None` if `most` would not do.
    fn rounds_for(&self, half: f64, confidence: f64, most: usize) -> Option<usize> {
        let suffice = |rounds: usize| self.half(rounds, confidence).unwrap_or(0.0) <= half;
        let least = self.rounds().max(MIN_ROUNDS);
        if suffice(least) {
            return Some(least);
        }
        let (mut too_few, mut enough) = (least, most);
        while too_few + 1 < enough {
            let middle = too_few.midpoint(enough);
            if suffice(middle) { enough = middle } else { too_few = middle }
        }
        (enough > least && suffice(enough)).then_some(enough)
    }
}

impl Evidence for Ratios {
    fn rounds(&self) -> usize {
        self.0.len()
    }

    /// The geometric mean of the rounds' ratios, without those at the ends.
    fn ratio(&self) -> f64 {
        self.centre().exp()
    }

    fn half(&self, rounds: usize, confidence: f64) -> Option<f64> {
        (self.rounds() >= 2).then(|| half_width(self.deviation(), rounds, confidence))
    }
}

/// Of the rounds that both have: (round, value, base).
pub fn pairs(values: &[(u32, f64)], base: &[(u32, f64)]) -> Vec<(u32, f64, f64)> {
    let partner = |round: u32| base.iter().find(|(other, _)| *other == round).map(|(_, value)| *value);
    values.iter().filter_map(|&(round, value)| Some((round, value, partner(round)?))).collect()
}

impl Ratios {
    /// Of the rounds that both have. `None` where a ratio would have no meaning: of something to nothing.
    pub fn paired(values: &[(u32, f64)], base: &[(u32, f64)]) -> Option<Ratios> {
        let logarithm = |(_, value, base): (u32, f64, f64)| match (value > 0.0, base > 0.0) {
            (true, true) => Some((value / base).ln()),
            (false, false) => Some(0.0),
            _ => None,
        };
        let mut logarithms = pairs(values, base).into_iter().map(logarithm).collect::<Option<Vec<f64>>>()?;
        logarithms.sort_by(f64::total_cmp);
        (!logarithms.is_empty()).then_some(Ratios(logarithms))
    }

    pub fn difference(&self) -> Difference {
        if self.rounds() < MIN_ROUNDS {
            let agree = self.0.iter().all(|log| *log > 0.0) || self.0.iter().all(|log| *log < 0.0);
            return if agree { Difference::Unknown } else { Difference::Noise };
        }
        match self.estimate(CONFIDENCE) {
            Some(estimate) if !estimate.contains_one() => Difference::Real,
            _ => Difference::Noise,
        }
    }

    fn centre(&self) -> f64 {
        let cut = self.rounds() / TRIMMED;
        self.0[cut..self.rounds() - cut].mean()
    }

    /// With those that are left out moved to the nearest that is not (winsorized).
    fn deviation(&self) -> f64 {
        let cut = self.rounds() / TRIMMED;
        let (least, most) = (self.0[cut], self.0[self.rounds() - 1 - cut]);
        self.0.iter().map(|log| log.clamp(least, most)).std_dev()
    }
}

/// Of a trimmed mean (Tukey and McLaughlin, "Less vulnerable confidence and significance procedures
/// for location based on a single sample", Sankhya A 25, 1963). With nothing left out it is Student's.
fn half_width(deviation: f64, rounds: usize, confidence: f64) -> f64 {
    let kept = rounds - 2 * (rounds / TRIMMED);
    if deviation == 0.0 {
        return 0.0;
    }
    quantile((kept - 1) as f64, confidence) * deviation * (rounds as f64).sqrt() / kept as f64
}

/// Of Student's t: so many standard errors to each side.
pub fn quantile(freedom: f64, confidence: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom)
        .map_or(f64::INFINITY, |distribution| distribution.inverse_cdf(0.5 + confidence / 2.0))
}

/// What the reports say about the test.
pub fn how_noise_is_told() -> String {
    format!(
        "Noise: the {:.0} % confidence interval of the ratio contains 1 (Student's t on the logarithms of the rounds' \
         ratios, paired by round; of eight rounds and more the highest and lowest eighth are left out; without \
         correction for the number of comparisons). It needs at least {MIN_ROUNDS} rounds; with fewer, ratios that \
         do not agree on a side are noise, and of others it is not known ('?').",
        CONFIDENCE * 100.0
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

    fn rounds(values: &[f64]) -> Vec<(u32, f64)> {
        (1..).zip(values.iter().copied()).collect()
    }

    fn ratios(values: &[f64], base: &[f64]) -> Ratios {
        Ratios::paired(&rounds(values), &rounds(base)).unwrap()
    }

    /// Ratios whose logarithms are these.
    fn of_logarithms(logarithms: &[f64]) -> Ratios {
        let values: Vec<f64> = logarithms.iter().map(|log| log.exp()).collect();
        ratios(&values, &vec![1.0; values.len()])
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[2.0, 3.0]).unwrap().spread(), 0.4);
    }

    #[test]
    fn rounds_are_paired_by_their_numbers() {
        let paired = Ratios::paired(&[(1, 2.0), (2, 8.0), (4, 9.0)], &[(2, 4.0), (1, 1.0), (3, 7.0)]).unwrap();
        assert_eq!(paired, Ratios(vec![2f64.ln(), 2f64.ln()]));
        assert_eq!(Ratios::paired(&[(1, 2.0)], &[(2, 2.0)]), None);
        // Of nothing and nothing the ratio is 1; something to nothing has none.
        assert_eq!(ratios(&[0.0, 1.0], &[0.0, 1.0]), Ratios(vec![0.0, 0.0]));
        assert_eq!(Ratios::paired(&[(1, 1.0)], &[(1, 0.0)]), None);
    }

    /// What disturbs a round meets both of its runs: unpaired, these overlap altogether.
    #[test]
    fn a_difference_is_told_through_a_disturbance_of_both() {
        let base = [1.0, 3.0, 2.0, 5.0, 1.5];
        let values = base.map(|value| value * 0.9);
        assert_eq!(ratios(&values, &base).difference(), Difference::Real);
        let shuffled = [values[1], values[0], values[3], values[2], values[4]];
        assert_eq!(ratios(&shuffled, &base).difference(), Difference::Noise);
    }

    #[test]
    fn four_rounds_suffice_to_tell_a_difference_and_three_do_not() {
        let base = [1.0; 4];
        assert_eq!(ratios(&[2.0, 2.1, 2.2, 2.3], &base).difference(), Difference::Real);
        assert_eq!(ratios(&[2.0, 2.1, 2.2], &base).difference(), Difference::Unknown);
        assert_eq!(ratios(&[2.0, 2.1, 0.9], &base).difference(), Difference::Noise);
        assert_eq!(ratios(&[1.1, 0.9, 1.0, 1.05], &base).difference(), Difference::Noise);
        // Counts of pages are often all the same.
        assert_eq!(ratios(&[2.0; 4], &base).difference(), Difference::Real);
        assert_eq!(ratios(&base, &base).difference(), Difference::Noise);
    }

    /// Quantiles from the table in the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
    #[test]
    fn intervals_are_those_of_students_t() {
        // Mean 0.2, standard deviation sqrt(0.02/3), t(0.975, 3) = 3.182.
        let estimate = of_logarithms(&[0.1, 0.2, 0.2, 0.3]).estimate(0.95).unwrap();
        let half = 3.182 * (0.02f64 / 3.0).sqrt() / 2.0;
        assert!((estimate.ratio - 0.2f64.exp()).abs() < 1e-12, "{estimate:?}");
        assert!((estimate.half() - half).abs() < 1e-4, "{estimate:?}");
        let wider = of_logarithms(&[0.1, 0.2, 0.2, 0.3]).estimate(0.99).unwrap();
        assert!((wider.half() / half - 5.841 / 3.182).abs() < 1e-3, "{wider:?}");
        assert_eq!(of_logarithms(&[0.1]).estimate(0.95), None);
    }

    #[test]
    fn a_disturbed_round_of_nine_does_not_decide() {
        let quiet = [-0.13, -0.12, -0.11, -0.12, -0.13, -0.12, -0.11, -0.12];
        let mut disturbed = quiet.to_vec();
        disturbed.push(1.5);
        let estimate = of_logarithms(&disturbed).estimate(0.95).unwrap();
        assert!((estimate.ratio - (-0.12f64).exp()).abs() < 0.01 && estimate.high < 0.92, "{estimate:?}");
        // Seven kept of nine, two of them moved to their neighbours; t(0.975, 6) = 2.447.
        let winsorized = [-0.13, -0.13, -0.12, -0.12, -0.12, -0.12, -0.11, -0.11, -0.11];
        let half = 2.447 * winsorized.std_dev() * 3.0 / 7.0;
        assert!((estimate.half() - half).abs() < 1e-5, "{estimate:?} {half}");
    }

    /// Pairs of runs of the same thing, whose ratios are scattered by 5 %.
    fn noise(seed: u64) -> impl Iterator<Item = f64> {
        let normal = statrs::distribution::Normal::new(0.0, 0.05).unwrap();
        // Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
        let next = |state: &u64| {
            let state = state ^ (state << 13);
            let state = state ^ (state >> 7);
            Some(state ^ (state << 17))
        };
        let states = std::iter::successors(Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), next).skip(10);
        states.map(move |state| normal.inverse_cdf((state >> 11) as f64 / (1u64 << 53) as f64))
    }

    #[test]
    fn no_difference_is_found_where_there_is_none_but_in_one_of_twenty_cases() {
        for rounds in [4, 9, 20] {
            let found = |seed: &u64| {
                let logarithms: Vec<f64> = noise(*seed).take(rounds).collect();
                of_logarithms(&logarithms).difference() == Difference::Real
            };
            let cases = (1..=2000u64).filter(found).count();
            assert!((60..=150).contains(&cases), "{cases} of 2000 at {rounds} rounds");
        }
    }

    #[test]
    fn the_rounds_that_would_do_are_foreseen() {
        let noisy = of_logarithms(&[-0.1, 0.1, -0.1, 0.1, -0.1, 0.1]);
        let needed = noisy.rounds_for(0.05, 0.95, 10_000).unwrap();
        let half = |rounds: usize| half_width(noisy.deviation(), rounds, 0.95);
        assert!(half(needed) <= 0.05 && half(needed - 1) > 0.05, "{needed}");
        // Half the width takes four times the rounds.
        let fine = noisy.rounds_for(0.0125, 0.95, 10_000).unwrap();
        assert!((12..=18).contains(&(fine / needed)), "{needed} {fine}");
        assert_eq!(noisy.rounds_for(0.0125, 0.95, 50), None);
        assert_eq!(of_logarithms(&[0.1]).rounds_for(0.01, 0.95, 50), Some(MIN_ROUNDS));
    }

    #[test]
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
    }
}
