// SPDX-License-Identifier: MIT
//! Whether others than root can change what a name leads to: everything on the way counts, links included.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::failure::{BAD_INPUT, failure};
use crate::install::root;

/// As many links as the kernel follows (MAXSYMLINKS).
const MAX_LINKS: usize = 40;

/// Every name that is looked up on the way, in their order, and those of the links among them where they lead.
fn way(path: &Path) -> Vec<PathBuf> {
    let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let mut left = parts(path);
    let (mut at, mut all, mut links) = (PathBuf::from("/"), Vec::new(), 0);
    while let Some(part) = left.pop() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => at = "/".into(),
            Some(Component::ParentDir) => drop(at.pop()),
            _ => at.push(&part),
        }
        all.push(at.clone());
        if let (true, Ok(target)) = (links < MAX_LINKS, fs::read_link(&at)) {
            links += 1;
            at.pop();
            left.extend(parts(&target));
        }
    }
    all
}

/// The first place on the way that is not root's alone, and why. What is not there yet will be made so that it is.
pub fn fault(path: &Path) -> Option<(PathBuf, &'static str)> {
    way(path).into_iter().find_map(|one| {
        let its = one.symlink_metadata().ok()?;
        if its.uid() != 0 {
            Some((one, "it is not root's"))
        } else if !its.is_symlink() && its.mode() & 0o022 != 0 && its.mode() & 0o1000 == 0 {
            Some((one, "others than root may change it"))
        } else {
            None
        }
    })
}

/// Root does what records say, and makes files there: so nobody else may be able to write them or move them.
pub fn check_prefix(prefix: &Path, records: &Path) -> Result<()> {
    if !root::is_root() {
        return Ok(());
    }
    let files = fs::read_dir(records).into_iter().flatten().flatten().map(|entry| entry.path());
    match [records.to_owned()].into_iter().chain(files).find_map(|one| fault(&one)) {
        Some((place, reason)) => {
            let message = format!(
                "root does not install or uninstall below {}: {}: {reason}; run hak as the user whose it is",
                prefix.display(),
                place.display()
            );
            Err(failure(BAD_INPUT, message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_on_the_way_is_looked_up() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("real/in")).unwrap();
        std::os::unix::fs::symlink("between", path("first")).unwrap();
        std::os::unix::fs::symlink(path("real"), path("between")).unwrap();
        let all = way(&path("first/in/file"));
        for name in ["first", "between", "real", "real/in", "real/in/file"] {
            assert!(all.contains(&path(name)), "{name}: {all:?}");
        }
        std::os::unix::fs::symlink("loop", path("loop")).unwrap();
        assert!(way(&path("loop")).contains(&path("loop")));
    }
}
