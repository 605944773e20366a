// SPDX-License-Identifier: MIT
//! `hak report`

use anyhow::Result;

use crate::cli::Report;
use crate::report;
use crate::results::{self, Kind, Results};

pub fn run(arguments: &Report) -> Result<u8> {
    let files = arguments.files.iter().map(|file| Results::load(file)).collect::<Result<Vec<_>>>()?;
    let all: Vec<&Results> = files.iter().collect();
    let outputs = [
        (&arguments.html, report::html::page as fn(&[&Results], bool) -> Result<String>),
        (&arguments.markdown, report::markdown::tables),
    ];
    for (file, make) in outputs {
        if let Some(file) = file {
            results::write_whole(file, make(&all, arguments.best)?.as_bytes())?;
            eprintln!("hak: wrote {}", file.display());
        }
    }
    if arguments.html.is_none() && arguments.markdown.is_none() {
        let labels = report::history::labels(&all);
        for (results, label) in all.iter().zip(&labels) {
            if all.len() > 1 {
                println!("\n=== {label}");
            }
            let text = match results.kind {
                Kind::Compare => report::terminal::comparison(results, arguments.best),
                Kind::Bench => report::terminal_suite::summary(results, arguments.best),
            };
            print!("{text}");
        }
    }
    Ok(0)
}
