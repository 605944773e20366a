// SPDX-License-Identifier: MIT
//! What a run of the suite gives: a figure and a memory figure.

use std::collections::BTreeMap;

use crate::measure::Ran;
use crate::proof::{self, Proof, Server};
use crate::results::{Figure, LATENCY, MEMORY};
use crate::trace::replay;

/// A figure and a memory figure, as a run has them.
pub struct Measured {
    pub figure: Option<(Figure, f64)>,
    pub memory: String,
    pub memory_mib: f64,
    /// As in `Sample`.
    pub latency: BTreeMap<String, f64>,
    pub memories: BTreeMap<String, f64>,
}

/// Of a program that prints none: its wall time, or only its memory.
pub fn of_program(ran: &Ran, memory_only: bool) -> Measured {
    let figure = Figure { key: "wall_seconds".into(), more_is_better: false };
    Measured {
        figure: (!memory_only).then_some((figure, ran.usage.wall_seconds)),
        memory: "peak resident memory".into(),
        memory_mib: ran.usage.peak_kib as f64 / 1024.0,
        latency: BTreeMap::new(),
        memories: BTreeMap::new(),
    }
}

/// Of a trace's calls that are made again: all of them have to be. The memory is what came on top of the replayer's own.
pub fn of_replay(ran: &Ran, expected: u64) -> Result<Measured, String> {
    let (round, calls, refused) = replay::read(ran)?;
    if calls != expected {
        return Err(format!("it made {calls} calls of {expected}"));
    }
    if refused > 0 {
        return Err(format!("{refused} of {calls} calls were refused"));
    }
    if round.seconds <= 0.0 || round.peak_kib == 0 {
        return Err("it took no time, or no memory".into());
    }
    let figure = Figure { key: "calls_per_s".into(), more_is_better: true };
    Ok(Measured {
        figure: Some((figure, calls as f64 / round.seconds)),
        memory: "peak memory of the calls".into(),
        memory_mib: round.peak_kib as f64 / 1024.0,
        latency: BTreeMap::new(),
        memories: BTreeMap::new(),
    })
}

/// From the line of `key=value` pairs that workloads and drivers print.
pub fn printed(ran: &Ran, server: &Server) -> Result<(Measured, Proof), String> {
    let text = String::from_utf8_lossy(&ran.stdout);
    let line = text
        .lines()
        .rev()
        .find(|line| line.split_whitespace().any(|word| word.starts_with("metric=")))
        .ok_or("it printed no result line (with metric=)")?;
    let value = |key: &str| -> Result<&str, String> {
        let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
        let mut found = pairs.filter(|(name, _)| *name == key).map(|(_, value)| value);
        found.next().ok_or_else(|| format!("its result line has no {key}="))
    };
    let number = |key: &str| -> Result<f64, String> {
        let text = value(key)?;
        let number: f64 = text.parse().map_err(|_| format!("{key}={text} is not a number"))?;
        if number.is_finite() && number > 0.0 {
            return Ok(number);
        }
        Err(format!("{key}={text} is not above zero"))
    };
    let proof = proof::said_by_workload(value("malloc_from")?, server)?;
    let key = value("metric")?;
    // A row that is about memory has no other figure.
    let (figure, memory_key) = if key.ends_with("_mib") {
        (None, Some(key))
    } else {
        let figure = Figure { key: key.into(), more_is_better: key.ends_with("_per_s") };
        (Some((figure, number(key)?)), value("memory").ok())
    };
    let peak_mib = ran.usage.peak_kib as f64 / 1024.0;
    let measured = Measured {
        figure,
        memory: memory_key.unwrap_or("peak resident memory").into(),
        memory_mib: memory_key.map_or(Ok(peak_mib), number)?,
        latency: told(line, LATENCY)?,
        memories: told(line, MEMORY)?,
    };
    Ok((measured, proof))
}

/// All whose keys end so. None of them may be damaged; 0 is one: nothing was waited for, or nothing is live.
fn told(line: &str, suffix: &str) -> Result<BTreeMap<String, f64>, String> {
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    let pairs = pairs.filter(|(key, _)| key.ends_with(suffix));
    let number = |(key, text): (&str, &str)| match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok((key.to_owned(), number)),
        _ => Err(format!("{key}={text} is neither 0 nor above")),
    };
    pairs.map(number).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;
    use crate::allocators::Allocator;
    use crate::process;

    fn ran(line: &str) -> Ran {
        let usage = process::Usage {
            wall_seconds: 1.0,
            user_seconds: 1.0,
            system_seconds: 0.0,
            peak_kib: 2048,
            minor_faults: 1,
            major_faults: 0,
        };
        Ran {
            status: ExitStatus::from_raw(0),
            usage,
            memory: Default::default(),
            stdout: format!("{line}\n").into_bytes(),
            stderr: Vec::new(),
        }
    }

    fn of_line(line: &str) -> Result<Measured, String> {
        let ran = ran(&format!("something else\n{line}"));
        let glibc = Allocator {
            name: "glibc".into(),
            version: String::new(),
            library: None,
            source: String::new(),
            environment: Default::default(),
            compiler: None,
            fingerprint: None,
        };
        printed(&ran, &Server::Allocator(&glibc)).map(|(measured, _)| measured)
    }

    #[test]
    fn result_lines_give_the_figure_and_the_memory() {
        let measured = of_line("ops_per_s=5 metric=ops_per_s malloc_from=libc.so.6").unwrap();
        let (figure, value) = measured.figure.unwrap();
        assert!(figure.more_is_better);
        assert_eq!((value, measured.memory_mib), (5.0, 2.0));
        let measured = of_line("seconds=5 mib=7 memory=mib metric=seconds malloc_from=libc.so.6").unwrap();
        assert!(!measured.figure.unwrap().0.more_is_better);
        assert_eq!((measured.memory.as_str(), measured.memory_mib), ("mib", 7.0));
        let measured = of_line("resident_mib=9 metric=resident_mib malloc_from=libc.so.6").unwrap();
        assert!(measured.figure.is_none());
        assert_eq!(measured.memory_mib, 9.0);
        let measured = of_line("live_mib=0 resident_mib=9 metric=resident_mib malloc_from=libc.so.6").unwrap();
        assert_eq!(measured.memories, [("live_mib".to_owned(), 0.0), ("resident_mib".to_owned(), 9.0)].into());
    }

    #[test]
    fn replays_make_all_calls() {
        let of = |line: &str| of_replay(&ran(line), 100);
        let measured = of("replayed\tseconds=0.5\tpeak_kib=2048\tcalls=100\trefused=0").unwrap();
        let (figure, value) = measured.figure.unwrap();
        assert!(figure.more_is_better);
        assert_eq!((value, measured.memory_mib), (200.0, 2.0));
        for (line, reason) in [
            ("replayed\tseconds=0.5\tpeak_kib=2048\tcalls=99\trefused=0", "99 calls of 100"),
            ("replayed\tseconds=0.5\tpeak_kib=2048\tcalls=100\trefused=1", "1 of 100 calls were refused"),
            ("replayed\tseconds=0\tpeak_kib=2048\tcalls=100\trefused=0", "no time"),
            ("something else", "exit code 0"),
        ] {
            let error = of(line).err().unwrap();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    #[test]
    fn latencies_are_kept_beside_the_figure() {
        let measured = of_line("p50_us=0.02 wait_us=0 worst_us=7 metric=worst_us malloc_from=libc.so.6").unwrap();
        let (figure, value) = measured.figure.unwrap();
        assert_eq!((figure.key.as_str(), figure.more_is_better, value), ("worst_us", false, 7.0));
        let expected = [("p50_us", 0.02), ("wait_us", 0.0), ("worst_us", 7.0)];
        assert_eq!(measured.latency, expected.map(|(key, value)| (key.to_owned(), value)).into());
        assert!(of_line("s=1 metric=s malloc_from=libc.so.6").unwrap().latency.is_empty());
    }

    #[test]
    fn lines_that_prove_nothing_are_refused() {
        for (line, reason) in [
            ("hello", "no result line"),
            ("ops_per_s=5 metric=ops_per_s", "no malloc_from="),
            ("ops_per_s=5 metric=ops_per_s malloc_from=libother.so", "served by libother.so"),
            ("ops_per_s=x metric=ops_per_s malloc_from=libc.so.6", "not a number"),
            ("ops_per_s=0 metric=ops_per_s malloc_from=libc.so.6", "not above zero"),
            ("metric=ops_per_s malloc_from=libc.so.6", "no ops_per_s="),
            ("s=1 p50_us=-1 metric=s malloc_from=libc.so.6", "p50_us=-1 is neither"),
            ("s=1 live_mib=x metric=s malloc_from=libc.so.6", "live_mib=x is neither"),
            ("s=1 p50_us=inf metric=s malloc_from=libc.so.6", "p50_us=inf is neither"),
        ] {
            let error = of_line(line).err().unwrap();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
