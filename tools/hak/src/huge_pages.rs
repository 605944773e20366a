// SPDX-License-Identifier: MIT
//! Transparent huge pages: runs under a setting of them that is not the machine's.
//!
//! `never` can be had for single processes (PR_SET_THP_DISABLE, which children inherit), and nothing
//! of the machine changes. The other settings are the whole system's and need the right to change it;
//! the old one is put back after each run.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use serde::Deserialize;

use crate::files;
use crate::interrupt;
use crate::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    Always,
    Madvise,
    Never,
}

impl Setting {
    pub fn name(self) -> &'static str {
        match self {
            Setting::Always => "always",
            Setting::Madvise => "madvise",
            Setting::Never => "never",
        }
    }
}

/// Of the setting that a row asks for, or of the one that is there.
pub fn name_of(wanted: Option<Setting>) -> String {
    wanted.map_or_else(|| Control::of_system().now(), |setting| setting.name().into())
}

/// The system's switch.
pub struct Control {
    file: PathBuf,
}

/// Undoes what `hold` has done.
#[derive(Debug)]
pub enum Held {
    Nothing,
    Process,
    System { file: PathBuf, before: String },
}

impl Control {
    pub fn of_system() -> Control {
        Control { file: "/sys/kernel/mm/transparent_hugepage/enabled".into() }
    }

    /// "unknown" where the kernel has no such thing. The file reads `always [madvise] never`.
    pub fn now(&self) -> String {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        chosen.map_or("unknown".into(), |(word, _)| word.to_owned())
    }

    /// Why programs cannot be run under it, if so.
    pub fn refuses(&self, wanted: Setting) -> Option<String> {
        if wanted == Setting::Never || self.now() == wanted.name() {
            return None;
        }
        let error = OpenOptions::new().write(true).open(&self.file).err()?;
        Some(cannot(wanted.name(), &error))
    }

    /// Until the value is dropped, programs that this one starts run under it.
    pub fn hold(&self, wanted: Setting) -> Result<Held, String> {
        let before = self.now();
        if before == wanted.name() {
            return Ok(Held::Nothing);
        }
        if wanted == Setting::Never {
            if rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(false) {
                return Ok(Held::Nothing);
            }
            let disabled = rustix::thread::disable_transparent_huge_pages(true);
            return disabled.map(|()| Held::Process).map_err(|error| cannot(wanted.name(), &error.into()));
        }
        interrupt::put_back_at_end(self.file.clone(), before.clone());
        files::overwrite(&self.file, wanted.name()).map_err(|error| {
            interrupt::was_put_back(&self.file);
            cannot(wanted.name(), &error)
        })?;
        Ok(Held::System { file: self.file.clone(), before })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let undone = match self {
            Held::Nothing => Ok(()),
            Held::Process => rustix::thread::disable_transparent_huge_pages(false).map_err(Into::into),
            Held::System { file, before } => {
                let undone = files::overwrite(file, before);
                interrupt::was_put_back(file);
                undone
            }
        };
        if let Err(error) = undone {
            output::say(format_args!("hak: transparent huge pages are not as they were before: {error}"));
        }
    }
}

fn cannot(setting: &str, error: &std::io::Error) -> String {
    format!("transparent huge pages cannot be set to {setting}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_setting_is_changed_and_put_back() {
        let directory = tempfile::tempdir().unwrap();
        let control = Control { file: directory.path().join("enabled") };
        fs::write(&control.file, "always [madvise] never\n").unwrap();
        assert_eq!(control.now(), "madvise");
        assert_eq!(control.refuses(Setting::Always), None);
        let held = control.hold(Setting::Always).unwrap();
        assert_eq!(fs::read_to_string(&control.file).unwrap(), "always");
        drop(held);
        assert_eq!(fs::read_to_string(&control.file).unwrap(), "madvise");
    }

    #[test]
    fn what_is_there_already_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let control = Control { file: directory.path().join("enabled") };
        fs::write(&control.file, "[always] madvise never\n").unwrap();
        let held = control.hold(Setting::Always).unwrap();
        assert!(matches!(held, Held::Nothing), "{held:?}");
        drop(held);
        assert_eq!(fs::read_to_string(&control.file).unwrap(), "[always] madvise never\n");
    }

    #[test]
    fn a_switch_that_cannot_be_thrown_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let control = Control { file: directory.path().join("none") };
        assert_eq!(control.now(), "unknown");
        let reason = control.refuses(Setting::Always).unwrap();
        assert!(reason.contains("cannot be set to always: No such file"), "{reason}");
        let reason = control.hold(Setting::Madvise).unwrap_err();
        assert!(reason.contains("cannot be set to madvise: No such file"), "{reason}");
        assert_eq!(control.refuses(Setting::Never), None, "that takes no right");
        assert!(!control.file.exists());
    }
}
