// SPDX-License-Identifier: MIT
//! What each form of installation changes.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;

use crate::elf::{self, Elf};
use crate::failure::{BAD_INPUT, CANNOT_RUN, failure};
use crate::install::arguments::What;
use crate::install::changes::Step;
use crate::install::{base_programs, copy, root, servable, unit};
use crate::program;

/// What reads the scripts that start programs.
const SHELL: &str = "/bin/sh";
const PRELOAD_FILE: &str = "/etc/ld.so.preload";
/// What csh and tcsh read at a start, a login and a logout; a system's begin with the shell's name.
const FILES_OF_CSH: [&str; 7] = [".cshrc", ".tcshrc", ".login", ".logout", "csh.cshrc", "csh.login", "csh.logout"];

/// Which of a system's own programs are run first.
#[derive(PartialEq, Clone, Copy)]
pub enum Trial {
    None,
    Preloaded,
    /// And again when the file is there.
    System,
}

pub struct Form {
    /// Before what distinguishes those of the same name.
    pub name: String,
    pub target: String,
    pub steps: Vec<Step>,
    pub trial: Trial,
    /// What the user has to do or know.
    pub remarks: Vec<String>,
}

pub struct Wanted<'a> {
    pub prefix: &'a Path,
    /// Where the library will be.
    pub library: &'a Path,
    pub described: &'a Elf,
    pub env: &'a [(String, String)],
}

impl Wanted<'_> {
    pub fn form(&self, what: &What) -> Result<Form> {
        match what {
            What::Program { program, script } => self.program(program, script.as_deref()),
            What::User { profile } => self.user(profile.as_deref()),
            What::Service { unit, user } => self.service(unit, *user),
            What::System => self.system(),
            What::List => unreachable!("it installs nothing"),
        }
    }

    fn library(&self) -> &str {
        self.library.to_str().expect("checked")
    }

    fn program(&self, program: &OsStr, script: Option<&Path>) -> Result<Form> {
        let program = servable::check(program, self.described)?;
        let name = program.file_name().expect("a program has a name");
        let script = match script {
            Some(script) => root::absolute(script)?,
            None => self.prefix.join("bin").join(name),
        };
        if script.is_dir() {
            return Err(failure(BAD_INPUT, format!("{}: --as names the script itself", script.display())));
        }
        program::find(OsStr::new(SHELL)).map_err(|error| {
            failure(CANNOT_RUN, format!("{}: its interpreter cannot be run: {error}", script.display()))
        })?;
        let quoted = |path: &Path| quote(path.to_str().expect("checked"));
        let mut text = format!("#!{SHELL}\n# Made by hak install, removed by hak uninstall: a program under hakmem.\n");
        for (name, value) in self.env {
            let _ = writeln!(text, "export {name}={}", quote(value));
        }
        // What it started may start it again.
        text += &preload_once(self.library());
        let directory = script.parent().unwrap_or(Path::new("/"));
        text += &guard(&script, directory, &program, elf::read(&program)?.is_none());
        let _ = writeln!(text, "exec {} \"$@\"", quoted(&program));
        let mut remarks = Vec::new();
        let first = env::var_os("PATH").and_then(|path| {
            env::split_paths(&path).find(|one| one == directory || Some(one.as_path()) == program.parent())
        });
        if script.file_name() == Some(name) && first.as_deref() != Some(directory) {
            remarks
                .push(format!("{name:?} alone does not find it: {} is not early enough on PATH", directory.display()));
        }
        Ok(Form {
            name: format!("program-{}", plain(&name.to_string_lossy())),
            target: script.to_str().expect("checked").into(),
            steps: vec![Step::make(script, text.into_bytes(), 0o755)],
            trial: Trial::None,
            remarks,
        })
    }

    fn user(&self, profile: Option<&Path>) -> Result<Form> {
        let home = root::home()?;
        let directory = root::configuration()?.join("environment.d");
        let file = root::absolute(&directory)?.join(unit::DROP_IN);
        if let Some((later, value)) = unit::manager::replaced_later()? {
            let message = format!("{} is read later, and sets LD_PRELOAD={value} alone", later.display());
            return Err(failure(CANNOT_RUN, message + ": let it hold ${LD_PRELOAD}, too, or have a name before 60"));
        }
        let head = "# Made by hak install, removed by hak uninstall: programs under hakmem.\n";
        let settings =
            |export: &str| self.env.iter().map(|(name, value)| format!("{export}{name}={value}\n")).collect();
        let (in_session, in_shell): (String, String) = (settings(""), settings("export "));
        let text = format!("{head}{in_session}LD_PRELOAD=${{LD_PRELOAD:+$LD_PRELOAD:}}{}\n", self.library());
        let mut steps = vec![Step::make(file, text.into_bytes(), 0o644)];
        if let Some(profile) = profile {
            self.check_is_of_sh(profile)?;
            // A shell in a session, or in a shell, reads it again.
            let text = format!("{head}{in_shell}{}", preload_once(self.library()));
            steps.push(Step::add(root::absolute(profile)?, &text)?);
        }
        Ok(Form {
            name: "user".into(),
            target: format!("the user's programs ({})", home.display()),
            steps,
            trial: Trial::Preloaded,
            remarks: vec![
                "it holds from the next login on, and in all programs of the session that honour LD_PRELOAD".into(),
            ],
        })
    }

    /// Lines of sh's would keep other shells from reading any of their own.
    fn check_is_of_sh(&self, profile: &Path) -> Result<()> {
        let name = profile.file_name().unwrap_or_default();
        let (shell, set, preload) = if Path::new(name).extension() == Some(OsStr::new("fish")) {
            ("fish", "set -gx", format!("(string join : $LD_PRELOAD {})", quote(self.library())))
        } else if FILES_OF_CSH.iter().any(|one| name == *one) {
            ("csh", "setenv", quote(self.library()))
        } else {
            return Ok(());
        };
        let settings = self.env.iter().map(|(name, value)| format!("{set} {name} {value}; "));
        let message = format!(
            "{} is a file of {shell}'s, and --profile writes lines of sh's: leave it out, and add  \
             {}{set} LD_PRELOAD {preload}  by hand, to be removed before hak uninstall",
            profile.display(),
            settings.collect::<String>()
        );
        Err(failure(BAD_INPUT, message))
    }

    fn service(&self, name: &str, user: bool) -> Result<Form> {
        let unit = unit::find(name, user)?;
        let mut remarks = unit.check(self.library, self.described, self.env, user)?;
        if !user {
            copy::check_for_all(self.library)?;
        }
        let mut text =
            "# Made by hak install, removed by hak uninstall: a service under hakmem.\n[Service]\n".to_owned();
        for (name, value) in self.env {
            let _ = writeln!(text, "Environment={name}={}", value.replace('%', "%%"));
        }
        let _ = writeln!(text, "Environment=LD_PRELOAD={}", self.library());
        if !unit.verify(&text)? {
            remarks.push("there is no systemd-analyze here, so systemd has not looked at the drop-in".into());
        }
        let manager = if user { "systemctl --user" } else { "systemctl" };
        // A template itself is never started.
        let started = unit.name.replace("@.", "@INSTANCE.");
        remarks.push(format!("it holds after {manager} daemon-reload && {manager} restart {started}"));
        let kind = if user { "user-service" } else { "service" };
        Ok(Form {
            name: format!("{kind}-{}", plain(unit.name.trim_end_matches(".service"))),
            target: format!("{} of {manager}", unit.name),
            steps: vec![Step::make(unit.drop_in, text.into_bytes(), 0o644)],
            trial: Trial::None,
            remarks,
        })
    }

    fn system(&self) -> Result<Form> {
        if !root::is_root() {
            return Err(failure(BAD_INPUT, format!("only root may change {PRELOAD_FILE}")));
        }
        if !self.env.is_empty() {
            return Err(failure(BAD_INPUT, format!("{PRELOAD_FILE} has no place for --env")));
        }
        if std::fs::read(PRELOAD_FILE).is_ok_and(|its| memchr::memmem::find(&its, b"hakmem").is_some()) {
            return Err(failure(BAD_INPUT, format!("{PRELOAD_FILE} names hakmem already")));
        }
        base_programs::refuse_32_bit()?;
        copy::check_for_all(self.library)?;
        Ok(Form {
            name: "system".into(),
            target: "the system".into(),
            steps: vec![Step::add(PRELOAD_FILE.into(), &format!("{}\n", self.library()))?],
            trial: Trial::System,
            remarks: vec![
                "programs that run already are as they were".into(),
                format!("should no program start any more, an open root shell can still say  : >{PRELOAD_FILE}"),
            ],
        })
    }
}

/// A line of sh's: the library behind what is preloaded, unless it is among that.
fn preload_once(library: &str) -> String {
    format!(
        "case :${{LD_PRELOAD-}}: in *:{0}:*) ;; *) export LD_PRELOAD=\"${{LD_PRELOAD:+$LD_PRELOAD:}}\"{0} ;; esac\n",
        quote(library)
    )
}

/// For a shell: everything between single quotes is itself, newlines and all.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// More than any program starts itself in itself.
const MOST_STARTS: u32 = 100;

/// For a program that is gone, after an upgrade say; and for a shim, which starts the next of its name along PATH: that
/// would be the wrapper again, without end. The wrapper starts what that would have found without it, then: the program
/// itself, too, as one that starts itself again is no shim. Where that has no end, it is left out. A shim that is a script comes
/// twice in the same process. Other programs may do that for reasons of their own, and shims may start a process: they
/// are known by how many starts lie in each other.
fn guard(script: &Path, directory: &Path, program: &Path, is_script: bool) -> String {
    let quoted = |path: &Path| quote(path.to_str().expect("checked"));
    let name = script.file_name().expect("a file has a name");
    let twice = if is_script { "*\":$hak_self:\"*) hak_again=yes ;; \"$$:\"" } else { "" };
    format!(
        r#"hak_self={self_}
if [ ! -e {program} ]; then
  echo "$hak_self:" {program} "is not there any more: hak uninstall takes this script away" >&2
  exit 127
fi
hak_started=${{HAK_STARTED-}} hak_again=
hak_times=${{hak_started#*:}} hak_times=${{hak_times%%:*}}
case $hak_times in '' | *[!0-9]* | 0?* | ??????*) hak_times=0 ;; esac
[ "$hak_times" -lt {MOST_STARTS} ] || hak_again=yes
case $hak_started in
"$$:"{twice}*) hak_started=${{hak_started#*:*:}} ;;
*) hak_started=: ;;
esac
if [ "$hak_again" ]; then
  export HAK_STARTED="$$:$((hak_times + 1)):${{hak_started#*:*:}}"
  IFS=:
  set -f
  for hak_directory in $PATH; do
    case $hak_directory in
    {directory}) continue ;;
    {theirs}) [ "$hak_times" -lt {MOST_STARTS} ] || continue ;;
    esac
    if [ -f "$hak_directory"/{name} ] && [ -x "$hak_directory"/{name} ]; then exec "$hak_directory"/{name} "$@"; fi
  done
  echo "$hak_self: what it starts starts it again: hak uninstall it, and name the program itself to hak install" >&2
  exit 126
fi
export HAK_STARTED="$$:$((hak_times + 1)):${{hak_started:-:}}$hak_self:"
"#,
        self_ = quoted(script),
        program = quoted(program),
        directory = quoted(directory),
        theirs = quoted(program.parent().unwrap_or(Path::new("/"))),
        name = quoted(Path::new(name)),
    )
}

/// What can be a record's file name and typed without quotes.
fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._@+-".contains(c) { c } else { '_' };
    name.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_are_one_word_of_the_shell() {
        for text in ["plain", "it's", "a b", "a\nb", "$(exit)`", ""] {
            let output = std::process::Command::new("sh").args(["-c", &format!("printf %s {}", quote(text))]).output();
            assert_eq!(output.unwrap().stdout, text.as_bytes());
        }
    }
}
