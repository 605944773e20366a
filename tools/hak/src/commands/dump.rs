// SPDX-License-Identifier: MIT
//! `hak dump`

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::geteuid;

use crate::cli::Dump;
use crate::failure::{BAD_INPUT, INTERRUPTED, failure};
use crate::inspect::Inspected;
use crate::inspect::target::text;
use crate::interrupt;
use crate::output::Output;

const VARIABLE: &str = "HAKMEM_STATS_FILE";

pub fn run(arguments: &Dump) -> Result<u8> {
    let inspected = Inspected::attach(arguments.pid)?;
    let file = match &arguments.to {
        Some(name) => Output::of(name)?,
        None => Output::of(&file_of(arguments.pid)?)?,
    };
    let count = if arguments.every.is_some() { arguments.count.unwrap_or(u32::MAX) } else { 1 };
    let every = arguments.every.unwrap_or(Duration::ZERO);
    interrupt::watch()?;
    let start = Instant::now();
    for number in 0..count {
        if !interrupt::wait_until(start + every * number) {
            return Ok(INTERRUPTED);
        }
        let (_, _, snapshot) = match inspected.look() {
            // It has written its own by now.
            Err(_) if number > 0 && arguments.count.is_none() && inspected.target.check().is_err() => return Ok(0),
            seen => seen?,
        };
        file.write(snapshot.json()?.as_bytes())?;
    }
    Ok(0)
}

/// Where the process itself would write, seen from here.
fn file_of(pid: u32) -> Result<PathBuf> {
    let unknown = |reason: &str| failure(BAD_INPUT, format!("{reason}: say where to write with --to"));
    let cannot = |error: std::io::Error| unknown(&format!("the environment of process {pid} cannot be read: {error}"));
    let environment = fs::read(format!("/proc/{pid}/environ")).map_err(cannot)?;
    let Some(pattern) = value_of(&environment) else {
        return Err(unknown(&format!("process {pid} was started without {VARIABLE}")));
    };
    // The process can write anything there: not with rights that it does not have.
    let owner = fs::metadata(format!("/proc/{pid}")).map_err(cannot)?.uid();
    if owner != geteuid().as_raw() {
        return Err(unknown(&format!("process {pid} is another user's, who chose its {VARIABLE}")));
    }
    // Nor where names, and the links that they lead to, are others than here: they would be followed here.
    let is_like_ours = |what: &str| {
        let place = |whose: &str| fs::metadata(format!("/proc/{whose}/{what}")).map(|place| (place.dev(), place.ino()));
        place(&pid.to_string()).ok().is_some_and(|its| place("self").is_ok_and(|ours| ours == its))
    };
    if !is_like_ours("ns/mnt") || !is_like_ours("root") {
        return Err(unknown(&format!("process {pid} sees other files than hak, as in a container")));
    }
    let status = text(format!("/proc/{pid}/status")).map_err(cannot)?;
    let path = PathBuf::from(expanded(pattern, &own_id(&status).unwrap_or_else(|| pid.to_string())));
    // Its working directory may be another than ours; a whole path stays as it is.
    Ok(Path::new(&format!("/proc/{pid}/cwd")).join(path))
}

/// The last one, as the process reads them in order.
fn value_of(environment: &[u8]) -> Option<&[u8]> {
    let values = environment.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(VARIABLE.as_bytes()));
    values.filter_map(|rest| rest.strip_prefix(b"=")).rfind(|value| !value.is_empty())
}

/// The process's number as it sees it itself, in its own namespace.
fn own_id(status: &str) -> Option<String> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back().map(Into::into)
}

fn expanded(pattern: &[u8], own_id: &str) -> OsString {
    let mut path = Vec::new();
    let mut rest = pattern;
    while let Some((first, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(b"%p") {
            path.extend(OsStr::new(own_id).as_bytes());
            rest = behind;
        } else {
            path.push(*first);
            rest = behind;
        }
    }
    OsString::from_vec(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_found_in_an_environment() {
        assert_eq!(value_of(b"A=1\0HAKMEM_STATS_FILE=/tmp/x\0B=2\0"), Some(&b"/tmp/x"[..]));
        assert_eq!(value_of(b"XHAKMEM_STATS_FILE=/tmp/x\0HAKMEM_STATS_FILES=2\0HAKMEM_STATS_FILE=\0"), None);
        assert_eq!(value_of(b""), None);
    }

    #[test]
    fn every_p_becomes_the_process() {
        assert_eq!(expanded(b"/tmp/%p/heap-%p.%json%", "42"), "/tmp/42/heap-42.%json%");
    }

    #[test]
    fn in_a_namespace_it_is_the_inner_number() {
        assert_eq!(own_id("Name:\tx\nNSpid:\t1234\t7\nNSsid:\t1\t1\n"), Some("7".into()));
        assert_eq!(own_id("Name:\tx\n"), None);
    }
}
