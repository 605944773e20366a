// SPDX-License-Identifier: MIT
//! Reads bench/suite.toml: the rows of the benchmark.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use crate::failure::{BAD_INPUT, failure};
use crate::files;
use crate::fingerprint;
use crate::huge_pages::Setting;
use crate::places::{self, Build};
use crate::sweep::{Point, Sweep};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A program of bench/workloads: prints its figure and who served it.
    Workload,
    /// Any program: its wall time is the figure, and the tool proves who served it.
    Program,
    /// A script that starts something under the allocator itself and prints as a workload does.
    Driver,
    /// A file of `hak trace`, whose calls are made again.
    Replay,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Workload => "workload",
            Kind::Program => "program",
            Kind::Driver => "driver",
            Kind::Replay => "replay",
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub name: String,
    pub family: String,
    pub kind: Kind,
    pub command: Vec<String>,
    #[serde(default = "one")]
    pub threads: u32,
    #[serde(default)]
    pub quick: bool,
    pub max_rounds: Option<u32>,
    pub prepare: Option<Vec<String>>,
    pub directory: Option<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    #[serde(default)]
    pub needs: Vec<String>,
    /// The system's setting of transparent huge pages to run under, if not the one that is there.
    pub huge_pages: Option<Setting>,
    /// Of a program: it is so short that its time would be noise, and only its memory counts.
    #[serde(default)]
    pub memory_only: bool,
    /// hakmem is in the program itself, and no other allocator can serve it: the row that does the same without that.
    pub beside: Option<String>,
    /// What a run takes under the C library's malloc on the machine that the suite was measured on.
    seconds: Option<f64>,
    #[serde(default = "usual_timeout")]
    timeout_seconds: f64,
    /// It needs so much free memory.
    #[serde(skip)]
    pub memory_mib: u64,
    /// Of which sweep it is a part, and where in it.
    #[serde(skip)]
    pub point: Option<(Sweep, Point)>,
}

/// Most rows are made to take as long under most allocators; others say so themselves.
const USUAL_SECONDS: f64 = 0.25;
const USUAL_QUICK_SECONDS: f64 = 0.12;

fn one() -> u32 {
    1
}

fn usual_timeout() -> f64 {
    120.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    row: Vec<Row>,
    #[serde(default)]
    sweep: Vec<Sweep>,
}

pub fn default_file() -> PathBuf {
    places::source().join("bench/suite.toml")
}

pub fn read(path: &Path) -> Result<Vec<Row>> {
    let bad = |reason: String| failure(BAD_INPUT, format!("{}: {reason}", path.display()));
    let text = files::text(path).map_err(|error| bad(error.to_string()))?;
    parse(&text).map_err(bad)
}

pub fn parse(text: &str) -> Result<Vec<Row>, String> {
    let mut file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for sweep in &file.sweep {
        sweep.check()?;
        file.row.extend(sweep.rows());
    }
    let mut names = HashSet::new();
    for row in &file.row {
        if !names.insert(&row.name) {
            return Err(format!("two rows are called '{}'", row.name));
        }
        if row.command.is_empty() || row.prepare.as_ref().is_some_and(Vec::is_empty) {
            return Err(format!("row '{}' has an empty command", row.name));
        }
        // Durations have a largest value; NaN fails this as well.
        if row.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds < 1e9)) {
            return Err(format!("row '{}': seconds must be above 0", row.name));
        }
        if row.kind == Kind::Replay && row.command.len() != 1 {
            return Err(format!("row '{}': the command of a replay is one file", row.name));
        }
        if row.memory_only && row.kind != Kind::Program {
            return Err(format!("row '{}': memory_only is for programs; others name their figure", row.name));
        }
        if let Some(name) = &row.beside {
            let is_like_it = |other: &Row| other.name == *name && other.kind == row.kind && other.beside.is_none();
            if row.kind != Kind::Workload || row.point.is_some() || !file.row.iter().any(is_like_it) {
                return Err(format!("row '{}': beside is for workloads, and names another one's row", row.name));
            }
        }
        if !(row.timeout_seconds > 0.0 && row.timeout_seconds < 1e9) || row.max_rounds == Some(0) {
            return Err(format!("row '{}': timeout_seconds and max_rounds must be above 0", row.name));
        }
    }
    if file.row.is_empty() {
        return Err("there are no rows".into());
    }
    Ok(file.row)
}

/// What the placeholders stand for.
pub struct Placeholders {
    workloads: PathBuf,
    programs: PathBuf,
    traces: PathBuf,
    inputs: PathBuf,
}

impl Placeholders {
    pub fn new(suite: &Path, build: &Build) -> Placeholders {
        let bench = suite.parent().unwrap_or(Path::new("."));
        Placeholders {
            workloads: absolute(&build.workloads()),
            programs: absolute(&bench.join("programs")),
            traces: absolute(&bench.join("traces")),
            inputs: absolute(&build.inputs()),
        }
    }

    pub fn inputs(&self) -> &Path {
        &self.inputs
    }

    /// The program of a row that is a workload.
    pub fn workload(&self, row: &Row) -> PathBuf {
        self.workloads.join(&row.command[0])
    }

    /// Why it cannot run: not every build has all of them.
    pub fn missing_workload(&self, row: &Row) -> Option<String> {
        let program = self.workload(row);
        (!program.is_file()).then(|| format!("{} is not built, for which it takes cargo", program.display()))
    }

    pub fn fill(&self, text: &str, scratch: &Path) -> OsString {
        // Paths of the tool's own making; a name that is not Unicode would have failed before.
        text.replace("{workloads}", &self.workloads.to_string_lossy())
            .replace("{programs}", &self.programs.to_string_lossy())
            .replace("{traces}", &self.traces.to_string_lossy())
            .replace("{inputs}", &self.inputs.to_string_lossy())
            .replace("{scratch}", &scratch.to_string_lossy())
            .into()
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

impl Row {
    /// One that needs nothing but its workload.
    pub fn workload(name: String, family: &str, command: Vec<String>, seconds: Option<f64>) -> Row {
        Row {
            name,
            family: family.into(),
            kind: Kind::Workload,
            command,
            threads: one(),
            quick: false,
            max_rounds: None,
            prepare: None,
            directory: None,
            environment: BTreeMap::new(),
            needs: Vec::new(),
            huge_pages: None,
            memory_only: false,
            beside: None,
            seconds,
            timeout_seconds: usual_timeout(),
            memory_mib: 0,
            point: None,
        }
    }

    /// Of one run.
    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { USUAL_QUICK_SECONDS } else { USUAL_SECONDS })
    }

    /// It says nothing itself of who served it.
    pub fn needs_proof(&self) -> bool {
        matches!(self.kind, Kind::Program | Kind::Replay)
    }

    /// Of so many.
    pub fn allocators(&self, of: usize) -> usize {
        if self.beside.is_some() { of.min(1) } else { of }
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }

    /// The files of the suite that it runs: their names, and what tells them from others of these names.
    pub fn work(&self, places: &Placeholders) -> Vec<(String, String)> {
        let nowhere = Path::new("");
        let mut files: Vec<PathBuf> = self
            .command
            .iter()
            .filter(|word| word.starts_with("{programs}/") || word.starts_with("{traces}/"))
            .map(|word| places.fill(word, nowhere).into())
            .collect();
        if self.kind == Kind::Workload {
            files.push(places.workload(self));
        }
        let named =
            |file: PathBuf| Some((file.file_name()?.to_string_lossy().into_owned(), fingerprint::of(&file).ok()?));
        files.into_iter().filter_map(named).collect()
    }

    /// The command with its placeholders filled in.
    pub fn command(&self, places: &Placeholders, scratch: &Path) -> Vec<OsString> {
        let mut command: Vec<OsString> = self.command.iter().map(|word| places.fill(word, scratch)).collect();
        if self.kind == Kind::Workload {
            command[0] = places.workloads.join(&command[0]).into();
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "[[row]]\nname='a'\nfamily='f'\nkind='workload'\ncommand=['tool','{scratch}/x']\n";

    #[test]
    fn a_row_has_defaults_and_placeholders() {
        let rows = parse(ROW).unwrap();
        assert_eq!((rows[0].threads, rows[0].quick, rows[0].timeout().as_secs()), (1, false, 120));
        let places = Placeholders::new(Path::new("/s/bench/suite.toml"), &Build::find(Some(Path::new("/b"))));
        let command = rows[0].command(&places, Path::new("/t"));
        assert_eq!(command, ["/b/bench/tool", "/t/x"]);
        let filled = places.fill("{programs}:{traces}:{inputs}", Path::new("/t"));
        assert_eq!(filled, "/s/bench/programs:/s/bench/traces:/b/bench-inputs");
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse(&format!("{ROW}{ROW}")).unwrap_err().contains("two rows are called 'a'"));
        assert!(parse(&format!("{ROW}colour='red'")).unwrap_err().contains("colour"));
        assert!(parse(&format!("{ROW}max_rounds=0")).unwrap_err().contains("above 0"));
        assert!(parse(&format!("{ROW}memory_only=true")).unwrap_err().contains("for programs"));
        assert!(parse(&ROW.replace("workload", "replay")).unwrap_err().contains("is one file"));
        let beside =
            |name: &str, rest: &str| parse(&format!("{ROW}{}beside='{name}'\n{rest}", ROW.replace("'a'", "'b'")));
        assert_eq!(beside("a", "").unwrap()[1].beside.as_deref(), Some("a"));
        for (name, rest) in [("none", ""), ("b", ""), ("c", &*ROW.replace("'a'", "'c'").replace("workload", "driver"))]
        {
            assert!(beside(name, rest).unwrap_err().contains("another one's row"), "{name}");
        }
        assert!(parse("").unwrap_err().contains("no rows"));
    }
}
