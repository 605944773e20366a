// SPDX-License-Identifier: MIT
//! What `compare` measures: every command with every combination of the parameters' values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;

use crate::cli::Compare;
use crate::failure::{BAD_INPUT, failure};
use crate::report::format;

/// A mistyped step should not fill the memory.
const MOST_VALUES: f64 = 1000.0;

/// One command, in which the parameters have been filled in, and what belongs to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    pub command: Vec<OsString>,
    pub parameters: BTreeMap<String, String>,
    pub input: Option<PathBuf>,
    pub setup: Option<String>,
    pub prepare: Option<String>,
    pub cleanup: Option<String>,
}

/// A name, and what it stands for.
type Parameter = (String, Vec<String>);

impl Work {
    /// As one would type it.
    pub fn name(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        format::command(&words)
    }

    fn filled(&self, parameters: BTreeMap<String, String>) -> Work {
        let text = |text: &String| {
            let all = parameters.iter();
            all.fold(text.clone(), |text, (name, value)| text.replace(&placeholder(name), value))
        };
        // A word that is not Unicode has no placeholder.
        let word = |word: &OsString| word.to_str().map_or(word.clone(), |word| text(&word.into()).into());
        Work {
            command: self.command.iter().map(word).collect(),
            input: self.input.as_ref().map(|input| word(&input.clone().into()).into()),
            setup: self.setup.as_ref().map(text),
            prepare: self.prepare.as_ref().map(text),
            cleanup: self.cleanup.as_ref().map(text),
            parameters,
        }
    }
}

pub fn all(arguments: &Compare) -> Result<Vec<Work>> {
    let mut commands = Vec::new();
    if !arguments.command.is_empty() {
        commands.push(arguments.command.clone());
    }
    for text in &arguments.commands {
        commands.push(words_of(text).map_err(|reason| failure(BAD_INPUT, format!("--command '{text}': {reason}")))?);
    }
    let commands = commands.into_iter().map(|command| Work {
        command,
        input: arguments.input.clone(),
        setup: arguments.setup.clone(),
        prepare: arguments.prepare.clone(),
        cleanup: arguments.cleanup.clone(),
        ..Work::default()
    });
    let commands: Vec<Work> = commands.collect();
    let parameters = parameters(arguments).map_err(|reason| failure(BAD_INPUT, reason))?;
    if let Some((unused, _)) = parameters.iter().find(|(name, _)| !commands.iter().any(|work| uses(work, name))) {
        let message = format!("the parameter '{unused}' is used nowhere; write it as {}", placeholder(unused));
        return Err(failure(BAD_INPUT, message));
    }
    let combinations = combinations(&parameters);
    let filled = |work: &Work| combinations.iter().map(|values| work.filled(values.clone())).collect::<Vec<_>>();
    Ok(commands.iter().flat_map(filled).collect())
}

fn placeholder(name: &str) -> String {
    format!("{{{name}}}")
}

fn uses(work: &Work, name: &str) -> bool {
    let with = |value: &str| {
        let filled = work.filled(BTreeMap::from([(name.to_owned(), value.to_owned())]));
        Work { parameters: BTreeMap::new(), ..filled }
    };
    with("a") != with("b")
}

/// What only a shell would understand is no word of a program, and would be measured as something else.
fn words_of(text: &str) -> Result<Vec<OsString>, String> {
    const OF_THE_SHELL: [&str; 9] = ["|", "||", "&", "&&", ";", "<", ">", ">>", "2>"];
    let words = shell_words::split(text).map_err(|_| "a quote is not closed")?;
    if let Some(word) = words.iter().find(|word| OF_THE_SHELL.contains(&word.as_str())) {
        return Err(format!("no shell runs it, so '{word}' has no effect; write sh -c '…'"));
    }
    if words.is_empty() {
        return Err("it is empty".into());
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

fn parameters(arguments: &Compare) -> Result<Vec<Parameter>, String> {
    let mut parameters = Vec::new();
    for pair in arguments.parameter_list.chunks_exact(2) {
        parameters.push((pair[0].clone(), pair[1].split(',').map(String::from).collect()));
    }
    let step = arguments.parameter_step_size.as_deref().unwrap_or("1");
    for scan in arguments.parameter_scan.chunks_exact(3) {
        parameters.push((scan[0].clone(), numbers(&scan[1], &scan[2], step)?));
    }
    for (index, (name, _)) in parameters.iter().enumerate() {
        if name.is_empty() || name.contains(['{', '}']) {
            return Err(format!("'{name}' is no name of a parameter"));
        }
        if parameters[..index].iter().any(|(other, _)| other == name) {
            return Err(format!("the parameter '{name}' is given twice"));
        }
    }
    Ok(parameters)
}

/// With as many digits behind the point as `from` and `step` have.
fn numbers(from: &str, to: &str, step: &str) -> Result<Vec<String>, String> {
    let number = |text: &str| match text.parse::<f64>() {
        // An exponent would say nothing of how many digits are wanted.
        Ok(number) if number.is_finite() && !text.contains(['e', 'E']) => Ok(number),
        _ => Err(format!("--parameter-scan: '{text}' is not a number such as 10 or 0.5")),
    };
    let digits = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let places = digits(from).max(digits(step));
    let (from, to, step) = (number(from)?, number(to)?, number(step)?);
    if step <= 0.0 || from > to {
        return Err("--parameter-scan: the numbers go up from FROM to TO by a step above 0".into());
    }
    // A little more, since decimal fractions are not exact.
    let steps = ((to - from) / step + 1e-9).floor();
    if steps >= MOST_VALUES {
        return Err(format!("--parameter-scan: these are more than {MOST_VALUES} values"));
    }
    Ok((0..=steps as u32).map(|index| format!("{:.places$}", from + f64::from(index) * step)).collect())
}

/// The last parameter changes fastest. Without parameters there is one combination, of none.
fn combinations(parameters: &[Parameter]) -> Vec<BTreeMap<String, String>> {
    let mut all = vec![BTreeMap::new()];
    for (name, values) in parameters {
        let with = |so_far: &BTreeMap<String, String>| {
            let one = |value: &String| {
                let mut values = so_far.clone();
                values.insert(name.clone(), value.clone());
                values
            };
            values.iter().map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn works(arguments: &[&str]) -> Result<Vec<Work>> {
        let Command::Compare(compare) = Cli::parse_from([&["hak", "compare"], arguments].concat()).command else {
            panic!("not a comparison");
        };
        all(&compare)
    }

    fn names(arguments: &[&str]) -> Vec<String> {
        works(arguments).unwrap().iter().map(Work::name).collect()
    }

    fn reason(arguments: &[&str]) -> String {
        works(arguments).unwrap_err().to_string()
    }

    #[test]
    fn commands_are_shown_as_one_would_type_them() {
        assert_eq!(names(&["--", "echo", "a b", "c"]), ["echo 'a b' c"]);
        assert_eq!(names(&["--command", "echo 'a b'", "--command", "ls", "--", "true"]), ["true", "echo 'a b'", "ls"]);
    }

    #[test]
    fn all_combinations_of_values_are_filled_in_everywhere() {
        let list = ["--parameter-list", "n", "1,x y", "--parameter-scan", "m", "2", "3"];
        let works =
            works(&[&list[..], &["--setup", "s {n}", "--input", "{m}.txt", "--", "p{n}", "{m}"]].concat()).unwrap();
        let names: Vec<String> = works.iter().map(Work::name).collect();
        assert_eq!(names, ["p1 2", "p1 3", "'px y' 2", "'px y' 3"]);
        assert_eq!(works[3].setup.as_deref(), Some("s x y"));
        assert_eq!(works[3].input, Some("3.txt".into()));
        assert_eq!(works[3].parameters["n"], "x y");
    }

    #[test]
    fn scans_count_in_decimals() {
        assert_eq!(numbers("0", "0.3", "0.1").unwrap(), ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(numbers("-1", "1", "1").unwrap(), ["-1", "0", "1"]);
        assert_eq!(numbers("1", "8", "3").unwrap(), ["1", "4", "7"]);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(reason(&["--command", "a | b"]).contains("no shell runs it, so '|' has no effect"));
        assert!(reason(&["--command", "a 'b"]).contains("a quote is not closed"));
        assert!(reason(&["--command", " "]).contains("it is empty"));
        assert!(reason(&["--parameter-list", "n", "1", "--", "true"]).contains("write it as {n}"));
        let twice = ["--parameter-list", "n", "1", "--parameter-list", "n", "2", "--", "{n}"];
        assert!(reason(&twice).contains("'n' is given twice"));
        let scan =
            |from, to, step| reason(&["--parameter-scan", "n", from, to, "--parameter-step-size", step, "--", "{n}"]);
        assert!(scan("x", "2", "1").contains("'x' is not a number"));
        assert!(scan("0", "1", "1e-1").contains("'1e-1' is not a number such as"), "all would be shown as 0 or 1");
        assert!(scan("2", "1", "1").contains("go up"));
        assert!(scan("1", "2", "0").contains("above 0"));
        assert!(scan("1", "2000", "1").contains("more than 1000 values"));
    }
}
