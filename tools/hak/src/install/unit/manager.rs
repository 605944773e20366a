// SPDX-License-Identifier: MIT
//! LD_PRELOAD in what a manager of systemd hands to all that it starts.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::install::root;
use crate::install::unit::environment::variables_of;
use crate::install::unit::files::configurations;
use crate::install::unit::{DROP_IN, PRELOAD, text, variables};

/// What is before goes before.
const CONFIGURATIONS: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];

/// Files of environment.d(5) that set LD_PRELOAD, hak's own left out, and to what.
fn of_sessions() -> Result<Vec<(PathBuf, String)>> {
    let mut directories = vec![root::configuration()?.join("environment.d")];
    directories.extend(CONFIGURATIONS.iter().map(|one| Path::new(one).join("environment.d")));
    let files = configurations(&directories).into_iter().filter(|(name, _)| name != DROP_IN);
    let set = files.filter_map(|(_, path)| {
        let all = variables::assigned(&fs::read(&path).ok()?);
        all.into_iter().rfind(|(name, _)| name == PRELOAD).map(|(_, value)| (path, value))
    });
    Ok(set.collect())
}

/// The file that would take LD_PRELOAD from every session again, and what it sets instead.
pub fn replaced_later() -> Result<Option<(PathBuf, String)>> {
    let later = |path: &Path| path.file_name() > Some(OsStr::new(DROP_IN));
    Ok(of_sessions()?.into_iter().rfind(|(path, value)| later(path) && !value.contains(PRELOAD)))
}

/// The files that set LD_PRELOAD for every service, which a drop-in goes before.
pub fn for_all(user: bool) -> Result<Vec<PathBuf>> {
    // What is the manager's own reaches what it starts in a user's alone.
    let (name, lists) = match user {
        true => ("user.conf", &["DefaultEnvironment", "ManagerEnvironment"][..]),
        false => ("system.conf", &["DefaultEnvironment"][..]),
    };
    let mut places: Vec<PathBuf> = CONFIGURATIONS.iter().map(|one| Path::new(one).join("systemd")).collect();
    let mut found = Vec::new();
    if user {
        places.insert(0, root::configuration()?.join("systemd"));
        found.extend(of_sessions()?.into_iter().map(|(path, _)| path));
    }
    let main = places.iter().map(|one| one.join(name)).find(|one| one.exists());
    let drop_ins: Vec<_> = places.iter().map(|one| one.join(format!("{name}.d"))).collect();
    for path in main.into_iter().chain(configurations(&drop_ins).into_values()) {
        let settings = text::settings_of(&path, &fs::read(&path).unwrap_or_default(), "[Manager]")?;
        let environments = settings.iter().filter(|one| lists.contains(&&*one.name));
        if environments.flat_map(|one| variables_of(&one.value)).any(|name| name == PRELOAD) {
            found.push(path);
        }
    }
    Ok(found)
}
