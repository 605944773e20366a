// SPDX-License-Identifier: MIT
//! A service of systemd: what its files say, and whether systemd understands what is added.

mod calls;
mod environment;
mod files;
pub mod manager;
mod sight;
mod text;
mod variables;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::elf::Elf;
use crate::env_command;
use crate::failure::{BAD_INPUT, CANNOT_RUN, NOT_FOUND, code_of, failure};
use crate::install::servable;
use crate::program;
use crate::temporary::Temporary;
use text::Setting;

pub const DROP_IN: &str = "60-hakmem.conf";

/// Kinds of units: a dot before anything else is part of a service's name, as systemctl has it.
const SUFFIXES: [&str; 11] =
    ["service", "socket", "target", "device", "mount", "automount", "swap", "timer", "path", "slice", "scope"];
/// Where systemd looks for programs that are named without a path.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const PRELOAD: &str = "LD_PRELOAD";
/// Debian's script that starts PostgreSQL.
const CLUSTER_STARTER: &str = "pg_ctlcluster";
const OTHER_PATH: &str = ": hak looked along one that may be another";

pub struct Unit {
    pub name: String,
    /// Where a drop-in goes.
    pub drop_in: PathBuf,
    fragment: PathBuf,
    /// Those that are there already, in their order.
    drop_ins: Vec<PathBuf>,
    /// Of all its files but that drop-in.
    settings: Settings,
}

/// In the order in which systemd reads them.
pub struct Settings {
    all: Vec<Setting>,
    /// How many there are before those of the drop-in.
    before: usize,
}

fn bad(message: String) -> anyhow::Error {
    failure(BAD_INPUT, message)
}

pub fn find(name: &str, user: bool) -> Result<Unit> {
    let known = name.rsplit_once('.').is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix));
    let name = if known { name.to_owned() } else { format!("{name}.service") };
    if !name.ends_with(".service") || !files::is_name(&name) {
        return Err(bad(format!("{name:?} is not the name of a service")));
    }
    let places = files::Places::new(user)?;
    let (name, fragment) = places.find(&name)?;
    let drop_in = places.own.join(format!("{name}.d")).join(DROP_IN);

    let read = |path: &Path| {
        let text = fs::read(path).map_err(|error| bad(format!("{}: {error}", path.display())))?;
        text::settings(path, &text)
    };
    let mut all = read(&fragment)?;
    let mut before = None;
    let drop_ins = places.drop_ins(&name);
    for file in drop_ins.iter().cloned() {
        let its = file.file_name().expect("a file has a name");
        if its == DROP_IN && file != drop_in {
            let message = format!("{name}: {} has the drop-in's name: only one of them would be read", file.display());
            return Err(failure(CANNOT_RUN, message));
        }
        if its >= OsStr::new(DROP_IN) && before.is_none() {
            before = Some(all.len());
        }
        if file != drop_in {
            all.extend(read(&file)?);
        }
    }
    let before = before.unwrap_or(all.len());
    Ok(Unit { drop_in, fragment, drop_ins, settings: Settings { all, before }, name })
}

impl Settings {
    fn last(&self, name: &str) -> Option<&str> {
        self.all.iter().rfind(|one| one.name == name).map(|one| one.value.as_str()).filter(|value| !value.is_empty())
    }

    /// Those of a list that count: an empty one forgets what was before it.
    fn in_force(&self, names: &[&str]) -> Vec<&Setting> {
        let mut list = Vec::new();
        for one in self.all.iter().filter(|one| names.contains(&one.name.as_str())) {
            if one.value.is_empty() {
                list.clear();
            } else {
                list.push(one);
            }
        }
        list
    }

    fn after(&self) -> &[Setting] {
        &self.all[self.before..]
    }
}

/// A program and its arguments, and whether systemd cares if it fails.
struct Started {
    words: Vec<Vec<u8>>,
    may_fail: bool,
}

impl Unit {
    /// What systemd puts in for a %. `None`: only it knows.
    fn filled_in(&self, word: &[u8]) -> Option<Vec<u8>> {
        let stem = self.name.strip_suffix(".service").unwrap_or(&self.name);
        let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
        let mut bytes = word.iter();
        let mut whole = Vec::new();
        while let Some(&byte) = bytes.next() {
            match (byte, if byte == b'%' { bytes.next() } else { None }) {
                (b'%', Some(b'%')) => whole.push(b'%'),
                (b'%', Some(b'n')) => whole.extend_from_slice(self.name.as_bytes()),
                (b'%', Some(b'N')) => whole.extend_from_slice(stem.as_bytes()),
                (b'%', Some(b'p')) => whole.extend_from_slice(prefix.as_bytes()),
                (b'%', Some(b'i')) => whole.extend_from_slice(instance.as_bytes()),
                (b'%' | b'$', _) => return None,
                _ => whole.push(byte),
            }
        }
        Some(whole)
    }

    /// A program that is named without a path is one of systemd's own search.
    fn program(&self, name: &[u8]) -> Result<PathBuf> {
        let name = OsStr::from_bytes(name);
        if name.as_bytes().contains(&b'/') {
            return Ok(name.into());
        }
        let own = self.settings.in_force(&["ExecSearchPath"]);
        let own = own.iter().map(|one| one.value.as_str()).collect::<Vec<_>>().join(":");
        let path = if own.is_empty() { PATH } else { &own };
        which::which_in(name, Some(path), "/")
            .map_err(|_| failure(NOT_FOUND, format!("no such program in {path}: {}", name.display())))
    }

    /// What is to be run, and a program of env(1) instead of that.
    fn check_started(&self, started: &Started, described: &Elf, notes: &mut Vec<String>) -> Result<()> {
        let shown = |words: &[Vec<u8>]| String::from_utf8_lossy(&words.join(&b' ')).into_owned();
        let mut words = started.words.clone();
        loop {
            let Some(name) = words.first().and_then(|word| self.filled_in(word)) else {
                notes.push(format!("{} is not looked at: only systemd knows what is started", shown(&words)));
                return Ok(());
            };
            let program = servable::check(self.program(&name)?.as_os_str(), described)?;
            if program.file_name() == Some(OsStr::new(CLUSTER_STARTER)) {
                let message = format!(
                    "{}: {CLUSTER_STARTER} gives the server none of the unit's variables: add a line  LD_PRELOAD = 'FILE'  \
                     to /etc/postgresql/VERSION/CLUSTER/environment, where FILE is a libhakmem.so.0",
                    self.name
                );
                return Err(failure(CANNOT_RUN, message));
            }
            if !program::is_env(&program) {
                if program::interpreters(&program)?.1 {
                    notes.push(
                        format!("{} looks for its interpreter along the service's PATH", program.display())
                            + OTHER_PATH,
                    );
                }
                return Ok(());
            }
            let its = env_command::started(&words[1..], &|text| text::words(text));
            let options = &words[1..words.len().saturating_sub(its.command.len()).max(1)];
            if options.iter().any(|word| word.contains(&b'$')) {
                notes.push(format!("{}: what a $ stands for among env's words is not looked at", shown(&words)));
            }
            if let Some(name) = its.command.first().filter(|name| !name.contains(&b'/')) {
                let name = String::from_utf8_lossy(name);
                notes.push(format!("env looks for {name} along the service's PATH") + OTHER_PATH);
            }
            if let Some(lost) = its.lost {
                let message = format!("{}: {lost} in ExecStart= takes LD_PRELOAD away from the program", self.name);
                return Err(failure(CANNOT_RUN, message + "; give the program itself to a drop-in's ExecStart="));
            }
            if its.command.is_empty() {
                return Ok(());
            }
            words = its.command;
        }
    }

    fn started(&self) -> Result<Vec<Started>> {
        let mut all = Vec::new();
        for one in self.settings.in_force(&["ExecStart"]) {
            let Some(commands) = text::commands(&one.value) else {
                let message = format!("{}: ExecStart={} has a quote that is not closed", self.name, one.value);
                return Err(failure(CANNOT_RUN, message));
            };
            for mut words in commands {
                let end = words[0].iter().position(|byte| !b"@-:+!|".contains(byte)).unwrap_or(words[0].len());
                let before: Vec<u8> = words[0].drain(..end).collect();
                // After an @ the second word is not an argument, but the name of the first.
                if before.contains(&b'@') && words.len() > 1 {
                    words.remove(1);
                }
                all.push(Started { words, may_fail: before.contains(&b'-') });
            }
        }
        Ok(all)
    }

    /// Nothing that would undo the drop-in or be undone by it, and programs that it would serve. Returns what the user
    /// has to know.
    pub fn check(&self, library: &Path, described: &Elf, env: &[(String, String)], user: bool) -> Result<Vec<String>> {
        let refuse = |reason: String| Err(failure(CANNOT_RUN, format!("{}: {reason}", self.name)));
        let mut notes = Vec::new();
        environment::check(self, env, &mut notes)?;
        for file in manager::for_all(user)? {
            notes.push(format!("{} sets LD_PRELOAD for all services: it is lost to this one", file.display()));
        }
        for name in ["RootDirectory", "RootImage", "MountImages"] {
            if let Some(value) = self.settings.last(name).filter(|value| *value != "/") {
                return refuse(format!("it runs in a root of its own ({name}={value}), where the library is not"));
            }
        }
        let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
        if let Some(one) = hidden.iter().find(|one| !user && library.starts_with(one)) {
            return refuse(format!("services may not see what is in {one}, where the library would be: use --prefix"));
        }
        match sight::check(&self.settings, library) {
            Ok(unknown) => notes.extend(unknown),
            Err(reason) => return refuse(format!("{reason}: use another --prefix")),
        }
        match calls::check(&self.settings, calls::Groups::of_systemd) {
            Ok(note) => notes.extend(note),
            Err(calls) => {
                let edit = if user { "systemctl --user edit" } else { "systemctl edit" };
                return refuse(format!(
                    "its SystemCallFilter= would end it for calls that hakmem makes: let  {edit} {}  add a line  \
                     SystemCallFilter={calls}  to its [Service]",
                    self.name
                ));
            }
        }
        let started = self.started()?;
        if started.is_empty() {
            return refuse("it starts no program (no ExecStart=)".into());
        }
        let mut served = 0;
        for one in &started {
            match self.check_started(one, described, &mut notes) {
                Ok(()) => served += 1,
                // As systemd does.
                Err(error) if one.may_fail && code_of(&error) == NOT_FOUND => notes.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        if served == 0 {
            return Err(failure(
                NOT_FOUND,
                format!("{}: none of its programs is there: {}", self.name, notes.join(", ")),
            ));
        }
        Ok(notes)
    }

    /// Has systemd read unit and drop-in, elsewhere. false: there is no systemd to ask.
    pub fn verify(&self, drop_in: &str) -> Result<bool> {
        if which::which("systemd-analyze").is_err() {
            return Ok(false);
        }
        let place = Temporary::make()?;
        let directory = place.path().join(format!("{}.d", self.name));
        fs::create_dir(&directory)?;
        // Those of a user are not where this looks by itself.
        for file in &self.drop_ins {
            fs::copy(file, directory.join(file.file_name().expect("a file has a name")))?;
        }
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
        let refused = |line: &&str| line.contains(&self.name) && line.ends_with("Refusing.");
        if let Some(line) = said.lines().find(refused) {
            return Err(failure(CANNOT_RUN, format!("systemd refuses the unit: {line}")));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(fragment: PathBuf) -> Unit {
        let settings = Settings { all: Vec::new(), before: 0 };
        Unit { name: "one@a.service".into(), drop_in: PathBuf::new(), fragment, drop_ins: Vec::new(), settings }
    }

    #[test]
    fn systemd_is_asked() {
        let place = tempfile::tempdir().unwrap();
        let fragment = place.path().join("one@.service");
        fs::write(&fragment, "[Service]\nExecStart=/bin/true\n").unwrap();
        let unit = unit(fragment);
        let there = unit.verify("[Service]\nEnvironment=LD_PRELOAD=/lib/a.so\n").unwrap();
        let error = unit.verify("[Service]\nEnvironment=LD_PRELOAD\n").map_err(|error| error.to_string());
        assert!(!there || error.as_ref().is_err_and(|error| error.contains("does not understand")), "{error:?}");
    }

    #[test]
    fn what_a_name_stands_for_is_filled_in() {
        let unit = unit(PathBuf::new());
        for (word, expected) in
            [("/a/%i%%", Some("/a/a%")), ("%n %N %p", Some("one@a.service one@a one")), ("%h", None), ("$A", None)]
        {
            assert_eq!(unit.filled_in(word.as_bytes()), expected.map(|its| its.as_bytes().to_vec()), "{word}");
        }
    }
}
