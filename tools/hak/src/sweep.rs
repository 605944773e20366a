// SPDX-License-Identifier: MIT
//! Sweeps of the suite: one workload at many values of a parameter, of which each is a row.

use serde::{Deserialize, Serialize};

use crate::suite::Row;

/// What all their rows belong to. They have no part in the means, which are of programs.
pub const FAMILY: &str = "sweeps";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub name: String,
    /// A workload, with the keys of the axes in braces.
    pub command: Vec<String>,
    pub x: Axis,
    /// A curve for each of its values.
    pub line: Option<Axis>,
    pub max_rounds: Option<u32>,
    pub seconds: Option<f64>,
    /// What a run has resident, for each one of x; without so much free memory it does not run.
    #[serde(default)]
    pub bytes_per_x: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    pub name: String,
    /// In the command, `{key}` stands for the value divided by `per`.
    pub key: String,
    pub values: Vec<u64>,
    #[serde(default = "one")]
    pub per: u64,
}

fn one() -> u64 {
    1
}

/// Where a row lies, as result files have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub sweep: String,
    /// What x is.
    pub axis: String,
    pub x: u64,
    /// Which curve: its axis and value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<(String, u64)>,
    /// It was measured because a crossover lay beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_probe: bool,
}

impl Point {
    /// "size x batch, batch 64".
    pub fn curve(&self) -> String {
        match &self.line {
            Some((axis, value)) => format!("{}, {axis} {value}", self.sweep),
            None => self.sweep.clone(),
        }
    }

    pub fn is_on_curve_of(&self, other: &Point) -> bool {
        (&self.sweep, &self.line) == (&other.sweep, &other.line)
    }
}

impl Sweep {
    pub fn check(&self) -> Result<(), String> {
        let axes = || std::iter::once(&self.x).chain(&self.line);
        for axis in axes() {
            let key = format!("{{{}}}", axis.key);
            if !self.command.iter().any(|word| word.contains(&key)) {
                return Err(format!("sweep '{}': its command has no {key}", self.name));
            }
            let whole = |value: &u64| *value > 0 && axis.per > 0 && value.is_multiple_of(axis.per);
            if axis.values.is_empty() || !axis.values.iter().all(whole) || !axis.values.is_sorted_by(|a, b| a < b) {
                return Err(format!("sweep '{}': the values of {} have to rise from above 0", self.name, axis.key));
            }
        }
        Ok(())
    }

    pub fn rows(&self) -> Vec<Row> {
        let lines: Vec<Option<u64>> = match &self.line {
            Some(axis) => axis.values.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let of = |line: Option<u64>| self.x.values.iter().map(move |x| self.row(*x, line, false));
        lines.into_iter().flat_map(of).collect()
    }

    pub fn row(&self, x: u64, line: Option<u64>, is_probe: bool) -> Row {
        let line = self.line.as_ref().zip(line);
        let fill = |word: &String| {
            let word = word.replace(&format!("{{{}}}", self.x.key), &(x / self.x.per).to_string());
            match line {
                Some((axis, value)) => word.replace(&format!("{{{}}}", axis.key), &(value / axis.per).to_string()),
                None => word,
            }
        };
        let point = Point {
            sweep: self.name.clone(),
            axis: self.x.name.clone(),
            x,
            line: line.map(|(axis, value)| (axis.name.clone(), value)),
            is_probe,
        };
        let named =
            |axis: &Axis, value: u64| (axis.name == "threads").then(|| u32::try_from(value).unwrap_or(u32::MAX));
        let name = format!("{}: {} {x}", point.curve(), self.x.name);
        let mut row = Row::workload(name, FAMILY, self.command.iter().map(fill).collect(), self.seconds);
        row.threads = named(&self.x, x).unwrap_or(1);
        row.max_rounds = self.max_rounds;
        row.memory_mib = (x as f64 * self.bytes_per_x) as u64 >> 20;
        row.point = Some((self.clone(), point));
        row
    }

    /// A value between two on the same curve, the middle of their logarithms; `None` if there is none left.
    pub fn between(&self, low: u64, high: u64) -> Option<u64> {
        let middle = (low as f64 * high as f64).sqrt();
        let whole = (middle / self.x.per as f64).round() as u64 * self.x.per;
        (low < whole && whole < high).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use crate::suite::{self, Kind};

    const SWEEP: &str = "[[sweep]]\nname='size x batch'\ncommand=['pairs','--min','{size}','--batch','{batch}']\n\
                         x={name='bytes',key='size',values=[16,1024]}\n\
                         line={name='batch',key='batch',values=[1,8]}\n";

    #[test]
    fn every_value_of_every_curve_is_a_row() {
        let rows = suite::parse(SWEEP).unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names[..2], ["size x batch, batch 1: bytes 16", "size x batch, batch 1: bytes 1024"]);
        assert_eq!((names.len(), rows[3].kind), (4, Kind::Workload));
        assert_eq!(rows[3].command, ["pairs", "--min", "1024", "--batch", "8"]);
        let (sweep, point) = rows[3].point.as_ref().unwrap();
        let probe = sweep.row(128, Some(8), true);
        assert!(probe.point.as_ref().unwrap().1.is_on_curve_of(point));
        assert_eq!(probe.name, "size x batch, batch 8: bytes 128");
    }

    #[test]
    fn values_may_count_what_the_command_does_not() {
        let live = "[[sweep]]\nname='live bytes'\ncommand=['larson','--slots','{slots}']\nbytes_per_x=2.0\n\
                    x={name='bytes',key='slots',per=1000,values=[1000000,10000000]}\n";
        let rows = suite::parse(live).unwrap();
        assert_eq!(rows[1].command[2], "10000");
        assert_eq!(rows[1].memory_mib, 19);
        let sweep = &rows[1].point.as_ref().unwrap().0;
        assert_eq!(sweep.between(1_000_000, 10_000_000), Some(3_162_000), "blocks are whole");
        assert_eq!(sweep.between(1000, 2000), None);
        let threads = "[[sweep]]\nname='t'\ncommand=['x','{n}']\nx={name='threads',key='n',values=[1,8]}\n";
        assert_eq!(suite::parse(threads).unwrap()[1].threads, 8);
    }

    #[test]
    fn mistakes_are_named() {
        let bad = |from: &str, to: &str| suite::parse(&SWEEP.replace(from, to)).unwrap_err();
        assert!(bad("{size}", "16").contains("its command has no {size}"));
        assert!(bad("[16,1024]", "[16,16]").contains("the values of size have to rise"));
        assert!(bad("[1,8]", "[]").contains("the values of batch have to rise"));
        assert!(bad("line=", "curve=").contains("curve"));
    }
}
