// SPDX-License-Identifier: MIT
//! Runs one process to its end and tells what it cost.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::helpers::Helpers;
use crate::interrupt;
use crate::sampling::{self, Memory, Sampler};

/// Of the process and the descendants that it waited for. The peak is that of the largest of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub wall_seconds: f64,
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub peak_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

impl Usage {
    /// Of all its processors: the user's and the system's.
    pub fn processor_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// What to run, and with what around it.
#[derive(Default)]
pub struct Job {
    pub command: Vec<OsString>,
    /// Set, or with `None` removed.
    pub environment: Vec<(OsString, Option<OsString>)>,
    pub directory: Option<PathBuf>,
    pub stdin: Option<PathBuf>,
    pub timeout: Option<Duration>,
}

pub enum End {
    Done { status: ExitStatus, usage: Usage, memory: Memory, stdout: Vec<u8>, stderr: Vec<u8> },
    TimedOut,
    Interrupted,
}

/// How often a waiting tool looks whether it was interrupted.
const TICK: Duration = Duration::from_millis(100);

pub fn run(helpers: &Helpers, job: &Job) -> Result<End> {
    // A short one is over before wait_for_report looks.
    if interrupt::requested() {
        return Ok(End::Interrupted);
    }
    let mut stdout = tempfile::tempfile_in(helpers.directory())?;
    let mut stderr = tempfile::tempfile_in(helpers.directory())?;
    let stdin = match &job.stdin {
        Some(path) => File::open(path).with_context(|| format!("cannot read {}", path.display()))?.into(),
        None => Stdio::null(),
    };
    // Not close-on-exec: the launcher has to find its end. It closes it for the program.
    let (report, report_end) = rustix::pipe::pipe()?;
    fcntl_setfd(&report, FdFlags::CLOEXEC)?;

    let mut command = Command::new(&helpers.launch);
    command
        .arg(report_end.as_raw_fd().to_string())
        .args(&job.command)
        .stdin(stdin)
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .process_group(0); // so that all of it can be ended, and the terminal's Ctrl-C is ours alone
    for (name, value) in &job.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = &job.directory {
        command.current_dir(directory);
    }
    let mut child = command.spawn().with_context(|| format!("cannot start {}", helpers.launch.display()))?;
    drop(report_end);
    let sampler = Sampler::start(child.id());

    let report = wait_for_report(&report, job.timeout);
    let memory = sampler.stop();
    end_tree(&mut child)?;
    match report? {
        Wait::Report(line) => {
            let (status, usage) = parse_report(&line, job)?;
            // Between two samples a single process may have had more than was seen of the whole tree.
            let peak_tree_kib = memory.peak_tree_kib.map(|seen| seen.max(usage.peak_kib));
            let memory = Memory { peak_tree_kib, ..memory };
            let (stdout, stderr) = (contents(&mut stdout)?, contents(&mut stderr)?);
            Ok(End::Done { status, usage, memory, stdout, stderr })
        }
        Wait::TimedOut => Ok(End::TimedOut),
        Wait::Interrupted => Ok(End::Interrupted),
    }
}

/// Runs a command around what is measured until it has ended itself, whatever goes on that it has started. Returns how,
/// and its error output; none if the tool was interrupted meanwhile, and the command ended for that.
pub fn run_beside(command: &mut Command) -> Result<Option<(ExitStatus, Vec<u8>)>> {
    const NAP_MOST: Duration = Duration::from_millis(20);
    // No pipe, whose end would be that of all who hold it.
    let mut said = tempfile::tempfile()?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?).spawn()?;
    let mut nap = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some((status, contents(&mut said)?)));
        }
        if interrupt::requested() {
            end_tree(&mut child)?;
            return Ok(None);
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(NAP_MOST);
    }
}

enum Wait {
    Report(String),
    TimedOut,
    Interrupted,
}

fn wait_for_report(report: &OwnedFd, timeout: Option<Duration>) -> Result<Wait> {
    let start = Instant::now();
    let mut line = Vec::new();
    loop {
        let mut ready = [PollFd::from_borrowed_fd(report.as_fd(), PollFlags::IN)];
        let tick = Timespec::try_from(TICK).expect("a short time");
        match poll(&mut ready, Some(&tick)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => {
                let mut buffer = [0; 256];
                let length = rustix::io::read(report, &mut buffer)?;
                line.extend_from_slice(&buffer[..length]);
                if length == 0 || line.contains(&b'\n') {
                    return Ok(Wait::Report(String::from_utf8_lossy(&line).into_owned()));
                }
            }
            Err(error) => return Err(error.into()),
        }
        if interrupt::requested() {
            return Ok(Wait::Interrupted);
        }
        if timeout.is_some_and(|limit| start.elapsed() > limit) {
            return Ok(Wait::TimedOut);
        }
    }
}

/// Ends whatever the program left behind, also what has a session of its own by now, and the launcher.
/// Before the launcher is waited for, so that nobody else can have its number.
fn end_tree(child: &mut Child) -> Result<()> {
    let mut ended = HashSet::new();
    loop {
        let mut left = sampling::descendants(child.id());
        left.retain(|pid| ended.insert(*pid));
        if left.is_empty() {
            break;
        }
        for pid in left.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()?;
    Ok(())
}

fn parse_report(line: &str, job: &Job) -> Result<(ExitStatus, Usage)> {
    let program = job.command.first().map(|word| word.display().to_string());
    let program = program.unwrap_or_default();
    let words: Vec<&str> = line.lines().next().unwrap_or("").split(' ').collect();
    match words.as_slice() {
        ["done", numbers @ ..] if numbers.len() == 7 => {
            let number = |index: usize| -> Result<u64> { Ok(numbers[index].parse()?) };
            let seconds = |index: usize, per_second: f64| -> Result<f64> { Ok(number(index)? as f64 / per_second) };
            let usage = Usage {
                wall_seconds: seconds(1, 1e9)?,
                user_seconds: seconds(2, 1e6)?,
                system_seconds: seconds(3, 1e6)?,
                peak_kib: number(4)?,
                minor_faults: number(5)?,
                major_faults: number(6)?,
            };
            Ok((ExitStatus::from_raw(numbers[0].parse()?), usage))
        }
        ["exec", errno] => {
            let error = io::Error::from_raw_os_error(errno.parse()?);
            bail!("cannot start {program}: {error}")
        }
        ["failed", errno, what] => {
            let error = io::Error::from_raw_os_error(errno.parse()?);
            bail!("the launcher failed: {what}: {error}")
        }
        _ => Err(anyhow!("the launcher of {program} was killed")),
    }
}

fn contents(file: &mut File) -> Result<Vec<u8>> {
    use std::io::Seek;
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// "exit code 3", "killed by signal 11 (SIGSEGV)".
pub fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => {
            let name = signal_hook::low_level::signal_name(signal);
            format!("killed by signal {signal} ({})", name.unwrap_or("unnamed"))
        }
        None => format!("exit code {}", status.code().unwrap_or(0)),
    }
}

/// The last lines of an error output, for a message.
pub fn tail(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(command: &[&str]) -> Job {
        Job { command: command.iter().map(OsString::from).collect(), ..Job::default() }
    }

    #[test]
    fn a_small_program_shows_its_own_size_and_not_the_tools() {
        let ballast = vec![1u8; 64 << 20];
        let helpers = Helpers::unpack().unwrap();
        let End::Done { usage, status, .. } = run(&helpers, &job(&["true"])).unwrap() else {
            panic!("true did not end");
        };
        assert!(status.success());
        assert!(usage.peak_kib < 4096, "{usage:?}");
        assert_eq!(std::hint::black_box(ballast)[1000], 1);
    }

    #[test]
    fn output_exit_code_and_signal_come_through() {
        let helpers = Helpers::unpack().unwrap();
        let shell = job(&["sh", "-c", "echo out; echo err >&2; exit 3"]);
        let End::Done { status, stdout, stderr, .. } = run(&helpers, &shell).unwrap() else {
            panic!("sh did not end");
        };
        assert_eq!((stdout.as_slice(), stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(describe(status), "exit code 3");
        let End::Done { status, .. } = run(&helpers, &job(&["sh", "-c", "kill -SEGV $$"])).unwrap() else {
            panic!("sh did not end");
        };
        assert_eq!(describe(status), "killed by signal 11 (SIGSEGV)");
    }

    fn assert_gone(pid: u32) {
        let gone = (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
        assert!(gone, "process {pid} is still there");
    }

    #[test]
    fn a_timeout_ends_the_whole_group() {
        let helpers = Helpers::unpack().unwrap();
        let file = helpers.directory().join("pid");
        let mut shell = job(&["sh", "-c", &format!("sleep 60 & echo $! > {}; wait", file.display())]);
        shell.timeout = Some(Duration::from_millis(500));
        assert!(matches!(run(&helpers, &shell).unwrap(), End::TimedOut));
        assert_gone(std::fs::read_to_string(file).unwrap().trim().parse().unwrap());
    }

    #[test]
    fn what_left_the_group_is_ended_too() {
        let helpers = Helpers::unpack().unwrap();
        let file = helpers.directory().join("pid");
        let script = format!(
            "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60' & \
                              while ! test -e {0}; do sleep 0.01; done",
            file.display()
        );
        let ran = run(&helpers, &job(&["sh", "-c", &script])).unwrap();
        assert!(matches!(ran, End::Done { .. }));
        assert_gone(std::fs::read_to_string(file).unwrap().trim().parse().unwrap());
    }

    #[test]
    fn a_program_that_cannot_be_started_is_named() {
        let helpers = Helpers::unpack().unwrap();
        let error = run(&helpers, &job(&["/no/such/program"])).err().unwrap();
        assert!(error.to_string().contains("/no/such/program: No such file"), "{error}");
    }
}
