// SPDX-License-Identifier: MIT
//! Runs a peer's recipe, a CMake project, and takes the library that it makes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, ensure, Context, Result};

use crate::file;
use crate::peer::{Peer, Tool};
use crate::source::Source;

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Built,
    Unchanged,
}

/// Flags of the caller would change what upstream decided, and a preloaded allocator would serve
/// the compiler.
const NOT_INHERITED: &[&str] = &[
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "ASMFLAGS",
    "LDFLAGS",
    "LD_PRELOAD",
];

pub fn run(peer: &Peer, source: &Source, home: &Path, out: &Path) -> Result<Outcome> {
    let tools = Tools::find(peer)?;
    let build = out.join("obj").join(peer.name);
    let log = out.join("obj").join(format!("{}.log", peer.name));
    fs::create_dir_all(out.join("obj"))?;
    let logged = |command: &mut Command| run_logged(command, &log);

    let arguments = tools.configure_arguments(peer, source, home, &build);
    if !configured_with(&build, &arguments, &tools)? {
        // CMake keeps a compiler that it has once found, and Ninja objects of another compiler's
        // version: start afresh.
        remove_directory(&build)?;
        File::create(&log)?;
        logged(tools.cmake().args(&arguments))?;
        fs::write(record(&build), tools.record(&arguments)?)?;
    } else {
        File::create(&log)?;
    }
    logged(tools.cmake().arg("--build").arg(&build))?;

    install(&build.join(peer.library()), &out.join(peer.library()))
}

struct Tools {
    cmake: PathBuf,
    cc: PathBuf,
    cxx: Option<PathBuf>,
}

impl Tools {
    fn find(peer: &Peer) -> Result<Tools> {
        let mut missing = Vec::new();
        let mut find = |program: OsString, what: &str, package: &str| {
            which::which(&program).ok().or_else(|| {
                let program = program.to_string_lossy();
                missing.push(format!(
                    "{what} ({program} is not on the PATH; Debian: {package})"
                ));
                None
            })
        };
        let compiler = |variable: &str, default: &str| {
            std::env::var_os(variable)
                .filter(|value| !value.is_empty())
                .unwrap_or_else(|| default.into())
        };

        let cmake = find("cmake".into(), "CMake", "cmake");
        find("ninja".into(), "Ninja", "ninja-build");
        let cc = find(compiler("CC", "cc"), "a C compiler", "gcc");
        let mut cxx = None;
        for tool in peer.needs {
            match tool {
                Tool::CxxCompiler => cxx = find(compiler("CXX", "c++"), "a C++ compiler", "g++"),
                Tool::Make => drop(find("make".into(), "make", "make")),
            }
        }
        match (cmake, cc) {
            (Some(cmake), Some(cc)) if missing.is_empty() => Ok(Tools { cmake, cc, cxx }),
            _ => bail!("it needs {}", missing.join(", and ")),
        }
    }

    fn cmake(&self) -> Command {
        let mut command = Command::new(&self.cmake);
        for variable in NOT_INHERITED {
            command.env_remove(variable);
        }
        if std::env::var_os("CMAKE_BUILD_PARALLEL_LEVEL").is_none() {
            let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
            command.env("CMAKE_BUILD_PARALLEL_LEVEL", processors.to_string());
        }
        command
    }

    fn configure_arguments(
        &self,
        peer: &Peer,
        source: &Source,
        home: &Path,
        build: &Path,
    ) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![
            "-S".into(),
            home.join("recipes").join(peer.name).into(),
            "-B".into(),
            build.into(),
            "-G".into(),
            "Ninja".into(),
            "-DCMAKE_BUILD_TYPE=Release".into(),
            define("PEER_SOURCE", &source.directory),
            define("PEER_VERSION", Path::new(source.version.build.as_str())),
            define("CMAKE_C_COMPILER", &self.cc),
        ];
        arguments.extend(
            self.cxx
                .as_ref()
                .map(|cxx| define("CMAKE_CXX_COMPILER", cxx)),
        );
        arguments
    }

    /// All that a build directory depends on and Ninja does not see.
    fn record(&self, arguments: &[OsString]) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        for argument in arguments {
            writeln!(record, "{}", argument.to_string_lossy())?;
        }
        for compiler in [Some(&self.cc), self.cxx.as_ref()].into_iter().flatten() {
            let output = Command::new(compiler)
                .arg("--version")
                .output()
                .with_context(|| format!("cannot run {}", compiler.display()))?;
            record.extend(output.stdout);
        }
        Ok(record)
    }
}

fn define(name: &str, value: &Path) -> OsString {
    let mut argument = OsString::from(format!("-D{name}="));
    argument.push(value);
    argument
}

fn record(build: &Path) -> PathBuf {
    build.join("configured-with")
}

fn configured_with(build: &Path, arguments: &[OsString], tools: &Tools) -> Result<bool> {
    match fs::read(record(build)) {
        Ok(before) => Ok(before == tools.record(arguments)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => {
            Err(error).with_context(|| format!("cannot read {}", record(build).display()))
        }
    }
}

fn remove_directory(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Standard output and standard error go to the end of the log; a failure shows what matters of it.
fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    let open = || File::options().append(true).open(log);
    let status = command
        .stdin(Stdio::null())
        .stdout(open()?)
        .stderr(open()?)
        .status()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    ensure!(
        status.success(),
        "cmake ended with {status}; see {}\n{}",
        log.display(),
        excerpt(&String::from_utf8_lossy(&fs::read(log)?))
    );
    Ok(())
}

/// The lines from the first error on, or the last ones.
fn excerpt(log: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_error = |line: &&str| {
        let line = line.to_lowercase();
        line.contains("error:") || line.contains("cmake error")
    };
    let first = lines
        .iter()
        .position(is_error)
        .unwrap_or(lines.len().saturating_sub(LINES));
    let shown: Vec<String> = lines[first..]
        .iter()
        .take(LINES)
        .map(|line| format!("    {line}"))
        .collect();
    shown.join("\n")
}

/// Replaces the library in one step: a program may have the old one loaded.
fn install(built: &Path, library: &Path) -> Result<Outcome> {
    let content =
        fs::read(built).with_context(|| format!("the recipe did not make {}", built.display()))?;
    if fs::read(library).is_ok_and(|before| before == content) {
        return Ok(Outcome::Unchanged);
    }
    file::replace(library, &content)?;
    Ok(Outcome::Built)
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn an_excerpt_starts_at_the_first_error() {
        let log = "one\ntwo\nx.c:1: error: no\n\nthree\n";
        assert_eq!(excerpt(log), "    x.c:1: error: no\n    three");
    }

    #[test]
    fn an_excerpt_without_an_error_is_the_end() {
        let log: String = (0..20).map(|i| format!("line {i}\n")).collect();
        assert!(excerpt(&log).starts_with("    line 8\n"));
        assert!(excerpt(&log).ends_with("line 19"));
        assert_eq!(excerpt(""), "");
    }
}
