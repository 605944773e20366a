// SPDX-License-Identifier: MIT
//! `hak install` and `hak uninstall`

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::install::arguments::{Install, Places, Uninstall, What};
use crate::install::changes::{self, Change};
use crate::install::forms::{Form, Trial, Wanted};
use crate::install::records::{self, Broken, Record, Records};
use crate::install::{base_programs, copy, root, trust};
use crate::{library, output};

pub fn install(arguments: &Install) -> Result<u8> {
    if let What::List = arguments.what {
        let has_others = arguments.dry_run || arguments.in_place || arguments.library.is_some();
        if has_others || !arguments.env.is_empty() {
            return Err(failure(BAD_INPUT, "hak install list has no options but --prefix and --root"));
        }
        return list(&enter(&arguments.places)?.0);
    }
    let source = copy::read(arguments.library.as_deref())?;
    let described = library::describe(source.path())?;
    base_programs::check_settings(source.path(), &arguments.env)?;
    let (prefix, options) = enter(&arguments.places)?;
    trust::check_prefix(&prefix, &records::directory(&prefix))?;
    let (place, copied) = copy::place(source, &prefix, arguments.in_place)?;

    let wanted = Wanted { prefix: &prefix, library: &place, described: &described, env: &arguments.env };
    let mut form = wanted.form(&arguments.what)?;
    form.steps.splice(0..0, copied);
    let known = match form.trial {
        Trial::None => Vec::new(),
        _ => base_programs::known(&described)?,
    };
    let name = free_name(&records::read_all(&records::directory(&prefix))?.0, &form);
    if arguments.dry_run {
        form.steps.iter().try_for_each(changes::Step::look)?;
        return say_what(&form, known.len(), None);
    }
    let records = Records::open(&prefix)?;
    let look = |change: Option<&Change>| match change {
        // The library is there, and nothing loads it yet.
        Some(change) if form.trial != Trial::None && !matches!(change, Change::Made { path, .. } if *path == place) => {
            base_programs::try_all(&known, Some(&place), &arguments.env)
        }
        None if form.trial == Trial::System => base_programs::try_all(&known, None, &[]),
        _ => Ok(()),
    };
    let undo = |name: &str| command(&["uninstall", name], &options);
    changes::carry_out(&records, &name, &form.target, &form.steps, &look, &undo)?;
    say_what(&form, known.len(), Some(&undo(&name)))
}

/// Goes where the options say. The prefix, and these options as they are for whoever names it again from elsewhere.
fn enter(places: &Places) -> Result<(PathBuf, Vec<String>)> {
    let root = places.root.as_deref().map(std::path::absolute).transpose()?;
    root::enter(places.root.as_deref())?;
    let prefix = root::prefix(places.prefix.as_deref())?;
    let given = [("--prefix", places.prefix.as_ref().map(|_| &prefix)), ("--root", root.as_ref())];
    let words = given.iter().filter_map(|(option, path)| Some([(*option).into(), (*path)?.display().to_string()]));
    let options = words.flatten().collect();
    Ok((prefix, options))
}

/// A command that does something about what is installed there.
fn command(words: &[&str], options: &[String]) -> String {
    shell_words::join(["hak"].iter().chain(words).copied().chain(options.iter().map(String::as_str)))
}

/// What is installed for the same target keeps its name, and is then found to be there.
fn free_name(records: &[Record], form: &Form) -> String {
    let taken = |name: &str| records.iter().any(|one| one.name == name && one.target != form.target);
    let numbered = (2..).map(|number| format!("{}-{number}", form.name));
    std::iter::once(form.name.clone()).chain(numbered).find(|name| !taken(name)).expect("there are more numbers")
}

/// Without a command that undoes it, it would have been done.
fn say_what(form: &Form, tried: usize, undo: Option<&str>) -> Result<u8> {
    let mut text = String::new();
    for step in &form.steps {
        let change = &step.change;
        text += &format!("{:8} {}\n", change.says(), change.path().display());
    }
    if form.trial != Trial::None {
        let does = if undo.is_some() { "did the same under it" } else { "are to do the same under it" };
        text += &format!("tries    {tried} programs of the system, which {does}\n");
    }
    for remark in &form.remarks {
        text += &format!("note     {remark}\n");
    }
    text += &undo.map_or("nothing is changed (--dry-run)\n".into(), |undo| format!("undo     {undo}\n"));
    output::print(&text)?;
    Ok(0)
}

/// What cannot be read is said last, after all that can.
fn complain(broken: &[Broken]) -> u8 {
    broken.iter().for_each(|one| output::say(format_args!("hak: {:#}", one.error())));
    if broken.is_empty() { 0 } else { BAD_INPUT }
}

fn list(prefix: &Path) -> Result<u8> {
    let (records, broken) = records::read_all(&records::directory(prefix))?;
    if records.is_empty() && broken.is_empty() {
        output::print(&format!("nothing is installed below {}\n", prefix.display()))?;
    }
    for one in &records {
        let state = if one.whole { "" } else { "   (half: hak was interrupted)" };
        output::print(&format!("{}   {}{state}\n", one.name, one.target))?;
    }
    Ok(complain(&broken))
}

pub fn uninstall(arguments: &Uninstall) -> Result<u8> {
    let (prefix, options) = enter(&arguments.places)?;
    if arguments.names.is_empty() && !arguments.all {
        return list(&prefix);
    }
    trust::check_prefix(&prefix, &records::directory(&prefix))?;
    let (there, broken) = records::read_all(&records::directory(&prefix))?;
    let missing = |name: &&String| !there.iter().any(|one| one.name == **name);
    if let Some(name) = arguments.names.iter().find(missing) {
        if let Some(one) = broken.iter().find(|one| one.names(name)) {
            return Err(one.error());
        }
        let list = command(&["install", "list"], &options);
        let message = format!("{name} is not installed below {} ({list})", prefix.display());
        return Err(failure(BAD_INPUT, message));
    }
    if !records::directory(&prefix).exists() {
        return list(&prefix);
    }
    let records = Records::open(&prefix)?;
    let (mut code, mut shown) = (0, Ok(()));
    let wanted = |one: &Record| arguments.all || arguments.names.contains(&one.name);
    let names: Vec<String> = records.all()?.into_iter().filter(wanted).map(|one| one.name).collect();
    for name in names {
        // Read again: one that is gone hands the directories it made on to one that is left.
        let Some(one) = records.all()?.into_iter().find(|one| one.name == name) else {
            continue;
        };
        let mut lines = String::new();
        let whole = changes::take_back(&records, &one, !arguments.dry_run, &mut |line| lines += &(line + "\n"));
        // One that fails is no reason to keep the others, nor is it that nobody reads what is said.
        shown = shown.and(output::print(&lines));
        match whole {
            Ok(true) => {}
            Ok(false) => {
                code = SOMETHING_FAILED;
                output::say(format_args!("hak: {} stays recorded until nothing of it is left", one.name));
            }
            Err(error) => {
                code = SOMETHING_FAILED;
                output::say(format_args!("hak: {}: {error:#}", one.name));
            }
        }
    }
    if arguments.all {
        code = code.max(complain(&broken));
    }
    if arguments.dry_run {
        shown = shown.and_then(|()| output::print("nothing is changed (--dry-run)\n"));
    } else {
        records.remove_if_empty();
    }
    shown.map(|()| code)
}
