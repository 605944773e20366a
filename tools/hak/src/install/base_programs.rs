// SPDX-License-Identifier: MIT
//! The programs that a system cannot do without, run to see whether they do under hakmem what they do without it.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::MemfdFlags;

use crate::elf::Elf;
use crate::failure::{BAD_INPUT, CANNOT_RUN, failure};
use crate::install::files;
use crate::process;
use crate::program::{self, Way};

/// None of them changes anything or waits for anybody. The first three there have to be.
const PROGRAMS: [(&str, &[&str]); 34] = [
    ("sh", &["-c", "for i in 1 2 3; do echo $i; done"]),
    ("ls", &["-l", "/etc/passwd"]),
    ("cat", &["/etc/passwd"]),
    ("bash", &["-c", "a=(1 2 3); echo ${a[@]}; (exit 7)"]),
    ("id", &[]),
    ("grep", &["-c", "root", "/etc/passwd"]),
    ("sed", &["s/:.*//", "/etc/passwd"]),
    ("awk", &["BEGIN { for (i = 0; i < 99; i++) a[i] = i; print length(a) }"]),
    ("sort", &["/etc/passwd"]),
    ("find", &["/etc/passwd"]),
    ("cp", &["--version"]),
    ("mv", &["--version"]),
    ("rm", &["--version"]),
    ("ln", &["--version"]),
    ("tar", &["--version"]),
    ("gzip", &["--version"]),
    ("mount", &["--version"]),
    ("umount", &["--version"]),
    ("fsck", &["--version"]),
    ("agetty", &["--version"]),
    ("login", &["-h"]),
    ("su", &["--version"]),
    ("sudo", &["-V"]),
    ("ip", &["-V"]),
    ("ssh", &["-V"]),
    ("getent", &["passwd", "root"]),
    ("systemd", &["--version"]),
    ("systemctl", &["--version"]),
    ("journalctl", &["--version"]),
    ("udevadm", &["--version"]),
    ("dpkg", &["--version"]),
    ("apt-get", &["--version"]),
    ("rpm", &["--version"]),
    ("python3", &["-c", "print(sum(len(str(i)) for i in range(999)))"]),
];
const NEEDED: usize = 3;
/// Settings that have a program say more than it does, or write a file.
const REPORTS: [&str; 2] = ["HAKMEM_STATS", REPORT_FILE];
const REPORT_FILE: &str = "HAKMEM_STATS_FILE";
const NULL: &str = "/dev/null";
const DIRECTORIES: [&str; 5] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/lib/systemd"];
const PATIENCE: Duration = Duration::from_secs(20);

/// Loaders of 32-bit programs, which would complain about the library in each of those.
const OTHER_LOADERS: [&str; 2] = ["/lib/ld-linux.so.2", "/lib/ld-linux-armhf.so.3"];

#[derive(PartialEq)]
struct Outcome {
    status: Option<ExitStatus>,
    out: Vec<u8>,
    err: Vec<u8>,
}

/// A program that is there, and what it does without hakmem.
pub struct Known {
    path: PathBuf,
    arguments: &'static [&'static str],
    alone: Outcome,
}

/// Those that are there, as they are now, but those that gain rights by being started: they ignore what is preloaded.
/// An error if hakmem cannot serve one of them, or if too few are there.
pub fn known(library: &Elf) -> Result<Vec<Known>> {
    let mut known = Vec::new();
    for (number, (name, arguments)) in PROGRAMS.iter().enumerate() {
        let path = DIRECTORIES.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists());
        let Some(path) = path else {
            if number < NEEDED {
                return Err(failure(CANNOT_RUN, format!("there is no {name} to try it with")));
            }
            continue;
        };
        if number >= NEEDED && program::gains_rights(&path)?.is_some() {
            continue;
        }
        match program::check_for_comparison(path.as_os_str(), library)? {
            Way::Preloaded => {
                let alone = run(&path, arguments, None, &[])?;
                known.push(Known { path, arguments, alone });
            }
            Way::Own(own) if number < NEEDED => return Err(failure(CANNOT_RUN, own.says())),
            Way::Own(_) => {}
        }
    }
    Ok(known)
}

pub fn refuse_32_bit() -> Result<()> {
    match OTHER_LOADERS.iter().find(|loader| Path::new(loader).exists()) {
        Some(loader) => {
            let message = format!("32-bit programs run here, too ({loader}): each would complain about the library");
            Err(failure(CANNOT_RUN, message))
        }
        None => Ok(()),
    }
}

/// The library says at its start which settings it ignores, and why. hak itself is run under it for that; a library of
/// another libc than hak's cannot be asked.
pub fn check_settings(library: &Path, settings: &[(String, String)]) -> Result<()> {
    if settings.is_empty() {
        return Ok(());
    }
    // Of a path only the length can be wrong, and this one takes what is written: no report stays anywhere.
    let nowhere = |path: &str| if path.is_empty() { String::new() } else { format!("{:/>1$}", NULL, path.len()) };
    let tried: Vec<_> = settings
        .iter()
        .map(|(name, value)| (name.clone(), if name == REPORT_FILE { nowhere(value) } else { value.clone() }))
        .collect();
    let said = run(Path::new("/proc/self/exe"), &["--version"], Some(library), &tried)?.err;
    let said = String::from_utf8_lossy(&said);
    match said.lines().find_map(|line| line.strip_prefix("hakmem: ")) {
        Some(complaint) => Err(failure(BAD_INPUT, format!("--env: {complaint}; nothing is installed"))),
        None => Ok(()),
    }
}

/// They have to do the same with the library preloaded, with those settings but for reports; `None`: by what the system
/// preloads by now.
pub fn try_all(known: &[Known], library: Option<&Path>, settings: &[(String, String)]) -> Result<()> {
    let quiet: Vec<_> = settings.iter().filter(|(name, _)| !REPORTS.contains(&name.as_str())).cloned().collect();
    for one in known {
        let now = run(&one.path, one.arguments, library, &quiet)?;
        if now != one.alone {
            let message = format!("{} under hakmem {}", one.path.display(), difference(&one.alone, &now));
            return Err(failure(CANNOT_RUN, message));
        }
    }
    Ok(())
}

fn difference(alone: &Outcome, now: &Outcome) -> String {
    let end = |one: &Outcome| one.status.map_or("does not end".into(), process::describe);
    if alone.status != now.status {
        return format!("{} instead of {}: {}", end(now), end(alone), process::tail(&now.err));
    }
    if alone.err != now.err {
        return format!("says: {}", process::tail(&now.err));
    }
    "prints something else than without it".into()
}

/// From and to memory: a pipe can be full, and a root may lack /dev/null and a place for temporary files.
fn run(path: &Path, arguments: &[&str], library: Option<&Path>, settings: &[(String, String)]) -> Result<Outcome> {
    let memory = || -> Result<File> { Ok(rustix::fs::memfd_create("hak", MemfdFlags::CLOEXEC)?.into()) };
    let (mut out, mut err) = (memory()?, memory()?);
    let mut command = Command::new(path);
    command.args(arguments).env_clear().env("LC_ALL", "C").env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    command.stdin(memory()?).stdout(out.try_clone()?).stderr(err.try_clone()?);
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    command.envs(settings.iter().cloned());
    let null = Path::new(NULL);
    let has_null = null.symlink_metadata().is_ok();
    let mut child = command.spawn().with_context(|| format!("cannot start {}", path.display()))?;
    let status = end_of(&mut child);
    // Where there is none, a shell that writes to it makes a file: the next would find that, and it would stay.
    if !has_null && null.symlink_metadata().is_ok_and(|its| its.is_file()) {
        files::remove(null)?;
    }
    let status = status?;
    let read = |file: &mut File| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    Ok(Outcome { status, out: read(&mut out)?, err: read(&mut err)? })
}

fn end_of(child: &mut Child) -> Result<Option<ExitStatus>> {
    let due = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(ExitStatus::from_raw(status.into_raw())));
        }
        if Instant::now() > due {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
