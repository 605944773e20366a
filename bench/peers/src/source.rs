// SPDX-License-Identifier: MIT
//! Where Cargo put the crates that carry the allocators' sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::semver::Version;
use cargo_metadata::{Metadata, MetadataCommand};

use crate::peer::Peer;

pub struct Sources(Metadata);

pub struct Source {
    pub directory: PathBuf,
    pub crate_name: String,
    pub version: Version,
}

impl Sources {
    /// Fetches what is not there yet, in the versions of Cargo.lock.
    pub fn fetch(home: &Path) -> Result<Sources> {
        let metadata = MetadataCommand::new()
            .manifest_path(home.join("Cargo.toml"))
            .other_options(["--locked".to_owned()])
            .exec()
            .context("cargo cannot fetch the sources")?;
        Ok(Sources(metadata))
    }

    pub fn of(&self, peer: &Peer) -> Result<Source> {
        let package = self
            .0
            .packages
            .iter()
            .find(|package| package.name.as_str() == peer.crate_name)
            .with_context(|| format!("Cargo.lock has no crate {}", peer.crate_name))?;
        let manifest = package.manifest_path.as_std_path();
        Ok(Source {
            directory: manifest.parent().unwrap_or(manifest).to_owned(),
            crate_name: peer.crate_name.to_owned(),
            version: package.version.clone(),
        })
    }
}
