// SPDX-License-Identifier: MIT
//! What a measurement was taken on. Without the machine's name.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::huge_pages;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub architecture: String,
    pub cpu: String,
    pub cores: usize,
    pub memory_mib: u64,
    pub kernel: String,
    pub system: String,
    pub transparent_huge_pages: String,
    /// How many processes wanted to run in the minute before.
    #[serde(default)]
    pub load: f64,
}

impl Machine {
    pub fn read() -> Machine {
        let uname = rustix::system::uname();
        Machine {
            architecture: uname.machine().to_string_lossy().into_owned(),
            cpu: value_of("/proc/cpuinfo", "model name", ':'),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_bytes("MemTotal") >> 20,
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            system: value_of("/etc/os-release", "PRETTY_NAME", '='),
            transparent_huge_pages: huge_pages::Control::of_system().now(),
            load: load(),
        }
    }

    /// A warning, if others use the machine.
    pub fn busy(&self) -> Option<String> {
        let busy = self.load > self.cores as f64 / 2.0;
        busy.then(|| {
            format!("the machine is busy (load {:.1} on {} cores): times will be noisy", self.load, self.cores)
        })
    }

    /// From what it was at another time, one line each; the load is no part of the machine.
    pub fn differences(&self, then: &Machine) -> Vec<String> {
        // What the kernel keeps for itself is not the same after every start.
        let memory = |machine: &Machine| machine.memory_mib as f64;
        let same_memory = (memory(self) / memory(then).max(1.0) - 1.0).abs() < 0.01;
        let gib = |machine: &Machine| format!("{:.0} GiB", memory(machine) / 1024.0);
        let settings = [
            ("architecture", then.architecture.clone(), self.architecture.clone()),
            ("processor", then.cpu.clone(), self.cpu.clone()),
            ("cores", then.cores.to_string(), self.cores.to_string()),
            ("memory", gib(then), if same_memory { gib(then) } else { gib(self) }),
            ("kernel", then.kernel.clone(), self.kernel.clone()),
            ("system", then.system.clone(), self.system.clone()),
            ("transparent huge pages", then.transparent_huge_pages.clone(), self.transparent_huge_pages.clone()),
        ];
        let differ = settings.into_iter().filter(|(_, was, is)| was != is);
        differ.map(|(what, was, is)| format!("{what}: {was} then, {is} now")).collect()
    }

    pub fn line(&self) -> String {
        format!(
            "{}, {} cores, {:.0} GiB, {}, {}, transparent huge pages {}",
            self.cpu,
            self.cores,
            self.memory_mib as f64 / 1024.0,
            self.system,
            self.kernel,
            self.transparent_huge_pages
        )
    }
}

/// That programs can have without others being swapped out.
pub fn available_bytes() -> u64 {
    memory_bytes("MemAvailable")
}

/// 0 when the system does not tell.
fn memory_bytes(key: &str) -> u64 {
    let value = value_of("/proc/meminfo", key, ':');
    value.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn value_of(file: &str, key: &str, separator: char) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
    });
    value.unwrap_or_else(|| "unknown".into())
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|minute| minute.parse().ok()).unwrap_or(0.0)
}

/// The commit of a source tree, with `+` if tracked files differ from it.
pub fn commit(tree: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(tree).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { commit + "+" })
}
