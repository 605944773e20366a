// SPDX-License-Identifier: MIT
//! Whether a drop-in's variables reach what a unit starts, as they are: systemd.exec(5), environment.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::failure::{BAD_INPUT, CANNOT_RUN, failure};
use crate::install::unit::{PRELOAD, Unit, text, variables};

/// What a variable is called that a word sets, or only names.
fn variable(word: &[u8]) -> String {
    String::from_utf8_lossy(word.split(|&byte| byte == b'=').next().unwrap_or_default()).into_owned()
}

pub fn variables_of(value: &str) -> Vec<String> {
    text::words(value).unwrap_or_default().iter().map(|word| variable(word)).collect()
}

/// Which of the names a file of variables sets.
fn sets(file: &[u8], names: &[&str]) -> Option<String> {
    variables::assigned(file).into_iter().map(|(name, _)| name).find(|name| names.contains(&name.as_str()))
}

pub fn check(unit: &Unit, env: &[(String, String)], notes: &mut Vec<String>) -> Result<()> {
    let refuse = |reason: String| Err(failure(CANNOT_RUN, format!("{}: {reason}", unit.name)));
    let settings = &unit.settings;
    let own: Vec<&str> = [PRELOAD].into_iter().chain(env.iter().map(|(name, _)| name.as_str())).collect();
    for one in settings.after().iter().filter(|one| one.name == "Environment") {
        let file = one.file.display();
        if one.value.is_empty() {
            return refuse(format!("{file} is read later, and forgets all variables (Environment=)"));
        }
        let set = variables_of(&one.value).into_iter().find(|name| own.contains(&name.as_str()) && name != PRELOAD);
        if let Some(name) = set {
            return refuse(format!("{file} is read later, and sets {name} (Environment={})", one.value));
        }
    }
    for one in settings.in_force(&["Environment"]).into_iter().chain(settings.in_force(&["PassEnvironment"])) {
        if variables_of(&one.value).iter().any(|name| name == PRELOAD) {
            let what = format!("{}={}", one.name, one.value);
            return refuse(format!(
                "it sets LD_PRELOAD already ({what} in {}), and one of the two would be lost",
                one.file.display()
            ));
        }
    }
    for one in settings.in_force(&["UnsetEnvironment"]) {
        if let Some(name) = variables_of(&one.value).iter().find(|name| own.contains(&name.as_str())) {
            return refuse(format!("it takes {name} away from what it starts (UnsetEnvironment={})", one.value));
        }
    }
    settings.in_force(&["EnvironmentFile"]).iter().try_for_each(|one| check_files(unit, &one.value, &own, notes))
}

/// Files of variables go before any drop-in.
fn check_files(unit: &Unit, value: &str, own: &[&str], notes: &mut Vec<String>) -> Result<()> {
    let pattern = unit.filled_in(value.trim_start_matches('-').as_bytes());
    let Some(pattern) = pattern.and_then(|its| String::from_utf8(its).ok()) else {
        notes.push(format!("EnvironmentFile={value} is not looked at: LD_PRELOAD in it would go before"));
        return Ok(());
    };
    let files: Vec<PathBuf> =
        glob::glob(&pattern).map(|all| all.filter_map(std::result::Result::ok).collect()).unwrap_or_default();
    if files.is_empty() {
        notes.push(format!("{pattern} is not there: should it set LD_PRELOAD once, that goes before"));
    }
    for file in files {
        let text = fs::read(&file).map_err(|error| {
            let message = format!("{}: EnvironmentFile {}: {error}", unit.name, file.display());
            failure(BAD_INPUT, message)
        })?;
        if let Some(name) = sets(&text, own) {
            let message = format!("{} sets {name}, which goes before the drop-in (EnvironmentFile=)", file.display());
            return Err(failure(CANNOT_RUN, format!("{}: {message}", unit.name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_variables_sets_what_is_no_comment() {
        for (text, expected) in [
            ("# LD_PRELOAD=/a\nB=LD_PRELOAD=\n", None),
            ("A=b \\\n LD_PRELOAD=/a\n", None),
            ("A=b\n LD_PRELOAD = /a\n", Some("LD_PRELOAD")),
        ] {
            assert_eq!(sets(text.as_bytes(), &["LD_PRELOAD"]).as_deref(), expected, "{text}");
        }
    }
}
