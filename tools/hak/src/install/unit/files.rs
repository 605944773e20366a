// SPDX-License-Identifier: MIT
//! Where systemd looks for a unit and its drop-ins (systemd.unit(5)): aliases, templates and prefixes of its name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::failure::{BAD_INPUT, failure};
use crate::install::root;

/// What is before goes before.
const SYSTEM: [&str; 12] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const SYSTEM_LATE: &str = "/run/systemd/generator.late";
/// Below the directory of the user's session.
const SESSION: [&str; 5] = ["user.control", "transient", "generator.early", "user", "generator"];
const USER: [&str; 8] = [
    "/etc/systemd/user",
    "/run/systemd/user",
    "/usr/local/share/systemd/user",
    "/usr/share/systemd/user",
    "/usr/local/lib/systemd/user",
    "/usr/lib/systemd/user",
    "/lib/systemd/user",
    "/etc/xdg/systemd/user",
];
/// Links of links that are followed.
const MOST_LINKS: usize = 16;
/// Of a name, suffix and all (UNIT_NAME_MAX without the end).
const MOST_LETTERS: usize = 255;
const SUFFIX: &str = ".service";

pub struct Places {
    /// Where an administrator, or the user, puts units.
    pub own: PathBuf,
    all: Vec<PathBuf>,
}

/// `name@instance.service` in its parts: before the @, and from it on, without the suffix.
fn parts(name: &str) -> (&str, &str) {
    let stem = name.strip_suffix(SUFFIX).unwrap_or(name);
    stem.find('@').map_or((stem, ""), |at| stem.split_at(at))
}

/// `name@instance.service` is described by `name@.service`.
fn template(name: &str) -> Option<String> {
    let (before, instance) = parts(name);
    (instance.len() > 1).then(|| format!("{before}@{SUFFIX}"))
}

/// The name of the instance, if `name` is that of its template.
fn instance_of(name: &str, other: &str) -> String {
    let ((before, instance), (_, its)) = (parts(name), parts(other));
    if instance == "@" && its.len() > 1 { format!("{before}{its}{SUFFIX}") } else { name.to_owned() }
}

/// The name itself, its template, and both with what is before each dash: `a-b@c` is `a-@c`, `a-@` and `a-`, too.
fn variants(name: &str) -> Vec<String> {
    let mut all = vec![name.to_owned()];
    all.extend(template(name).into_iter().flat_map(|one| variants(&one)));
    let (before, instance) = parts(name);
    let shorter = before.strip_suffix('-').unwrap_or(before);
    if let Some(at) = shorter.rfind('-') {
        // What a template is cut to is none, to systemd.
        let instance = if instance == "@" { "" } else { instance };
        all.extend(variants(&format!("{}{instance}{SUFFIX}", &shorter[..=at])));
    }
    all
}

/// A link to nowhere, or an empty file, says that there is to be nothing.
fn is_mask(path: &Path) -> bool {
    let null = path.canonicalize().is_ok_and(|path| path == Path::new("/dev/null"));
    null || fs::metadata(path).is_ok_and(|its| its.is_file() && its.len() == 0)
}

/// The *.conf of directories, as systemd reads them: by name, wherever they are. Of one name only the first counts.
pub fn configurations(directories: &[PathBuf]) -> BTreeMap<OsString, PathBuf> {
    let mut files = BTreeMap::new();
    for entry in directories.iter().filter_map(|one| fs::read_dir(one).ok()).flatten().flatten() {
        if entry.path().extension().is_some_and(|its| its == "conf") {
            files.entry(entry.file_name()).or_insert_with(|| entry.path());
        }
    }
    files
}

impl Places {
    pub fn new(user: bool) -> Result<Places> {
        if !user {
            let all = SYSTEM.iter().chain([&SYSTEM_LATE]).map(PathBuf::from).collect();
            return Ok(Places { own: "/etc/systemd/system".into(), all });
        }
        let configuration = root::configuration()?.join("systemd");
        let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let of_session = |name: &str| session.as_ref().map(|path| path.join("systemd").join(name));
        let mut all = vec![configuration.join("user.control")];
        all.extend(SESSION[..3].iter().copied().filter_map(of_session));
        all.push(configuration.join("user"));
        all.extend(USER[..2].iter().map(PathBuf::from));
        all.extend(SESSION[3..].iter().copied().filter_map(of_session));
        all.push(root::home()?.join(".local/share/systemd/user"));
        all.extend(USER[2..].iter().map(PathBuf::from));
        all.extend(of_session("generator.late"));
        Ok(Places { own: configuration.join("user"), all })
    }

    /// The file of that name, or of its template, and the name that it has where the file is an alias.
    fn look_up(&self, name: &str) -> Option<(String, PathBuf)> {
        let names = std::iter::once(name.to_owned()).chain(template(name));
        let there =
            |one: String| self.all.iter().map(|place| place.join(&one)).find(|path| path.symlink_metadata().is_ok());
        let path = names.into_iter().find_map(there)?;
        let Ok(target) = fs::read_link(&path) else {
            return Some((name.to_owned(), path));
        };
        let target = path.with_file_name(target);
        let directory = target.parent().and_then(|one| one.canonicalize().ok());
        let of_systemd = self.all.iter().any(|place| place.canonicalize().ok() == directory);
        match target.file_name().and_then(|its| its.to_str()).filter(|its| its.ends_with(SUFFIX)) {
            // Elsewhere it is a file that is linked to be found, by the link's name.
            Some(its) if directory.is_some() && of_systemd => Some((instance_of(its, name), path)),
            _ => Some((name.to_owned(), path)),
        }
    }

    /// A unit's own name, which is not an alias, and its file.
    pub fn find(&self, name: &str) -> Result<(String, PathBuf)> {
        let mut found: Option<(String, PathBuf)> = None;
        for _ in 0..MOST_LINKS {
            let asked = found.as_ref().map_or(name, |found| &found.0);
            let Some(next) = self.look_up(asked) else {
                let message = format!("there is no unit {asked} in {}", self.own.display());
                return Err(failure(BAD_INPUT, message + ", nor in the other places where systemd looks"));
            };
            if is_mask(&next.1) {
                return Err(failure(BAD_INPUT, format!("{asked} is masked ({})", next.1.display())));
            }
            let known = next.0 == asked;
            found = Some(next);
            if known {
                break;
            }
        }
        Ok(found.expect("it was looked up"))
    }

    /// The other names of a unit: links to it.
    fn aliases(&self, name: &str) -> Vec<String> {
        let mut all = Vec::new();
        for entry in self.all.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten() {
            let Some(its) = entry.file_name().to_str().filter(|its| its.ends_with(SUFFIX)).map(str::to_owned) else {
                continue;
            };
            let alias = instance_of(&its, name);
            let new = alias != name && !all.contains(&alias) && entry.path().is_symlink();
            if new && self.find(&alias).is_ok_and(|found| found.0 == name) {
                all.push(alias);
            }
        }
        all
    }

    /// In the order in which systemd reads them.
    pub fn drop_ins(&self, name: &str) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        for name in std::iter::once(name.to_owned()).chain(self.aliases(name)) {
            for place in &self.all {
                directories.extend(variants(&name).into_iter().map(|one| place.join(format!("{one}.d"))));
            }
        }
        directories.extend(self.all.iter().map(|place| place.join("service.d")));
        configurations(&directories).into_values().collect()
    }
}

/// What systemd takes as a unit's name: systemd.unit(5).
pub fn is_name(name: &str) -> bool {
    let taken = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    name.len() <= MOST_LETTERS && name.chars().all(taken) && !name.starts_with(['@', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_systemd_takes() {
        for (name, expected) in [
            ("a-b_c:d\\x2d.e@9.6@x.service", true),
            ("a@%h.service", false),
            ("a@x;y.service", false),
            ("a@\u{fc}.service", false),
        ] {
            assert_eq!(is_name(name), expected, "{name}");
        }
        assert!(!is_name(&"a".repeat(256)) && !is_name("@a.service"));
    }

    #[test]
    fn instances_have_templates() {
        assert_eq!(template("a@b.service").as_deref(), Some("a@.service"));
        assert_eq!(template("a@.service"), None);
        assert_eq!(template("a.service"), None);
        assert_eq!(instance_of("b@.service", "a@x.service"), "b@x.service");
        assert_eq!(instance_of("b.service", "a.service"), "b.service");
    }

    #[test]
    fn what_is_before_a_dash_names_drop_ins_too() {
        assert_eq!(variants("a-b-c.service"), ["a-b-c.service", "a-b-.service", "a-.service"]);
        assert_eq!(
            variants("a-b@c-d.service"),
            ["a-b@c-d.service", "a-b@.service", "a-.service", "a-@c-d.service", "a-@.service"]
        );
        assert_eq!(variants("a-.service"), ["a-.service"]);
    }
}
