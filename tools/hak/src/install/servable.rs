// SPDX-License-Identifier: MIT
//! Whether what is installed would serve a program, for whoever starts it later.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::elf::Elf;
use crate::failure::{CANNOT_RUN, failure};
use crate::install::root;
use crate::program::{self, Way};

/// The program's absolute name. Not that of what a link leads to: many programs are named by their links.
pub fn check(program: &OsStr, library: &Elf) -> Result<PathBuf> {
    let found = root::absolute(&program::find(program)?)?;
    check_rights(&found)?;
    match program::check(found.as_os_str(), library)? {
        Way::Preloaded => {
            program::interpreters(&found)?.0.iter().try_for_each(|one| check_rights(one))?;
            Ok(found)
        }
        Way::Own(_) => {
            let message = format!("{} is linked with libhakmem.a, and needs nothing", found.display());
            Err(failure(CANNOT_RUN, message))
        }
    }
}

fn check_rights(path: &Path) -> Result<()> {
    let Some(reason) = gains_rights(path)? else {
        return Ok(());
    };
    let path = path.display();
    let message =
        format!("cannot serve {path}: it is {reason}, and the dynamic linker ignores LD_PRELOAD for such programs");
    Err(failure(CANNOT_RUN, message))
}

/// Unlike `hak run`, which knows who starts it.
fn gains_rights(path: &Path) -> Result<Option<&'static str>> {
    let mode = fs::metadata(path)?.permissions().mode();
    let mut capabilities = [0u8; 64];
    Ok(if mode & 0o4000 != 0 {
        Some("set-uid")
    } else if mode & 0o2010 == 0o2010 {
        Some("set-gid")
    } else if rustix::fs::getxattr(path, "security.capability", &mut capabilities[..]).is_ok() {
        Some("one with file capabilities")
    } else {
        None
    })
}
