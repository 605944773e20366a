// SPDX-License-Identifier: MIT
//! Where things are installed: names made absolute, and `--root`.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::failure::{BAD_INPUT, failure};

/// From here on every name is one inside the directory. A link in it cannot lead out of it.
pub fn enter(root: Option<&Path>) -> Result<()> {
    let Some(root) = root else {
        return Ok(());
    };
    let cannot = |error: rustix::io::Errno| {
        failure(BAD_INPUT, format!("cannot work inside {}: {error} (--root is for root)", root.display()))
    };
    rustix::process::chroot(root).map_err(cannot)?;
    rustix::process::chdir("/").map_err(cannot)
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where library and records are.
pub fn prefix(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(prefix) => absolute(prefix),
        None if is_root() => Ok("/usr/local".into()),
        None => {
            let home = home().map_err(|error| failure(BAD_INPUT, format!("{error}; or name a place with --prefix")))?;
            Ok(home.join(".local"))
        }
    }
}

/// The user's directory. A root that has somebody else's would leave files there that this user cannot remove.
pub fn home() -> Result<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| failure(BAD_INPUT, "HOME is not set to an absolute path"))?;
    match home.metadata() {
        Ok(its) if is_root() && its.uid() != 0 => {
            let message = format!("{} is not root's: run hak as the user whose it is", home.display());
            Err(failure(BAD_INPUT, message))
        }
        _ => absolute(&home),
    }
}

/// The user's configuration, as the user's systemd looks for it.
pub fn configuration() -> Result<PathBuf> {
    let home = home()?;
    let named = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    Ok(named.unwrap_or_else(|| home.join(".config")))
}

/// Without `.` and `..`, and as text, since it is recorded as JSON.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    let bad = |reason: &str| failure(BAD_INPUT, format!("{}: {reason}", path.display()));
    let whole = std::path::absolute(path).map_err(|error| bad(&error.to_string()))?;
    if whole.to_str().is_none() {
        return Err(bad("a name that is not UTF-8 cannot be recorded"));
    }
    if whole.components().any(|part| part == Component::ParentDir) {
        return Err(bad("a name with .. in it may lead elsewhere than it seems: name the place itself"));
    }
    Ok(whole)
}
