// SPDX-License-Identifier: MIT
//! `hak peers`

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::allocators::{self, Known};
use crate::cli::Peers;
use crate::failure::{BAD_INPUT, failure};
use crate::output;
use crate::report::table;
use crate::upstream;

/// Versions that name a commit are long.
fn shortened(source: &str) -> String {
    const LONGEST: usize = 44;
    if source.chars().count() <= LONGEST {
        return source.into();
    }
    source.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// A build tree may lack some of them, but it has to be there.
fn check(build: &Path) -> Result<()> {
    fs::read_dir(build).map(drop).map_err(|error| failure(BAD_INPUT, format!("{}: {error}", build.display())))
}

pub fn run(arguments: &Peers) -> Result<u8> {
    arguments.build.as_deref().map_or(Ok(()), check)?;
    let known = allocators::known(arguments.build.as_deref());
    let mut table = table::new(&["allocator", "version", "newest upstream", "from", "library"]);
    for one in &known {
        if let Ok(allocator) = &one.allocator {
            let library = allocator.library.as_ref();
            table.add_row([
                allocator.name.clone(),
                allocator.version.clone(),
                upstream::newest(&allocator.name, &allocator.version),
                shortened(&allocator.source),
                library.map_or("-".into(), |path| path.display().to_string()),
            ]);
        }
    }
    let mut text = format!("{table}\n");
    let missing: Vec<(&Known, &String)> =
        known.iter().filter_map(|one| Some((one, one.allocator.as_ref().err()?))).collect();
    for (one, reason) in &missing {
        let _ = writeln!(text, "missing: {}: {reason}", one.name);
    }
    let _ = writeln!(
        text,
        "\n{}\n{} of {} are here. Others can be given with --allocator NAME=/path/lib.so.",
        upstream::explained(),
        known.len() - missing.len(),
        known.len()
    );
    output::print(&text)?;
    Ok(0)
}
