// SPDX-License-Identifier: MIT
//! The command lines of `hak install` and `hak uninstall`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Puts hakmem in front of a program, a user's programs, a service or the whole system
///
/// The library is copied to PREFIX/lib/hakmem, and one small file makes programs load it. What is changed is printed,
/// and recorded in PREFIX/lib/hakmem/installed, so that `hak uninstall` takes it back to the byte. No file that is
/// there already is replaced. What fails in the middle is taken back at once; what was interrupted, by hak uninstall.
///
/// Refused, with the reason, is what nothing can be preloaded into, as by `hak run`, and set-uid programs whoever asks.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak install program python3
  hak install program /opt/a/server --as /usr/local/bin/server --env HAKMEM_SOFT_LIMIT=2G
  hak install service nginx --dry-run
  hak install system --root /srv/image
  hak install list; hak uninstall program-python3")]
pub struct Install {
    #[command(subcommand)]
    pub what: What,
    #[command(flatten)]
    pub places: Places,
    /// Print what would be changed, and change nothing
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// Set one of hakmem's settings for what is installed; may be repeated
    #[arg(long, global = true, value_name = "HAKMEM_X=VALUE", value_parser = setting)]
    pub env: Vec<(String, String)>,
    /// Use this libhakmem.so instead of the one that is built or installed beside hak
    #[arg(long, global = true, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Use the library where it lies, rather than a copy below PREFIX
    #[arg(long, global = true)]
    pub in_place: bool,
}

#[derive(Args)]
pub struct Places {
    /// Where library and records go [default: /usr/local, or ~/.local for a user]
    #[arg(long, global = true, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Do all of it inside this directory, as chroot does; only root may. All other names are inside of it, but
    /// that of --library
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum What {
    /// One program: a script of its name in PREFIX/bin that starts it under hakmem
    ///
    /// What its caller has in LD_PRELOAD stays, and goes first. It is a script of /bin/sh, which has to be there.
    Program {
        /// Its name or path; refused if nothing can be preloaded into it
        #[arg(value_name = "PROGRAM")]
        program: OsString,
        /// Where the script goes [default: PREFIX/bin, by the program's name]
        #[arg(long = "as", value_name = "FILE")]
        script: Option<PathBuf>,
    },
    /// All programs of a user's sessions: a file in ~/.config/environment.d, which systemd reads at login
    User {
        /// A shell's profile that gets the setting at its end, too, for logins that systemd does not serve
        ///
        /// The lines are sh's, which bash and zsh read, too. Files of fish and csh are refused, with what to add to
        /// them by hand.
        #[arg(long, value_name = "FILE")]
        profile: Option<PathBuf>,
    },
    /// A service of systemd: a drop-in for its unit
    ///
    /// It holds when the service is started next; systemd is not told.
    Service {
        /// As systemctl takes it; .service may be left out
        #[arg(value_name = "UNIT")]
        unit: String,
        /// A service of the user's own manager, `systemctl --user`
        #[arg(long)]
        user: bool,
    },
    /// Every program of the system: a line in /etc/ld.so.preload
    ///
    /// The programs that a system cannot do without, such as sh, ls, mount and systemctl, are first run under it, and
    /// once more when the line is there. If one of them does anything else than without it, nothing stays changed.
    System,
    /// Lists what is installed
    ///
    /// Of the options, --prefix and --root alone.
    List,
}

/// Takes back what hak install changed
///
/// Files that somebody has changed since are left, and said; those to which hak only added something lose that alone.
/// Without a name, it lists what is installed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  hak uninstall program-python3
  hak uninstall --all --dry-run
  hak uninstall --root /srv/image system")]
pub struct Uninstall {
    /// As `hak install list` has it
    #[arg(value_name = "NAME", conflicts_with = "all")]
    pub names: Vec<String>,
    /// Everything that is recorded below PREFIX
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub places: Places,
    /// Print what would be taken back, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// What every place that a setting is written to takes without quoting.
fn setting(text: &str) -> Result<(String, String), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./+-,@%=".contains(c);
    match text.split_once('=') {
        Some((name, _)) if !name.starts_with("HAKMEM_") => Err("only hakmem's own settings, HAKMEM_…".into()),
        Some((name, value))
            if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && value.chars().all(plain) =>
        {
            Ok((name.into(), value.into()))
        }
        Some(_) => Err("a value of letters, digits and _ . / + - , @ % =".into()),
        None => Err("expected HAKMEM_X=VALUE".into()),
    }
}
