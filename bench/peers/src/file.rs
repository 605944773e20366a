// SPDX-License-Identifier: MIT
//! Files that are whole or not there.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// A reader sees the old content or the new, never a part.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let write = || -> Result<()> {
        let directory = path.parent().context("it has no directory")?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(content)?;
        file.as_file()
            .set_permissions(Permissions::from_mode(0o644))?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
