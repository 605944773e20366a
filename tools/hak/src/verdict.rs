// SPDX-License-Identifier: MIT
//! The answer, in one sentence: is it worth to change the allocator of this program?

use crate::allocators::HAKMEM;
use crate::analysis::Measure;
use crate::baseline;
use crate::report::format;
use crate::results::Row;
use crate::stats::{CONFIDENCE, Estimate, Evidence, MIN_ROUNDS};

/// A difference of 2 % is none that anybody would change an allocator for.
const RESOLUTION: f64 = 0.02;

/// To see a difference of its true size in four of five cases, the interval has to be narrower than it.
const PART_OF_DIFFERENCE: f64 = 0.7;

/// More rounds than these are foretold to nobody.
const MOST_ROUNDS: usize = 10_000;

/// Looking again and again finds a difference in the end, even if there is none. At 99 %, ten looks
/// together are wrong in about 5 % of the cases (Pocock, "Group sequential methods in the design and
/// analysis of clinical trials", Biometrika 64, 1977).
const CONFIDENCE_OF_A_LOOK: f64 = 0.99;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    Different(Estimate),
    /// Neither is more than this part better.
    Same(f64),
    TooFew {
        /// `None`: no number of rounds that is worth naming.
        more: Option<u32>,
    },
}

/// One allocator against the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub allocator: String,
    pub baseline: String,
    /// Why there is no finding at all.
    pub failure: Option<String>,
    /// `None` where it is not what was measured.
    pub time: Option<Finding>,
    pub memory: Option<Finding>,
}

pub fn finding(ratios: Option<&impl Evidence>, confidence: f64) -> Finding {
    let Some(ratios) = ratios else {
        return Finding::TooFew { more: Some(MIN_ROUNDS as u32) };
    };
    let estimate = ratios.estimate(confidence).filter(|_| ratios.rounds() >= MIN_ROUNDS);
    match estimate {
        Some(estimate) if !estimate.contains_one() => Finding::Different(estimate),
        Some(estimate) if estimate.half() <= RESOLUTION => Finding::Same(estimate.half()),
        _ => {
            let wanted = (ratios.ratio().ln().abs() * PART_OF_DIFFERENCE).max(RESOLUTION);
            let needed = ratios.rounds_for(wanted, confidence, MOST_ROUNDS);
            Finding::TooFew { more: needed.map(|needed| (needed - ratios.rounds()).max(1) as u32) }
        }
    }
}

/// Of hakmem, or of all others where it is not there. Empty if there is nothing to compare with.
pub fn of(row: &Row) -> Vec<Verdict> {
    at(row, CONFIDENCE)
}

fn at(row: &Row, confidence: f64) -> Vec<Verdict> {
    let Some(base) = baseline::of(std::slice::from_ref(row)) else {
        return Vec::new();
    };
    let has_hakmem = row.column(HAKMEM).is_some();
    let asked = row.columns.iter().filter(|column| column.allocator != base);
    let asked = asked.filter(|column| !has_hakmem || column.allocator == HAKMEM);
    let verdict = |name: &str, failure: Option<&String>| {
        let of = |measure: Measure| Some(finding(measure.ratios(row, name, base).as_ref(), confidence));
        Verdict {
            allocator: name.into(),
            baseline: base.into(),
            failure: failure.cloned(),
            time: of(Measure::Time),
            memory: of(Measure::Memory),
        }
    };
    asked.map(|column| verdict(&column.allocator, column.failure.as_ref())).collect()
}

/// What is said where there is no verdict.
pub fn none(row: &Row) -> String {
    row.alone.clone().unwrap_or_else(|| "There is nothing to compare with.".into())
}

/// As many as the column that has the most.
pub fn rounds(row: &Row) -> usize {
    row.columns.iter().map(|column| column.samples.len()).max().unwrap_or(0)
}

/// How many rounds are worth to be run before one looks again; `None` once the verdict is sure, or if
/// there is nothing to judge. Each time there are at least half as many more, so that ten looks go far.
fn rounds_wanted(row: &Row) -> Option<u32> {
    let rounds = rounds(row) as u32;
    let verdicts = at(row, CONFIDENCE_OF_A_LOOK);
    let served = verdicts.iter().filter(|verdict| verdict.failure.is_none());
    let wanted = served.flat_map(Verdict::findings).filter_map(|finding| match finding {
        Finding::TooFew { more } => Some(more.unwrap_or(u32::MAX)),
        _ => None,
    });
    Some(wanted.max()?.clamp(rounds.div_ceil(2).max(1), rounds.max(MIN_ROUNDS as u32)))
}

/// When to look whether it is sure.
pub struct Looks {
    next: u32,
    most: u32,
}

impl Looks {
    /// First after so many rounds, and never after more than `most`.
    pub fn new(first: u32, most: u32) -> Looks {
        Looks { next: first, most: most.max(first) }
    }

    /// Asked after each round.
    pub fn are_enough(&mut self, row: &Row, round: u32) -> bool {
        if round >= self.next && round < self.most {
            self.next = rounds_wanted(row).map_or(round, |more| round.saturating_add(more).min(self.most));
        }
        round >= self.next
    }
}

impl Verdict {
    /// "hakmem: 12 % faster (± 3 %), 4 % more memory".
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.allocator, self.words())
    }

    /// Without the name.
    pub fn words(&self) -> String {
        use Finding::{Same, TooFew};
        if let Some(reason) = &self.failure {
            return format!("failed: {reason}");
        }
        let bound = |half: f64| format::percent(half.exp_m1());
        match (self.time, self.memory) {
            (Some(Same(time)), Some(Same(memory))) => {
                format!("no difference beyond the noise (± {})", bound(time.max(memory)))
            }
            (Some(TooFew { more: time }), Some(TooFew { more: memory })) => {
                not_enough(time.zip(memory).map(|(time, memory)| time.max(memory)), "")
            }
            (time, memory) => {
                let time = time.map(|finding| match finding {
                    Finding::Different(estimate) => format::time(&estimate),
                    Same(half) => format!("no difference in time beyond the noise (± {})", bound(half)),
                    TooFew { more } => not_enough(more, "for the time"),
                });
                let memory = memory.map(|finding| match finding {
                    Finding::Different(estimate) => format::memory(&estimate),
                    Same(_) if time.is_some() => "as much memory".into(),
                    Same(half) => format!("no difference in memory beyond the noise (± {})", bound(half)),
                    TooFew { more } => not_enough(more, "for the memory"),
                });
                time.into_iter().chain(memory).collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn findings(&self) -> impl Iterator<Item = Finding> + use<> {
        self.time.into_iter().chain(self.memory)
    }

    /// Whether all is known that the sentence could say.
    #[cfg(test)]
    fn is_sure(&self) -> bool {
        self.findings().all(|finding| !matches!(finding, Finding::TooFew { .. }))
    }
}

fn not_enough(more: Option<u32>, of_what: &str) -> String {
    let space = if of_what.is_empty() { "" } else { " " };
    match more {
        Some(more) => format!("not enough rounds{space}{of_what}: {more} more would tell"),
        None => format!("too much noise{space}{of_what}: even {MOST_ROUNDS} rounds would not tell"),
    }
}

/// What the sentence rests on.
pub fn footing(verdict: &Verdict, rounds: usize) -> String {
    let plural = if rounds == 1 { "round" } else { "rounds" };
    format!("Against {}, over {rounds} {plural}; {}", verdict.baseline, reading(""))
}

/// How the sentence is to be read. `remark` is about its interval.
pub fn reading(remark: &str) -> String {
    let percent = CONFIDENCE * 100.0;
    format!("± is the {percent:.0} % confidence interval{remark}. 10 % faster is a tenth less time.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{row_of, row_with};

    const STEADY: [f64; 9] = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99];

    fn row(times: &[f64], memory: f64) -> Row {
        let rounds = |times: &[f64], mib: f64| times.iter().map(|time| (*time, mib)).collect();
        row_with(vec![("glibc", rounds(&STEADY[..times.len()], 10.0)), ("hakmem", rounds(times, memory))])
    }

    fn sentence(row: &Row) -> String {
        of(row)[0].sentence()
    }

    /// Ratios to the steady baseline, in turn.
    fn times(ratios: &[f64]) -> Vec<f64> {
        STEADY.iter().zip(ratios.iter().cycle()).map(|(base, ratio)| base * ratio).collect()
    }

    #[test]
    fn differences_are_said_in_percent() {
        let faster = row(&times(&[0.85, 0.88, 0.91]), 10.4);
        assert_eq!(sentence(&faster), "hakmem: 12 % faster (± 3 %), 4 % more memory");
        let slower = row(&times(&[1.049, 1.05, 1.051]), 9.0);
        assert_eq!(sentence(&slower), "hakmem: 5.0 % slower (± 0.1 %), 10 % less memory");
        let far = row(&times(&[0.25]), 30.0);
        assert_eq!(sentence(&far), "hakmem: 4.00 times as fast, 3.00 times the memory");
        let behind = row(&times(&[2.4, 2.5, 2.6]), 4.0);
        assert_eq!(sentence(&behind), "hakmem: 2.50 times as slow (± 0.09), 60 % less memory");
    }

    #[test]
    fn no_difference_says_how_large_it_could_be() {
        let same = row(&times(&[0.99, 1.0, 1.01]), 10.0);
        let sentence = sentence(&same);
        assert!(sentence.starts_with("hakmem: no difference beyond the noise (± 0."), "{sentence}");
        assert!(of(&same)[0].is_sure());
        let memory = row(&times(&[0.99, 1.0, 1.01]), 12.0);
        let words = of(&memory)[0].words();
        assert!(words.starts_with("no difference in time beyond the noise (± 0."), "{words}");
        assert!(words.ends_with("%), 20 % more memory"), "{words}");
    }

    #[test]
    fn too_few_rounds_say_how_many_more() {
        let noisy = row(&times(&[0.8, 1.0, 1.3]), 10.4);
        let Some(Finding::TooFew { more: Some(more) }) = of(&noisy)[0].time else { panic!("{:?}", of(&noisy)) };
        assert!(more > 9, "{more}");
        let expected = format!("hakmem: not enough rounds for the time: {more} more would tell, 4 % more memory");
        assert_eq!(sentence(&noisy), expected);
        let three = row(&[0.5, 0.5, 0.5], 10.0);
        assert_eq!(sentence(&three), "hakmem: not enough rounds: 1 more would tell");
        let wild = row(&times(&[1e-3, 1.0, 1e3]), 10.0);
        assert!(sentence(&wild).contains("too much noise for the time"), "{}", sentence(&wild));
    }

    /// If the rounds go on as they did, those that were asked for suffice.
    #[test]
    fn as_many_rounds_as_were_foretold_tell() {
        let ratios = [0.8, 1.04, 1.05];
        let few = row(&times(&ratios), 10.0);
        let Some(Finding::TooFew { more: Some(more) }) = of(&few)[0].time else { panic!("{:?}", of(&few)) };
        let all: Vec<f64> = ratios.iter().cycle().copied().take(9 + more as usize).collect();
        let ones = vec![1.0; all.len()];
        let enough = row_of(&[("glibc", &ones), ("hakmem", &all)]);
        assert!(of(&enough)[0].is_sure(), "{more}: {:?}", of(&enough));
    }

    #[test]
    fn who_failed_gets_no_figures() {
        let mut row = row(&times(&[0.5]), 10.0);
        row.columns[1].failure = Some("round 3: killed".into());
        assert_eq!(sentence(&row), "hakmem: failed: round 3: killed");
        assert_eq!(rounds_wanted(&row), None);
    }

    #[test]
    fn without_hakmem_everybody_is_judged() {
        let one = row_of(&[("glibc", &STEADY), ("a", &STEADY), ("b", &times(&[0.5]))]);
        let names: Vec<String> = of(&one).into_iter().map(|verdict| verdict.allocator).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(of(&row_of(&[("glibc", &STEADY)])).is_empty());
    }

    #[test]
    fn one_looks_again_until_it_is_sure_or_the_bound_is_met() {
        let (sure, unsure) = (row(&times(&[0.5]), 10.0), row(&times(&[0.8, 1.0, 1.3]), 10.0));
        let ends =
            |rows: &dyn Fn(u32) -> Row, mut looks: Looks| (1..).find(|round| looks.are_enough(&rows(*round), *round));
        assert_eq!(ends(&|_| sure.clone(), Looks::new(9, 50)), Some(9));
        assert_eq!(ends(&|_| unsure.clone(), Looks::new(9, 50)), Some(50));
        assert_eq!(ends(&|_| unsure.clone(), Looks::new(9, 9)), Some(9), "nobody asked for more");
        assert_eq!(ends(&|_| unsure.clone(), Looks::new(20, 9)), Some(20));
        // Sure in the meantime, but looked at no sooner than it was to be.
        let later = |round| if round < 12 { unsure.clone() } else { sure.clone() };
        assert_eq!(ends(&later, Looks::new(9, 50)), Some(18));
    }

    #[test]
    fn more_rounds_are_wanted_until_it_is_sure() {
        assert_eq!(rounds_wanted(&row(&times(&[0.84, 0.88, 0.92]), 10.0)), None);
        assert_eq!(rounds_wanted(&row(&times(&[0.99, 1.0, 1.01]), 10.0)), None);
        // At least half as many more, and at most as many.
        let wanted = rounds_wanted(&row(&times(&[0.8, 1.0, 1.3]), 10.0)).unwrap();
        assert_eq!(wanted, 9);
        // Different at 95 %, but not at 99 %.
        let unsure = row(&times(&[0.92, 0.96, 1.0]), 10.0);
        assert!(matches!(of(&unsure)[0].time, Some(Finding::Different(_))), "{:?}", of(&unsure));
        assert!(rounds_wanted(&unsure).is_some_and(|rounds| (5..=9).contains(&rounds)));
    }
}
