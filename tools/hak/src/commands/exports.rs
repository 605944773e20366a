// SPDX-License-Identifier: MIT
//! The files that a command is asked for, and their forms.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cli;
use crate::failure::{BAD_INPUT, SOMETHING_FAILED, failure};
use crate::output::{self, Output};
use crate::report;
use crate::results::Results;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Html,
    Markdown,
    Csv,
}

impl Form {
    fn of_name(file: &Path) -> Result<Form> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Ok(Form::Json),
            Some("html") => Ok(Form::Html),
            Some("md") => Ok(Form::Markdown),
            Some("csv") => Ok(Form::Csv),
            _ => {
                let message = format!("--export {}: the name has to end in .json, .html, .md or .csv", file.display());
                Err(failure(BAD_INPUT, message))
            }
        }
    }

    /// The first of the results in full; only a page and Markdown show others beside it.
    fn text(self, all: &[&Results], with: &Exports) -> Result<Vec<u8>> {
        let (against, best) = (with.against(), with.best);
        let pictures = with.pictures.as_ref().map(|pictures| pictures.named.as_str());
        match self {
            Form::Json => Ok(all[0].json()?.into_bytes()),
            Form::Html => Ok(report::html::page(all, against, best)?.into_bytes()),
            Form::Markdown if with.each => Ok(report::markdown::each(all, pictures, best)?.into_bytes()),
            Form::Markdown => Ok(report::markdown::tables(all, against, pictures, best)?.into_bytes()),
            Form::Csv => report::csv::samples(all[0]),
        }
    }
}

/// Of sweeps.
struct Pictures {
    directory: PathBuf,
    /// The directory as the document names it.
    named: String,
}

impl Pictures {
    fn of(directory: &Path, document: Option<&Path>) -> Result<Pictures> {
        let bad = |error: std::io::Error| failure(BAD_INPUT, format!("{}: {error}", directory.display()));
        let whole = directory.canonicalize().map_err(bad)?;
        let beside = document.and_then(Path::parent).map(|parent| match parent {
            parent if parent == Path::new("") => Path::new("."),
            parent => parent,
        });
        let beside = beside.and_then(|parent| parent.canonicalize().ok());
        let named = beside.and_then(|parent| whole.strip_prefix(parent).map(Path::to_path_buf).ok());
        let named = named.unwrap_or_else(|| whole.clone()).to_string_lossy().into_owned();
        Ok(Pictures { directory: whole, named })
    }

    fn write_all(&self, all: &[&Results]) -> Result<()> {
        for (index, results) in all.iter().enumerate() {
            for (name, svg) in report::sweeps::pictures(results, report::sweeps::part(all, index))? {
                let output = Output::of(&self.directory.join(name))?;
                output.write(svg.as_bytes())?;
                output::say(format_args!("hak: wrote {output}"));
            }
        }
        Ok(())
    }
}

pub struct Exports {
    files: Vec<(Form, Output)>,
    /// An earlier run of the suite, the change since which is shown.
    against: Option<Results>,
    pictures: Option<Pictures>,
    /// Markdown has every file in full.
    each: bool,
    /// Ratios are to the best instead of the baseline.
    best: bool,
}

impl Exports {
    /// `read`: files that the command reads, or runs.
    pub fn of(json: Option<&Path>, given: &cli::Exports, against: Option<Results>, read: &[&Path]) -> Result<Exports> {
        let named = [
            (Form::Json, json),
            (Form::Html, given.html.as_deref()),
            (Form::Markdown, given.markdown.as_deref()),
            (Form::Csv, given.csv.as_deref()),
        ];
        let mut wanted = Vec::new();
        for (form, file) in named {
            if let Some(file) = file {
                wanted.push((form, Output::of(file)?));
            }
        }
        let mut document = given.markdown.as_deref();
        for file in &given.export {
            let form = Form::of_name(file)?;
            if matches!(form, Form::Markdown) {
                document = document.or(Some(file));
            }
            wanted.push((form, Output::of(file)?));
        }
        output::keep_apart(wanted.iter().map(|(_, output)| output), read.iter().copied())?;
        if given.pictures.is_some() && document.is_none() {
            return Err(failure(
                BAD_INPUT,
                "--pictures: there is no Markdown to show them: --markdown FILE is missing",
            ));
        }
        let pictures = given.pictures.as_deref().map(|directory| Pictures::of(directory, document)).transpose()?;
        Ok(Exports { files: wanted, against, pictures, each: false, best: given.best })
    }

    pub fn with_each(self, each: bool) -> Exports {
        Exports { each, ..self }
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn against(&self) -> Option<&Results> {
        self.against.as_ref()
    }

    pub fn best(&self) -> bool {
        self.best
    }

    /// For people: where standard output is one of the files, to standard error.
    pub fn show(&self, text: &str) -> Result<()> {
        if self.files.iter().any(|(_, output)| *output == Output::Standard) {
            output::say(text.trim_end_matches('\n'));
            return Ok(());
        }
        output::print(text)
    }

    /// Between rounds: the files with every sample.
    pub fn keep(&self, results: &Results) -> Result<()> {
        let mut kept = self.files.iter().filter(|(form, output)| *form == Form::Json && output.can_be_replaced());
        kept.try_for_each(|(form, output)| output.write(&form.text(&[results], self)?))
    }

    /// All of them, whether or not one fails. The exit code.
    pub fn write(&self, all: &[&Results]) -> u8 {
        let mut code = 0;
        if let Some(Err(error)) =
            self.pictures.as_ref().map(|pictures| pictures.write_all(if self.each { all } else { &all[..1] }))
        {
            output::say(format_args!("hak: {error:#}"));
            code = SOMETHING_FAILED;
        }
        for (form, output) in &self.files {
            match form.text(all, self).and_then(|text| output.write(&text)) {
                Ok(()) if *output == Output::Standard => {}
                Ok(()) => output::say(format_args!("hak: wrote {output}")),
                Err(error) => {
                    output::say(format_args!("hak: {error:#}"));
                    code = SOMETHING_FAILED;
                }
            }
        }
        code
    }
}
