// SPDX-License-Identifier: MIT
//! peers.json: what was built, for whoever runs programs under it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::file;
use crate::peer::Peer;
use crate::source::Source;

pub const FILE: &str = "peers.json";

#[derive(Serialize)]
pub struct Entry {
    pub name: String,
    /// Upstream's version, not the crate's.
    pub version: String,
    /// The file beside peers.json.
    pub library: String,
    pub source: String,
    /// To be set, beside LD_PRELOAD, where the library is used.
    pub environment: BTreeMap<String, String>,
}

impl Entry {
    pub fn new(peer: &Peer, source: &Source, version: String) -> Entry {
        Entry {
            name: peer.name.to_owned(),
            version,
            library: peer.library(),
            source: format!("crate {} {}", source.crate_name, source.version),
            environment: peer
                .environment
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        }
    }
}

pub fn write(out: &Path, entries: &[Entry]) -> Result<()> {
    let mut json = serde_json::to_vec_pretty(entries)?;
    json.push(b'\n');
    file::replace(&out.join(FILE), &json)
}
