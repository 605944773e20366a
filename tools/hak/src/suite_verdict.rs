// SPDX-License-Identifier: MIT
//! The suite's answer, in one sentence: hakmem over all rows.

use crate::allocators::HAKMEM;
use crate::analysis::{Against, Measure};
use crate::means;
use crate::resampling::MeanRatio;
use crate::results::Results;
use crate::stats::CONFIDENCE;
use crate::trace::text::count;
use crate::verdict::{self, Verdict};

/// `None` if there is nothing to compare, or no mean of it.
pub fn of(results: &Results) -> Option<Verdict> {
    let baseline = baseline(results)?;
    let finding = |ratio: MeanRatio| verdict::finding(Some(&ratio), CONFIDENCE);
    let [time, memory] = Measure::WITH_MEANS.map(|measure| ratio(results, measure, baseline).map(finding));
    (time.is_some() || memory.is_some()).then(|| Verdict {
        allocator: HAKMEM.into(),
        baseline: baseline.into(),
        failure: None,
        time,
        memory,
    })
}

/// What the sentence rests on.
pub fn footing(results: &Results, verdict: &Verdict) -> String {
    let ratios = Measure::WITH_MEANS.map(|measure| (measure, ratio(results, measure, &verdict.baseline)));
    let ratios: Vec<(Measure, MeanRatio)> =
        ratios.into_iter().filter_map(|(measure, ratio)| Some((measure, ratio?))).collect();
    let rows = ratios
        .iter()
        .map(|(measure, ratio)| format!("{} for the {}", count(ratio.rows() as u64, "row"), measure.name()));
    let once = ratios.iter().map(|(_, ratio)| ratio.once()).max().unwrap_or(0);
    let remark = match once {
        0 => String::new(),
        1 => ", in which 1 row that ran only once counts as certain".into(),
        _ => format!(", in which {once} rows that ran only once count as certain"),
    };
    format!(
        "Against {}, in the geometric mean of {}, over {}; {}",
        verdict.baseline,
        rows.collect::<Vec<_>>().join(" and "),
        count(results.rounds.into(), "round"),
        verdict::reading(&remark)
    )
}

fn baseline(results: &Results) -> Option<&str> {
    match Against::of(&results.rows, false) {
        Against::One(name) => Some(name),
        Against::Best => None,
    }
}

fn ratio(results: &Results, measure: Measure, baseline: &str) -> Option<MeanRatio> {
    means::ratio(results, measure, HAKMEM, baseline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{row_of, row_with};
    use crate::results::{Kind, Row};

    const STEADY: [f64; 5] = [1.0, 1.01, 0.99, 1.0, 1.01];

    fn suite(rows: Vec<Row>) -> Results {
        let mut results = Results::new(Kind::Bench, Vec::new(), 5);
        results.rows = rows;
        results
    }

    /// A row in which hakmem takes these times as much as glibc, in turn.
    fn row(times: &[f64], memory: f64) -> Row {
        let ours = STEADY.iter().zip(times.iter().cycle()).map(|(base, ratio)| (base * ratio, 10.0 * memory));
        row_with(vec![("glibc", STEADY.map(|base| (base, 10.0)).to_vec()), ("hakmem", ours.collect())])
    }

    fn sentence(results: &Results) -> String {
        of(results).unwrap().sentence()
    }

    #[test]
    fn the_answer_has_its_interval() {
        let apart = suite(vec![row(&[0.72, 0.79, 0.85], 1.1), row(&[0.9, 0.88, 0.8], 1.2)]);
        let said = sentence(&apart);
        let around =
            said.strip_prefix("hakmem: 20 % faster (± ").and_then(|rest| rest.split_once(" %), 15 % more memory"));
        let around: u32 = around.unwrap_or_else(|| panic!("{said}")).0.parse().unwrap();
        assert!((1..=15).contains(&around), "{said}");
        assert_eq!(
            footing(&apart, &of(&apart).unwrap()),
            "Against glibc, in the geometric mean of 2 rows for the time and 2 rows for the memory, over 5 rounds; ± is \
             the 95 % confidence interval. 10 % faster is a tenth less time."
        );
    }

    #[test]
    fn what_is_noise_is_not_said_as_a_difference() {
        let noisy = suite(vec![row(&[0.7, 1.0, 1.5], 1.0), row(&[1.3, 0.7, 1.1], 1.0)]);
        let said = sentence(&noisy);
        assert!(said.starts_with("hakmem: not enough rounds for the time: "), "{said}");
        assert!(said.ends_with(" more would tell, as much memory"), "{said}");
        assert!(
            sentence(&suite(vec![row(&[1.0], 1.0)])).starts_with("hakmem: no difference beyond the noise (± 0.0 %)")
        );
        let mut few = suite(vec![row(&[0.5], 2.0)]);
        few.rows[0].columns.iter_mut().for_each(|column| column.samples.truncate(3));
        assert_eq!(sentence(&few), "hakmem: not enough rounds: 1 more would tell");
    }

    #[test]
    fn rows_of_memory_alone_have_a_verdict_on_memory() {
        let mut rows = vec![row(&[1.0], 1.5), row(&[1.0], 1.5)];
        rows.iter_mut().flat_map(|row| &mut row.columns).flat_map(|column| &mut column.samples).for_each(|sample| {
            sample.figure = None;
        });
        rows[1].columns.iter_mut().for_each(|column| column.samples.truncate(1));
        let results = suite(rows);
        let verdict = of(&results).unwrap();
        assert_eq!(verdict.sentence(), "hakmem: 50 % more memory");
        let footing = footing(&results, &verdict);
        assert!(
            footing.starts_with("Against glibc, in the geometric mean of 2 rows for the memory, over"),
            "{footing}"
        );
        assert!(footing.contains("interval, in which 1 row that ran only once counts as certain."), "{footing}");
        let same = suite(vec![row(&[1.0], 1.0)]);
        let memory = Verdict { time: None, ..of(&same).unwrap() };
        assert_eq!(memory.sentence(), "hakmem: no difference in memory beyond the noise (± 0.0 %)");
    }

    #[test]
    fn without_hakmem_or_another_there_is_nothing_to_say() {
        assert_eq!(of(&suite(vec![row_of(&[("glibc", &STEADY), ("other", &STEADY)])])), None);
        assert_eq!(of(&suite(vec![row_of(&[("hakmem", &STEADY)])])), None);
        assert_eq!(of(&suite(Vec::new())), None);
    }
}
