// SPDX-License-Identifier: MIT
//! The result file: everything that was measured, sample by sample.
//!
//! A file is written after every round, of the suite after every row, so that an end at any time loses
//! little. Fields are only ever added within a version; a change of meaning makes a new version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::allocators::Allocator;
use crate::change;
use crate::commands::plan::Plan;
use crate::failure::{BAD_INPUT, failure};
use crate::files;
use crate::machine::Machine;
use crate::measure::Ran;
use crate::output::shown_safely;
use crate::process::Usage;
use crate::proof::Proof;
use crate::sweep::Point;

pub const FORMAT: &str = "hak results";
const VERSION: u32 = 1;

/// How the keys of latencies end.
pub const LATENCY: &str = "_us";

/// How the keys of sizes end.
pub const MEMORY: &str = "_mib";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    pub format: String,
    pub version: u32,
    pub kind: Kind,
    pub tool_version: String,
    /// Of the source tree that the suite and hakmem are from; `+` when it had changes.
    pub commit: Option<String>,
    pub machine: Machine,
    pub started: String,
    pub ended: Option<String>,
    pub state: State,
    pub quick: bool,
    pub rounds: u32,
    pub allocators: Vec<Allocator>,
    pub rows: Vec<Row>,
    /// What a run of the suite was to be. With it an interrupted one can go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// How long it has measured.
    #[serde(default)]
    pub spent_seconds: f64,
    /// The process that measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// All its rounds are done, and what is left is to look for crossovers.
    #[serde(default)]
    pub is_probing: bool,
    /// When it went on after an end before the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<String>,
    /// The fingerprint of the list of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Of the files that the suite runs: name and fingerprint. Of `hak bench` only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, String>,
    /// The file that it was read from.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Compare,
    Bench,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Running,
    Interrupted,
    Complete,
}

/// One program or workload, under every allocator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub family: String,
    pub kind: String,
    pub threads: u32,
    pub command: Vec<String>,
    /// What the command's parameters stood for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// `None` as long as nothing ran, and for rows that are about memory alone.
    pub figure: Option<Figure>,
    /// What `Sample::memory_mib` is.
    pub memory: String,
    /// The setting of transparent huge pages that its runs were under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<String>,
    pub not_run: Option<String>,
    /// Why it has only the column "as shipped": no other allocator can serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<String>,
    /// Its program has hakmem in itself, so that there is no other column: the row that does the same without that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Where it lies in a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Point>,
    /// What its latest round took under all allocators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_seconds: Option<f64>,
    pub columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub key: String,
    pub more_is_better: bool,
}

/// One allocator's part of a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Column {
    pub allocator: String,
    pub proof: Option<Proof>,
    /// Why it does not count. Samples from before the failure stay.
    pub failure: Option<String>,
    pub samples: Vec<Sample>,
    pub system_calls: Option<SystemCalls>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub round: u32,
    pub figure: Option<f64>,
    pub memory_mib: f64,
    /// All times of single calls in microseconds that the run has told, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latency: BTreeMap<String, f64>,
    /// All sizes of memory in MiB that the run has told, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memories: BTreeMap<String, f64>,
    pub usage: Usage,
    /// The largest sum over all processes at one time (`sampling.rs`). `None` of a run that was too short for a
    /// sample, and in files from before there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_tree_kib: Option<u64>,
    /// Milliseconds since the start, and the KiB that all processes had resident; of the first rounds only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_over_time: Vec<[u64; 2]>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemCalls {
    Counted(BTreeMap<String, u64>),
    Unknown(String),
}

impl Results {
    pub fn new(kind: Kind, allocators: Vec<Allocator>, rounds: u32) -> Results {
        Results {
            format: FORMAT.into(),
            version: VERSION,
            kind,
            tool_version: env!("CARGO_PKG_VERSION").into(),
            commit: crate::machine::commit(&crate::places::source()),
            machine: Machine::read(),
            started: now(),
            ended: None,
            state: State::Running,
            quick: false,
            rounds,
            allocators,
            rows: Vec::new(),
            plan: None,
            spent_seconds: 0.0,
            process: Some(std::process::id()),
            is_probing: false,
            resumed: Vec::new(),
            suite: None,
            work: BTreeMap::new(),
            file: None,
        }
    }

    pub fn end(&mut self, state: State) {
        self.state = state;
        self.ended = Some(now());
    }

    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    pub fn load(path: &Path) -> Result<Results> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let bad = |reason: String| failure(BAD_INPUT, format!("{}: {reason}", path.display()));
        let text = files::text(path).map_err(|error| bad(error.to_string()))?;
        let head: Head = serde_json::from_str(&text).map_err(|error| {
            let is_look = serde_json::from_str::<Value>(&text).is_ok_and(|value| value.get("committed").is_some());
            bad(match is_look {
                true => "not a result file of hak, but a look at a heap, which hak diff reads".into(),
                false => format!("not a result file of hak ({error})"),
            })
        })?;
        if head.format != FORMAT {
            return Err(bad(format!("not a result file of hak, but '{}'", head.format)));
        }
        if head.version > VERSION {
            return Err(bad(format!(
                "written by a newer hak: format version {}, and this one reads up to {VERSION}",
                head.version
            )));
        }
        let mut value: Value = serde_json::from_str(&text).map_err(|error| bad(format!("damaged: {error}")))?;
        make_safe(&mut value).map_err(|reason| bad(format!("damaged: {reason}")))?;
        let mut results: Results = serde_json::from_value(value).map_err(|error| bad(format!("damaged: {error}")))?;
        results.file = Some(path.to_path_buf());
        Ok(results)
    }

    /// Of an earlier run of the suite, which others are compared with.
    pub fn load_suite(path: &Path) -> Result<Results> {
        let results = Results::load(path)?;
        let bad = |reason: &str| Err(failure(BAD_INPUT, format!("{}: {reason}", path.display())));
        if results.kind != Kind::Bench {
            return bad("it is of hak compare; what is needed is a result file of hak bench");
        }
        if !change::has_hakmem(&results) {
            return bad("hakmem was not measured in it");
        }
        Ok(results)
    }

    /// What did not work, as one line each.
    pub fn failures(&self) -> Vec<String> {
        let columns = |row: &Row| {
            let name = row.name.clone();
            let failed = row.columns.iter().filter_map(move |column| {
                let reason = column.failure.as_ref()?;
                Some(format!("{name}, {}: {reason}", column.allocator))
            });
            failed.collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(columns).collect()
    }
}

impl Sample {
    /// Of a run that was measured. Its memory over time is kept up to the round `courses`: the same in each
    /// round, it would make up most of the file.
    pub fn new(round: u32, courses: u32, ran: &Ran, figure: Option<f64>, memory_mib: f64) -> Sample {
        let memory_over_time = if round <= courses { ran.memory.over_time.clone() } else { Vec::new() };
        Sample {
            round,
            figure,
            memory_mib,
            latency: BTreeMap::new(),
            memories: BTreeMap::new(),
            usage: ran.usage,
            peak_tree_kib: ran.memory.peak_tree_kib,
            memory_over_time,
        }
    }
}

impl Row {
    /// Whether its figure is the time of a single call, and not of all its work.
    pub fn is_latency(&self) -> bool {
        self.figure.as_ref().is_some_and(|figure| figure.key.ends_with(LATENCY))
    }

    pub fn column(&self, allocator: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.allocator == allocator)
    }
}

impl Column {
    pub fn new(allocator: &str) -> Column {
        Column { allocator: allocator.into(), proof: None, failure: None, samples: Vec::new(), system_calls: None }
    }

    pub fn counts(&self) -> bool {
        self.failure.is_none() && !self.samples.is_empty()
    }

    pub fn values(&self, of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        self.samples.iter().filter_map(of).collect()
    }
}

/// What a file says comes to terminals and charts: no text moves the cursor, and no number is so large that a sum of some is
/// infinite.
fn make_safe(value: &mut Value) -> std::result::Result<(), String> {
    const LARGEST: f64 = 1e300;
    match value {
        Value::String(text) => *text = shown_safely(text),
        Value::Number(number) if number.as_f64().is_some_and(|number| number.abs() > LARGEST) => {
            return Err(format!("{number} is no measured value"));
        }
        Value::Array(list) => list.iter_mut().try_for_each(make_safe)?,
        Value::Object(map) => map.values_mut().try_for_each(make_safe)?,
        _ => {}
    }
    Ok(())
}

pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
