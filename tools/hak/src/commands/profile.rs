// SPDX-License-Identifier: MIT
//! `hak profile`

use std::env;
use std::path::Path;
use std::process::{self, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::commands::run;
use crate::failure::{BAD_INPUT, INTERRUPTED, SOMETHING_FAILED, failure};
use crate::family::Family;
use crate::inspect::target::Target;
use crate::inspect::{Inspected, found};
use crate::interrupt;
use crate::output::{self, Output};
use crate::profile::arguments::Profile as Arguments;
use crate::profile::recorder::Recorder;
use crate::profile::{Profile, flames, page, pprof, summary};

/// A program that starts is looked at so often, until hakmem is found in it.
const NAP: Duration = Duration::from_millis(1);

struct Files {
    pprof: Option<Output>,
    folded: Option<Output>,
    svg: Option<Output>,
    html: Option<Output>,
}

impl Files {
    fn all(&self) -> impl Iterator<Item = &Option<Output>> {
        [&self.pprof, &self.folded, &self.svg, &self.html].into_iter()
    }

    /// Whether one goes to standard output.
    fn take_standard(&self) -> bool {
        self.all().any(|file| *file == Some(Output::Standard))
    }
}

pub fn run(arguments: &Arguments) -> Result<u8> {
    let file = |name: &Option<std::path::PathBuf>| name.as_deref().map(Output::of).transpose();
    let files = Files {
        pprof: file(&arguments.pprof)?,
        folded: file(&arguments.folded)?,
        svg: file(&arguments.svg)?,
        html: file(&arguments.html)?,
    };
    output::keep_apart(files.all().flatten(), arguments.command.first().map(Path::new))?;
    if let (Some(most), Some((_, to))) = (arguments.duration, arguments.growth)
        && to > most
    {
        return Err(failure(BAD_INPUT, "--growth has a moment after --for"));
    }
    match arguments.pid {
        Some(pid) => process(pid, arguments, &files),
        None => program(arguments, &files),
    }
}

fn process(pid: u32, arguments: &Arguments, files: &Files) -> Result<u8> {
    let inspected = Inspected::attach_for_writing(pid)?;
    interrupt::watch()?;
    let mut recorder = Recorder::attach(inspected, arguments.every, true)?;
    let started = Instant::now();
    let is_over = || interrupt::requested() || arguments.duration.is_some_and(|most| started.elapsed() >= most);
    recorder.gather(is_over);
    let profile = recorder.finish();
    let has_failed = !profile.failures.is_empty();
    tell(profile, arguments, files, !files.take_standard())?;
    Ok(match has_failed {
        true => SOMETHING_FAILED,
        false if interrupt::requested() && arguments.duration.is_some() => INTERRUPTED,
        false => 0,
    })
}

fn program(arguments: &Arguments, files: &Files) -> Result<u8> {
    if env::var_os("HAKMEM_SAMPLE").is_some() {
        return Err(failure(BAD_INPUT, "hak profile needs HAKMEM_SAMPLE for itself, and it is set already"));
    }
    let mut command: Command = run::command(&arguments.command, &[], arguments.library.as_deref())?;
    // What we start, and not what that starts.
    command.env("HAKMEM_SAMPLE", format!("{}:{}", arguments.every, process::id()));
    let mut family = Family::start(&mut command).map_err(|error| run::cannot_start(&command, &error))?;
    let mut ended: Option<ExitStatus> = None;
    let mut kept: Option<Profile> = None;
    let mut last = None;
    while ended.is_none() {
        let pid = family.first();
        let failed = match attach(pid, arguments.every) {
            Ok(Some(mut recorder)) => {
                recorder.gather(|| {
                    ended = family.poll().or(ended);
                    ended.is_some()
                });
                // A script's interpreter, say, of which nobody wants to know when it has become the program.
                kept = Some(recorder.finish());
                None
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        ended = family.poll().or(ended);
        // That it has ended meanwhile says nothing of why it could not be looked at before.
        if ended.is_none() {
            last = failed;
        }
        thread::sleep(NAP);
    }
    let status = ended.expect("it is over");
    let Some(profile) = kept else {
        let reason = last.map_or_else(String::new, |error| format!("; before that, {error:#}"));
        let program = arguments.command[0].display();
        let what = "it ended before hak had found hakmem in it";
        output::say(format_args!("hak: there is no profile of {program}: {what}{reason}"));
        return Ok(run::end_as(status, false));
    };
    let has_failed = !profile.failures.is_empty();
    tell(profile, arguments, files, false)?;
    Ok(run::end_as(status, !has_failed))
}

/// None: hakmem is not in it, or not yet.
fn attach(pid: u32, every: u64) -> Result<Option<Recorder>> {
    let target = Target::open_for_writing(pid)?;
    let Some(found) = found::search(&target, &target.mappings()?)? else {
        return Ok(None);
    };
    Recorder::attach(Inspected::of(target, found)?, every, false).map(Some)
}

/// Writes all that was asked for, even if something cannot be written; the summary to standard output or error.
fn tell(mut profile: Profile, arguments: &Arguments, files: &Files, to_output: bool) -> Result<()> {
    if let Some((from, to)) = arguments.growth {
        profile.growth = (milliseconds(from), milliseconds(to));
    }
    let profile = &profile;
    let text = summary::text(profile);
    let mut failed = Ok(());
    let mut keep = |written: Result<()>| {
        if let Err(error) = written
            && let Err(before) = std::mem::replace(&mut failed, Err(error))
        {
            output::say(format_args!("hak: {before:#}"));
        }
    };
    let value = arguments.value;
    let folded = || flames::folded(profile, value, None);
    if let Some(file) = &files.pprof {
        keep(pprof::bytes(profile).and_then(|bytes| file.write(&bytes)));
    }
    if let Some(file) = &files.folded {
        keep(file.write(folded().as_bytes()));
    }
    if let Some(file) = &files.svg {
        let title = format!("{}: {}", profile.program, summary::title(value, profile));
        keep(flames::svg(&title, &folded(), true).and_then(|svg| match svg {
            Some(svg) => file.write(svg.as_bytes()),
            None => Err(failure(SOMETHING_FAILED, format!("cannot write {file}: there are no samples to draw"))),
        }));
    }
    if let Some(file) = &files.html {
        keep(page::page(profile).and_then(|page| file.write(page.as_bytes())));
    }
    if to_output {
        keep(output::print(&text));
    } else {
        output::say(text.trim_end());
    }
    failed
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
