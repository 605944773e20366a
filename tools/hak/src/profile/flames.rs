// SPDX-License-Identifier: MIT
//! Folded stacks, and flame graphs of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use inferno::flamegraph::{self, Options};

use crate::profile::Profile;
use crate::profile::names::Names;
use crate::profile::samples::Value;

/// A line for each stack, with its bytes; of growth, those that have grown. Stacks of the same names are one.
pub fn folded(profile: &Profile, value: Value, thread: Option<u32>) -> String {
    let mut names = Names::new(&profile.modules, &profile.library);
    let mut lines: BTreeMap<String, f64> = BTreeMap::new();
    for (stack, bytes) in profile.samples.by_stack(value, profile.growth, thread) {
        *lines.entry(names.line(&profile.samples.stacks[stack])).or_default() += bytes;
    }
    let mut text = String::new();
    for (line, bytes) in lines.iter().filter(|(_, bytes)| **bytes >= 0.5) {
        let _ = writeln!(text, "{line} {bytes:.0}");
    }
    text
}

/// `None`: there is nothing to draw. With a script, parts can be enlarged and searched for.
pub fn svg(title: &str, folded: &str, has_script: bool) -> Result<Option<String>> {
    if folded.is_empty() {
        return Ok(None);
    }
    let mut options = Options::default();
    options.title = title.into();
    options.count_name = "bytes".into();
    options.deterministic = true;
    options.no_javascript = !has_script;
    options.image_width = (!has_script).then_some(1160);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut svg)?;
    Ok(Some(String::from_utf8(svg)?))
}
