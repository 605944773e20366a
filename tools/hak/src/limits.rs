// SPDX-License-Identifier: MIT
//! Limits of how much more hakmem may cost than what the user has today (`--fail-if`).

use std::fmt;
use std::str::FromStr;

use crate::allocators::{HAKMEM, SHIPPED, SYSTEM};
use crate::results::{Row, Sample};
use crate::stats::{Difference, Evidence, Ratios};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    metric: Metric,
    ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Metric {
    Time,
    Processor,
    User,
    System,
    Memory,
    Tree,
    Faults,
}

const METRICS: [(&str, Metric); 7] = [
    ("time", Metric::Time),
    ("processor", Metric::Processor),
    ("user", Metric::User),
    ("system", Metric::System),
    ("memory", Metric::Memory),
    ("tree", Metric::Tree),
    ("faults", Metric::Faults),
];

impl Metric {
    /// Less is better for all of them.
    fn of(self, sample: &Sample) -> Option<f64> {
        let usage = &sample.usage;
        match self {
            Metric::Time => Some(usage.wall_seconds),
            Metric::Processor => Some(usage.processor_seconds()),
            Metric::User => Some(usage.user_seconds),
            Metric::System => Some(usage.system_seconds),
            Metric::Memory => Some(usage.peak_kib as f64),
            Metric::Tree => sample.peak_tree_kib.map(|kib| kib as f64),
            Metric::Faults => Some((usage.minor_faults + usage.major_faults) as f64),
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let names = METRICS.map(|(name, _)| name).join(", ");
        let expected = || format!("expected METRIC>RATIO, such as time>1.05; METRIC is one of {names}");
        let (name, ratio) = text.split_once('>').ok_or_else(expected)?;
        let found = METRICS.iter().find(|(known, _)| *known == name.trim());
        let ratio = ratio.trim().parse().ok().filter(|ratio: &f64| ratio.is_finite() && *ratio > 0.0);
        match (found, ratio) {
            (Some((_, metric)), Some(ratio)) => Ok(Limit { metric: *metric, ratio }),
            _ => Err(expected()),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = METRICS.iter().find(|(_, metric)| *metric == self.metric).map_or("?", |(name, _)| name);
        write!(f, "{name}>{}", self.ratio)
    }
}

#[derive(Debug, PartialEq)]
pub enum Judgement {
    Kept,
    /// With the ratio.
    Exceeded(String),
    /// There is nothing to judge.
    Unknown(String),
}

impl Limit {
    /// hakmem against the program as shipped, or glibc where that is the same.
    pub fn judge(&self, row: &Row) -> Judgement {
        let values = |name: &str| {
            let column = row.column(name).filter(|column| column.counts())?;
            let values = column.samples.iter().filter_map(|sample| Some((sample.round, self.metric.of(sample)?)));
            Some(values.collect::<Vec<(u32, f64)>>()).filter(|values| !values.is_empty())
        };
        let baseline = if row.column(SHIPPED).is_some() { SHIPPED } else { SYSTEM };
        let (ours, theirs) = match (values(HAKMEM), values(baseline)) {
            (Some(ours), Some(theirs)) => (ours, theirs),
            (None, _) => return Judgement::Unknown(format!("there is no value of {HAKMEM}")),
            (_, None) => return Judgement::Unknown(format!("there is no value of {baseline}")),
        };
        let Some(ratios) = Ratios::paired(&ours, &theirs) else {
            return Judgement::Unknown(format!("{HAKMEM} and {baseline} have no ratio: one of them has none at all"));
        };
        if ratios.ratio() > self.ratio && ratios.difference() != Difference::Noise {
            return Judgement::Exceeded(format!("{HAKMEM} has {:.3} times {baseline}'s", ratios.ratio()));
        }
        Judgement::Kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Usage;
    use crate::results::Column;

    fn column(name: &str, seconds: &[f64]) -> Column {
        let usage = |wall_seconds| Usage {
            wall_seconds,
            user_seconds: 1.0,
            system_seconds: 0.0,
            peak_kib: 100,
            minor_faults: 1,
            major_faults: 0,
        };
        let sample = |(round, seconds): (u32, &f64)| Sample {
            round,
            figure: None,
            memory_mib: 1.0,
            latency: Default::default(),
            memories: Default::default(),
            usage: usage(*seconds),
            peak_tree_kib: None,
            memory_over_time: Vec::new(),
        };
        Column { samples: (1..).zip(seconds).map(sample).collect(), ..Column::new(name) }
    }

    fn row(columns: Vec<Column>) -> Row {
        Row {
            name: "program".into(),
            family: "compare".into(),
            kind: "program".into(),
            threads: 1,
            command: Vec::new(),
            parameters: Default::default(),
            figure: None,
            memory: String::new(),
            huge_pages: None,
            not_run: None,
            alone: None,
            beside: None,
            sweep: None,
            took_seconds: None,
            columns,
        }
    }

    fn judge(limit: &str, columns: Vec<Column>) -> Judgement {
        limit.parse::<Limit>().unwrap().judge(&row(columns))
    }

    #[test]
    fn a_limit_is_exceeded_beyond_the_ratio_and_beyond_the_noise() {
        let base = [1.0, 1.01, 1.02, 1.03, 1.04];
        let columns = |ours: &[f64]| vec![column("glibc", &base), column("hakmem", ours)];
        let slow = [1.2, 1.21, 1.22, 1.23, 1.24];
        assert_eq!(judge("time>1.05", columns(&slow)), Judgement::Exceeded("hakmem has 1.196 times glibc's".into()));
        assert_eq!(judge("time > 1.3", columns(&slow)), Judgement::Kept);
        assert_eq!(judge("user>1", columns(&slow)), Judgement::Kept, "it is the same");
        assert_eq!(judge("system>1", columns(&slow)), Judgement::Kept, "both have none");
        // The ratio is beyond the limit, but it could as well be 1.
        assert_eq!(judge("time>1.05", columns(&[0.9, 0.95, 1.1, 1.12, 1.2])), Judgement::Kept);
    }

    #[test]
    fn processor_time_is_the_users_and_the_systems() {
        let mut columns = vec![column("glibc", &[1.0; 5]), column("hakmem", &[1.0; 5])];
        for (sample, seconds) in columns[1].samples.iter_mut().zip([0.5, 0.51, 0.52, 0.53, 0.54]) {
            sample.usage.system_seconds = seconds;
        }
        assert_eq!(judge("processor>1.5", columns), Judgement::Exceeded("hakmem has 1.520 times glibc's".into()));
    }

    #[test]
    fn the_program_as_shipped_goes_before_glibc() {
        let with =
            |base: f64| vec![column(SHIPPED, &[base; 4]), column("glibc", &[1.0; 4]), column("hakmem", &[2.0; 4])];
        assert!(matches!(judge("time>1.5", with(1.0)), Judgement::Exceeded(_)));
        assert_eq!(judge("time>1.5", with(2.0)), Judgement::Kept);
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let unknown = |columns| match judge("tree>1", columns) {
            Judgement::Unknown(reason) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(unknown(vec![column("glibc", &[1.0])]), "there is no value of hakmem");
        assert_eq!(unknown(vec![column("glibc", &[1.0]), column("hakmem", &[1.0])]), "there is no value of hakmem");
        let failed = Column { failure: Some("it broke".into()), ..column("glibc", &[1.0]) };
        let limit: Limit = "time>1".parse().unwrap();
        let judgement = limit.judge(&row(vec![failed, column("hakmem", &[1.0])]));
        assert_eq!(judgement, Judgement::Unknown("there is no value of glibc".into()));
    }

    #[test]
    fn mistakes_are_named() {
        for text in ["time", "time<1", "speed>1", "time>x", "time>0", "time>inf", ">1"] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains("METRIC is one of time, processor, user"), "{text}: {error}");
        }
        assert_eq!("time>1.05".parse::<Limit>().unwrap().to_string(), "time>1.05");
    }
}
