// SPDX-License-Identifier: MIT
//! The allocators that programs can be run under, and where they are found.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cli::Choice;
use crate::elf;
use crate::failure::{BAD_INPUT, failure};
use crate::fingerprint;
use crate::library;
use crate::places::Build;

pub const SYSTEM: &str = "glibc";
pub const HAKMEM: &str = "hakmem";
/// The program as it is, where that is not the C library's malloc.
pub const SHIPPED: &str = "as shipped";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allocator {
    pub name: String,
    pub version: String,
    /// `None`: the C library's own, nothing is preloaded.
    pub library: Option<PathBuf>,
    pub source: String,
    /// What has to be set for it to work at all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// As its library names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// Of its library's bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

impl Allocator {
    /// With what tells its library from another of the same name. That takes a moment.
    pub fn identified(self) -> Allocator {
        let library = self.library.as_deref();
        let compiler = library.and_then(|path| elf::compiler(path).ok().flatten());
        let fingerprint = library.and_then(|path| fingerprint::of(path).ok());
        Allocator { compiler, fingerprint, ..self }
    }

    /// Since it was identified.
    pub fn was_replaced(&self) -> bool {
        let now = self.library.as_deref().map(fingerprint::of);
        now.is_some_and(|now| self.fingerprint.is_some() && now.ok() != self.fingerprint)
    }

    /// LD_PRELOAD for a program under it. `last` goes behind it.
    pub fn preload(&self, last: &[&Path]) -> Option<OsString> {
        let mut list = OsString::new();
        for path in self.library.iter().map(PathBuf::as_path).chain(last.iter().copied()) {
            if !list.is_empty() {
                list.push(":");
            }
            list.push(path);
        }
        (!list.is_empty()).then_some(list)
    }
}

/// One that the tool knows of.
pub struct Known {
    pub name: String,
    /// Or why it is not there, and how to get it.
    pub allocator: Result<Allocator, String>,
}

/// Those that distributions package.
const PACKAGED: [(&str, &str, &str); 4] = [
    ("mimalloc-deb", "libmimalloc.so.2", "libmimalloc2.0"),
    ("jemalloc-deb", "libjemalloc.so.2", "libjemalloc2"),
    ("tcmalloc-deb", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("tbbmalloc-deb", "libtbbmalloc_proxy.so.2", "libtbbmalloc2"),
];

/// Those that bench/peers builds.
const BUILT: [&str; 5] = ["mimalloc3", "snmalloc", "rpmalloc", "jemalloc", "tcmalloc"];

pub fn known(build: Option<&Path>) -> Vec<Known> {
    let mut list = vec![
        Known { name: SYSTEM.into(), allocator: Ok(system()) },
        Known {
            name: HAKMEM.into(),
            allocator: library::hakmem(None, build)
                .map(|path| named(HAKMEM, &path, "this project"))
                .map_err(|error| error.to_string()),
        },
    ];
    list.extend(built(&Build::find(build).peers()));
    list.extend(PACKAGED.iter().map(|&(name, soname, package)| {
        Known {
            name: name.into(),
            allocator: library::installed(soname)
                .map(|path| named(name, &path, &format!("Debian package {package}")))
                .ok_or_else(|| format!("{soname} is not installed; get it with: apt-get install {package}")),
        }
    }));
    list
}

/// The allocators that the user asked for; all that are there when none was named.
pub fn choose(choice: &Choice) -> Result<Vec<Allocator>> {
    choose_or(choice, |reason| Err(failure(BAD_INPUT, reason)))
}

/// The same, and the reasons why others are left out: those whose libraries are not there.
pub fn choose_there(choice: &Choice) -> Result<(Vec<Allocator>, Vec<String>)> {
    let mut left_out = Vec::new();
    let chosen = choose_or(choice, |reason| {
        left_out.push(reason);
        Ok(())
    })?;
    Ok((chosen, left_out))
}

/// What is done about a library that is not there says `missing`.
fn choose_or(choice: &Choice, mut missing: impl FnMut(String) -> Result<()>) -> Result<Vec<Allocator>> {
    let given = choice.allocator.iter().map(|text| parse_given(text)).collect::<Result<Vec<_>>>()?;
    for (index, allocator) in given.iter().enumerate() {
        if given[..index].iter().any(|other| other.name == allocator.name) {
            let message = format!("--allocator: two libraries are called '{}'", allocator.name);
            return Err(failure(BAD_INPUT, message));
        }
    }
    let mut known = known(choice.build.as_deref());
    known.retain(|one| given.iter().all(|allocator| allocator.name != one.name));

    let mut chosen = Vec::new();
    if choice.allocators.is_empty() {
        for one in known {
            match one.allocator {
                Ok(allocator) => chosen.push(allocator),
                Err(reason) if one.name == HAKMEM => missing(reason)?,
                Err(_) => {}
            }
        }
        chosen.extend(given);
        // hakmem second, wherever it came from.
        chosen.sort_by_key(|allocator| match allocator.name.as_str() {
            SYSTEM => 0,
            HAKMEM => 1,
            _ => 2,
        });
    } else {
        let names: Vec<String> = known.iter().map(|one| one.name.clone()).collect();
        for name in &choice.allocators {
            if chosen.iter().any(|allocator: &Allocator| allocator.name == *name) {
                continue;
            }
            if let Some(allocator) = given.iter().find(|allocator| allocator.name == *name) {
                chosen.push(allocator.clone());
            } else if let Some(one) = known.iter().find(|one| one.name == *name) {
                match &one.allocator {
                    Ok(allocator) => chosen.push(allocator.clone()),
                    Err(reason) => missing(format!("allocator '{name}' is not there: {reason}"))?,
                }
            } else {
                let names = names.join(", ");
                let message = format!(
                    "no allocator is called '{name}'; known are {names}; others can be given with --allocator {name}=/path/lib.so"
                );
                return Err(failure(BAD_INPUT, message));
            }
        }
        for allocator in given {
            if !chosen.contains(&allocator) {
                chosen.push(allocator);
            }
        }
    }
    Ok(chosen)
}

fn parse_given(text: &str) -> Result<Allocator> {
    let (name, path) =
        text.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty()).ok_or_else(|| {
            let message = format!("--allocator '{text}': expected NAME=/path/lib.so");
            failure(BAD_INPUT, message)
        })?;
    if name == SYSTEM {
        let message = format!("--allocator '{text}': '{SYSTEM}' is the system's own");
        return Err(failure(BAD_INPUT, message));
    }
    if name == SHIPPED {
        let message = format!("--allocator '{text}': '{SHIPPED}' is what a program comes with");
        return Err(failure(BAD_INPUT, message));
    }
    let path = library::usable(Path::new(path))?;
    Ok(named(name, &path, "given with --allocator"))
}

fn named(name: &str, library: &Path, source: &str) -> Allocator {
    let version = if name == HAKMEM { hakmem_version(library) } else { packaged_version(library) };
    Allocator {
        name: name.into(),
        version: version.or_else(|| version_in_name(library)).unwrap_or_else(|| "unknown".into()),
        library: Some(library.to_path_buf()),
        source: source.into(),
        environment: BTreeMap::new(),
        compiler: None,
        fingerprint: None,
    }
}

/// What a program brings along: a library, or itself.
pub fn shipped(object: &Path) -> Allocator {
    Allocator { name: SHIPPED.into(), library: None, ..named(SHIPPED, object, &object.display().to_string()) }
}

/// The C library's malloc, preloaded before what a program brings along.
pub fn preloaded_system() -> Allocator {
    Allocator { library: library::installed("libc.so.6"), ..system() }
}

pub fn system() -> Allocator {
    // SAFETY: the function returns a constant string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Allocator {
        name: SYSTEM.into(),
        version: version.to_string_lossy().into_owned(),
        library: None,
        source: "the C library".into(),
        environment: BTreeMap::new(),
        compiler: None,
        fingerprint: None,
    }
}

#[derive(Deserialize)]
struct Peer {
    name: String,
    version: String,
    library: PathBuf,
    source: String,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

fn built(directory: &Path) -> Vec<Known> {
    let list = read_peers(&directory.join("peers.json"));
    let peers = list.as_deref().unwrap_or_default();
    let mut names: Vec<&str> = BUILT.to_vec();
    names.extend(peers.iter().map(|peer| peer.name.as_str()).filter(|name| !BUILT.contains(name)));
    let how = "build it as bench/peers/README.md says";
    let known = names.into_iter().map(|name| {
        let peer = peers.iter().find(|peer| peer.name == name);
        let allocator = match (peer, &list) {
            (Some(peer), _) => library::usable(&directory.join(&peer.library))
                .map(|path| Allocator {
                    name: name.into(),
                    version: peer.version.clone(),
                    library: Some(path),
                    source: peer.source.clone(),
                    environment: peer.environment.clone(),
                    compiler: None,
                    fingerprint: None,
                })
                .map_err(|error| format!("{error}; {how}")),
            (None, Ok(_)) => Err(format!("not in {}; {how}", directory.join("peers.json").display())),
            (None, Err(error)) => Err(format!("{error:#}; {how}")),
        };
        Known { name: name.into(), allocator }
    });
    known.collect()
}

fn read_peers(file: &Path) -> Result<Vec<Peer>> {
    let say = || format!("cannot read {}", file.display());
    let text = fs::read_to_string(file).with_context(say)?;
    serde_json::from_str(&text).with_context(say)
}

/// hakmem says its version in its statistics.
fn hakmem_version(library: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Statistics {
        version: String,
    }
    let mut command = Command::new("true");
    command.env("LD_PRELOAD", library).env("HAKMEM_STATS_FILE", "/proc/self/fd/1").stdin(Stdio::null());
    let output = command.stderr(Stdio::null()).output().ok()?;
    Some(serde_json::from_slice::<Statistics>(&output.stdout).ok()?.version)
}

fn packaged_version(library: &Path) -> Option<String> {
    let query = |arguments: &[&str]| {
        let output = Command::new("dpkg-query").args(arguments).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let path = library.canonicalize().ok()?;
    let owner = query(&["-S", path.to_str()?])?;
    let package = owner.split_once(": ")?.0;
    query(&["-W", "-f", "${Version}", package])
}

/// `libname.so.1.2.3` is version 1.2.3.
fn version_in_name(library: &Path) -> Option<String> {
    let path = library.canonicalize().ok()?;
    let (_, version) = path.file_name()?.to_str()?.split_once(".so.")?;
    Some(version.to_owned())
}

/// Variables of the environment that tune an allocator. Measurements of the suite start without.
pub fn tuning_variables() -> Vec<OsString> {
    let prefixes = ["MALLOC_", "GLIBC_TUNABLES", "HAKMEM_", "MIMALLOC_", "TCMALLOC_", "JE_MALLOC_"];
    let tunes = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    env::vars_os().map(|(name, _)| name).filter(|name| name.to_str().is_some_and(tunes)).collect()
}
