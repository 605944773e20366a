//! Checks protocols between threads under the memory models of C11 (RC11) and of
//! ARMv8: every execution of small programs, not only every interleaving.
//!
//! weak litmus            the classic tests, with verdicts that are known
//! weak check PROTOCOL    right as it is; each weakening and each planted mistake found
//! weak check PROTOCOL --document FILE     and the tables of that document are the same
//! weak check PROTOCOL --document FILE --update    writes them there
//!
//! SPDX-License-Identifier: MIT
mod arm;
mod c11;
mod check;
mod explore;
mod expr;
mod fetch;
mod graph;
mod litmus;
mod litmus_more;
mod program;
mod protocols;
mod report;
mod thread;
mod witness;

fn usage() -> ! {
    eprintln!("usage: weak litmus | weak check PROTOCOL [--document FILE [--update]]");
    std::process::exit(2);
}

/// The part of a document between a protocol's marks; the rest before and after it.
fn cut<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let (begin, end) = (format!("<!-- weak {name}:begin -->\n"), format!("<!-- weak {name}:end -->"));
    let from = text.find(&begin)? + begin.len();
    let to = from + text[from..].find(&end)?;
    Some((&text[..from], &text[from..to], &text[to..]))
}

fn compare(file: &str, name: &str, table: &str, update: bool) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let (before, old, after) = cut(&text, name).ok_or(format!("{file} has no marks for {name}"))?;
    if old == table {
        return Ok(());
    }
    if update {
        return std::fs::write(file, format!("{before}{table}{after}")).map_err(|error| format!("{file}: {error}"));
    }
    Err(format!("{file} does not say what was found of {name}; run with --update. Found:\n{table}"))
}

fn check(name: &str, document: Option<&str>, update: bool) -> bool {
    let Some(protocol) = protocols::all().into_iter().find(|p| p.name == name) else { usage() };
    let mut report = report::check(&protocol);
    if let Some(file) = document
        && let Err(message) = compare(file, name, &report.markdown, update)
    {
        report.wrong.push(message);
    }
    for wrong in &report.wrong {
        println!("FAILED {wrong}");
    }
    println!("{}\n{name}: {} failed", report.markdown, report.wrong.len());
    report.wrong.is_empty()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let good = match words[..] {
        ["litmus"] => litmus::run() == 0,
        ["check", name] => check(name, None, false),
        ["check", name, "--document", file] => check(name, Some(file), false),
        ["check", name, "--document", file, "--update"] => check(name, Some(file), true),
        _ => usage(),
    };
    std::process::exit(i32::from(!good));
}
