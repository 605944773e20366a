// SPDX-License-Identifier: MIT
//! Whether a service may see the library, and run what is in it: systemd.exec(5), sandboxing.

use std::path::{Path, PathBuf};

use crate::install::unit::Settings;
use crate::install::unit::text::{is_true, words};

/// Something that is put over a directory of a service's own view.
struct Cover {
    at: PathBuf,
    /// The library is behind it as it is outside.
    same: bool,
    /// Nothing below can be seen, whatever is put there.
    closed: bool,
    setting: String,
}

const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// What a path is when the links on the way are followed, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    for one in path.ancestors() {
        if let Ok(there) = one.canonicalize() {
            let rest = path.strip_prefix(one).expect("it is an ancestor");
            return if rest.as_os_str().is_empty() { there } else { there.join(rest) };
        }
    }
    path.to_owned()
}

/// The paths of a list, without what is before them, and the setting as it is written.
fn paths(settings: &Settings, names: &[&str]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for value in settings.in_force(names) {
        for word in words(&value.value).unwrap_or_default() {
            let word = String::from_utf8_lossy(&word).into_owned();
            all.push((word.trim_start_matches(['-', '+']).to_owned(), format!("{}={word}", value.name)));
        }
    }
    all
}

/// `Err`: why it is not seen or may not be run. Otherwise what could not be decided.
pub fn check(settings: &Settings, library: &Path) -> Result<Vec<String>, String> {
    let library = resolved(library);
    let mut unknown = Vec::new();
    // What systemd puts in for a % may be anything from there on.
    let mut open = |path: &str, setting: &str| {
        let Some(at) = path.find('%') else {
            return false;
        };
        if library.to_string_lossy().starts_with(&path[..at]) {
            unknown.push(format!("whether {setting} hides {} is for systemd alone to know", library.display()));
        }
        true
    };
    let mut covers = Vec::new();
    for (path, setting) in paths(settings, &["InaccessiblePaths", "InaccessibleDirectories"]) {
        if !open(&path, &setting) {
            covers.push(Cover { at: resolved(Path::new(&path)), same: false, closed: true, setting });
        }
    }
    for (word, setting) in paths(settings, &["TemporaryFileSystem"]) {
        let path = word.split(':').next().unwrap_or_default();
        if !open(path, &setting) {
            covers.push(Cover { at: resolved(Path::new(path)), same: false, closed: false, setting });
        }
    }
    for (word, setting) in paths(settings, &["BindPaths", "BindReadOnlyPaths"]) {
        let mut parts = word.split(':');
        let from = parts.next().unwrap_or_default();
        let to = parts.next().filter(|to| !to.is_empty()).unwrap_or(from);
        if !open(to, &setting) {
            let (from, at) = (resolved(Path::new(from)), resolved(Path::new(to)));
            covers.push(Cover { same: from == at, at, closed: false, setting });
        }
    }
    let mut fixed = |places: &[&str], setting: String, closed: bool| {
        covers.extend(places.iter().map(|place| {
            let at = resolved(Path::new(place));
            Cover { at, same: false, closed, setting: setting.clone() }
        }));
    };
    match settings.last("ProtectHome") {
        Some("read-only") | None => {}
        Some("tmpfs") => fixed(&HOMES, "ProtectHome=tmpfs".into(), false),
        Some(value) if is_true(value) => fixed(&HOMES, format!("ProtectHome={value}"), true),
        Some(_) => {}
    }
    // DynamicUser= implies it.
    for name in ["PrivateTmp", "DynamicUser"] {
        if let Some(value) = settings.last(name).filter(|value| is_true(value) || *value == "disconnected") {
            fixed(&TEMPORARY, format!("{name}={value}"), false);
        }
    }
    let over: Vec<&Cover> = covers.iter().filter(|cover| library.starts_with(&cover.at)).collect();
    let nearest = over.iter().map(|cover| cover.at.components().count()).max();
    let hides = |cover: &&&Cover| cover.closed || !cover.same && Some(cover.at.components().count()) == nearest;
    if let Some(cover) = over.iter().find(hides) {
        return Err(format!("it does not see {}, where the library would be ({})", cover.at.display(), cover.setting));
    }

    let mut nearest: Option<(usize, bool, String)> = None;
    for (names, may) in [(["NoExecPaths"], false), (["ExecPaths"], true)] {
        for (path, setting) in paths(settings, &names) {
            let at = resolved(Path::new(&path));
            let count = at.components().count();
            if !open(&path, &setting) && library.starts_with(&at) && nearest.as_ref().is_none_or(|its| its.0 < count) {
                nearest = Some((count, may, setting));
            }
        }
    }
    if let Some((_, false, setting)) = nearest {
        return Err(format!("it may not run what is in {}, the library ({setting})", library.display()));
    }
    Ok(unknown)
}
