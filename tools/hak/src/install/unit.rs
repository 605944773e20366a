// SPDX-License-Identifier: MIT
//! A service of systemd: what its files say, and whether systemd understands what is added.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::elf::Elf;
use crate::failure::{BAD_INPUT, CANNOT_RUN, failure};
use crate::install::{root, servable};

pub const DROP_IN: &str = "60-hakmem.conf";

const SYSTEM: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const USER: [&str; 4] =
    ["/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user", "/lib/systemd/user"];

/// Kinds of units: a dot before anything else is part of a service's name, as systemctl has it.
const SUFFIXES: [&str; 11] =
    ["service", "socket", "target", "device", "mount", "automount", "swap", "timer", "path", "slice", "scope"];

pub struct Unit {
    pub name: String,
    /// Where a drop-in goes.
    pub drop_in: PathBuf,
    fragment: PathBuf,
    settings: Vec<(String, String)>,
}

fn bad(message: String) -> anyhow::Error {
    failure(BAD_INPUT, message)
}

/// `name@instance.service` is described by `name@.service`.
fn template(name: &str) -> Option<String> {
    let (before, after) = name.split_once('@')?;
    (after != ".service").then(|| format!("{before}@.service"))
}

pub fn find(name: &str, user: bool) -> Result<Unit> {
    let known = name.rsplit_once('.').is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix));
    let name = if known { name.to_owned() } else { format!("{name}.service") };
    if !name.ends_with(".service") || name.contains('/') || name.contains(char::is_whitespace) {
        return Err(bad(format!("{name:?} is not the name of a service")));
    }
    let own = if user { root::home()?.join(".config/systemd/user") } else { PathBuf::from(SYSTEM[0]) };
    let mut directories = vec![own.clone()];
    directories.extend(if user { USER.iter() } else { SYSTEM[1..].iter() }.map(PathBuf::from));

    let names: Vec<String> = std::iter::once(name.clone()).chain(template(&name)).collect();
    let fragment = names
        .iter()
        .find_map(|name| directories.iter().map(|one| one.join(name)).find(|path| path.symlink_metadata().is_ok()));
    let Some(fragment) = fragment else {
        return Err(bad(
            format!("there is no unit {name} in {}", directories[0].display()) + " or where systemd looks else"
        ));
    };
    if fragment.canonicalize().is_ok_and(|path| path == Path::new("/dev/null")) {
        return Err(bad(format!("{name} is masked")));
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| bad(format!("{}: {error}", path.display())));
    let mut text = read(&fragment)?;
    for directory in directories.iter().rev() {
        for name in names.iter().rev() {
            for file in drop_ins(&directory.join(format!("{name}.d"))) {
                text += "\n";
                text += &read(&file)?;
            }
        }
    }
    Ok(Unit { drop_in: own.join(format!("{name}.d")).join(DROP_IN), fragment, settings: settings(&text), name })
}

fn drop_ins(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "conf")).collect();
    files.sort();
    files
}

/// Of `[Service]`, with lines that go on joined.
fn settings(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.replace("\\\n", " ").lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[Service]";
        } else if let (true, false, Some((name, value))) = (inside, line.starts_with(['#', ';']), line.split_once('='))
        {
            found.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

/// LD_PRELOAD itself, quoted or with a value, not a name that begins or ends so.
fn names_preload(value: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    value.split(|c: char| !part(c)).any(|word| word == "LD_PRELOAD")
}

impl Unit {
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.settings.iter().filter(move |one| one.0 == name).map(|one| one.1.as_str())
    }

    /// Those of a list that count: an empty one forgets what was before it.
    fn in_force(&self, name: &str) -> Vec<&str> {
        let mut list = Vec::new();
        for value in self.values(name) {
            if value.is_empty() {
                list.clear();
            } else {
                list.push(value);
            }
        }
        list
    }

    /// Nothing that the drop-in would undo, and programs that it would serve.
    pub fn check(&self, library: &Path, described: &Elf, user: bool) -> Result<()> {
        let refuse = |reason: String| Err(failure(CANNOT_RUN, format!("{}: {reason}", self.name)));
        for name in ["Environment", "PassEnvironment"] {
            if let Some(value) = self.in_force(name).into_iter().find(|value| names_preload(value)) {
                return refuse(format!("it sets LD_PRELOAD already ({name}={value}), which the drop-in would replace"));
            }
        }
        if let Some(value) = self.in_force("UnsetEnvironment").into_iter().find(|value| names_preload(value)) {
            return refuse(format!("it takes LD_PRELOAD away from what it starts (UnsetEnvironment={value})"));
        }
        for name in ["RootDirectory", "RootImage", "MountImages"] {
            if let Some(value) = self.values(name).last().filter(|value| !["", "/"].contains(value)) {
                return refuse(format!("it runs in a root of its own ({name}={value}), where the library is not"));
            }
        }
        let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
        if let Some(one) = hidden.iter().find(|one| !user && library.starts_with(one)) {
            return refuse(format!("services may not see what is in {one}, where the library would be: use --prefix"));
        }
        let started = self.in_force("ExecStart");
        if started.is_empty() {
            return refuse("it starts no program (no ExecStart=)".into());
        }
        for command in started {
            let command = command.trim_start_matches(['@', '-', ':', '+', '!', '|']);
            let Some(program) = shell_words::split(command).ok().and_then(|words| words.into_iter().next()) else {
                return refuse(format!("ExecStart={command} cannot be read"));
            };
            // Names that only systemd can fill in are not looked at.
            if !program.contains(['%', '$']) {
                servable::check(&OsString::from(program), described)?;
            }
        }
        Ok(())
    }

    /// Has systemd read unit and drop-in, elsewhere. false: there is no systemd to ask.
    pub fn verify(&self, drop_in: &str) -> Result<bool> {
        if which::which("systemd-analyze").is_err() {
            return Ok(false);
        }
        let place = tempfile::Builder::new().prefix("hak-").tempdir()?;
        let directory = place.path().join(format!("{}.d", self.name));
        fs::create_dir(&directory)?;
        fs::write(directory.join(DROP_IN), drop_in)?;
        let name = self.fragment.file_name().expect("a file has a name");
        fs::copy(&self.fragment, place.path().join(name))?;
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(place.path().join(&self.name)).stdin(Stdio::null());
        let Ok(output) = command.output() else {
            return Ok(false);
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if let Some(line) = said.lines().find(|line| line.contains(DROP_IN)) {
            return Err(failure(CANNOT_RUN, format!("systemd does not understand the drop-in: {line}")));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_service_alone() {
        let text = "[Unit]\nExecStart=no\n[Service]\n# Environment=no\nExecStart = /a \\\n  b\n[Install]\nX=y\n";
        assert_eq!(settings(text), [("ExecStart".to_owned(), "/a    b".to_owned())]);
    }

    #[test]
    fn systemd_is_asked() {
        let place = tempfile::tempdir().unwrap();
        let fragment = place.path().join("one.service");
        fs::write(&fragment, "[Service]\nExecStart=/bin/true\n").unwrap();
        let unit = Unit { name: "one.service".into(), drop_in: PathBuf::new(), fragment, settings: Vec::new() };
        let there = unit.verify("[Service]\nEnvironment=LD_PRELOAD=/lib/a.so\n").unwrap();
        let error = unit.verify("[Service]\nEnvironment=LD_PRELOAD\n").map_err(|error| error.to_string());
        assert!(!there || error.as_ref().is_err_and(|error| error.contains("does not understand")), "{error:?}");
    }

    #[test]
    fn instances_have_templates() {
        assert_eq!(template("a@b.service").as_deref(), Some("a@.service"));
        assert_eq!(template("a@.service"), None);
        assert_eq!(template("a.service"), None);
    }
}
