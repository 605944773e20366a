// SPDX-License-Identifier: MIT
//! What env(1) starts, and whether it hands on what is preloaded.

/// What follows the word `env`.
pub struct Started {
    /// Why the program does not get LD_PRELOAD as it is.
    pub lost: Option<String>,
    /// The program and what follows it. Empty: env prints its environment.
    pub command: Vec<Vec<u8>>,
}

const WITH_VALUE: [(&str, &str); 3] = [("-u", "--unset"), ("-C", "--chdir"), ("-S", "--split-string")];

/// `split` makes words of the text that -S has.
pub fn started(words: &[Vec<u8>], split: &dyn Fn(&str) -> Option<Vec<Vec<u8>>>) -> Started {
    let mut left = words.to_vec();
    let mut lost = None;
    let mut lose = |text: &str| {
        lost.get_or_insert(format!("env {text}"));
    };
    while let Some(word) = left.first().cloned() {
        left.remove(0);
        let text = String::from_utf8_lossy(&word).into_owned();
        if text == "--" {
            continue;
        }
        if text == "-" || "--ignore-environment".starts_with(&text) && text.len() > 2 {
            lose(&text);
            continue;
        }
        let option = WITH_VALUE.iter().find_map(|(short, long)| {
            let name = text.split('=').next().unwrap_or_default();
            if name.len() > 2 && long.starts_with(name) {
                Some((*short, text.split_once('=').map(|(_, value)| value.to_owned())))
            } else {
                None
            }
        });
        // Short ones may be joined, and the last of them may have its value in the same word.
        let option = option.or_else(|| {
            let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
            for (at, letter) in letters.char_indices() {
                if letter == 'i' {
                    lose(&text);
                }
                if let Some((short, _)) = WITH_VALUE.iter().find(|(short, _)| short.ends_with(letter)) {
                    let rest = &letters[at + letter.len_utf8()..];
                    return Some((*short, (!rest.is_empty()).then(|| rest.to_owned())));
                }
            }
            None
        });
        if let Some((short, value)) = option {
            let value = value.or_else(|| (!left.is_empty()).then(|| String::from_utf8_lossy(&left.remove(0)).into()));
            let value = value.unwrap_or_default();
            match short {
                "-u" if value == "LD_PRELOAD" => lose(&format!("-u {value}")),
                "-S" => drop(left.splice(0..0, split(&value).unwrap_or_default())),
                _ => {}
            }
        } else if text.starts_with("LD_PRELOAD=") {
            lose(&text);
        } else if !text.starts_with('-') && !text.contains('=') {
            left.insert(0, word);
            break;
        }
    }
    Started { lost, command: left }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> (bool, String) {
        let split = |text: &str| Some(text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        let its = started(&split(text).unwrap_or_default(), &split);
        let command = its.command.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>();
        (its.lost.is_some(), command.join(" "))
    }

    #[test]
    fn what_env_starts_is_found_behind_its_options() {
        for (text, lost, command) in [
            ("prog a", false, "prog a"),
            ("A=b -- prog -i", false, "prog -i"),
            ("-u A -C /tmp --chdir=/ prog", false, "prog"),
            ("-v0uA prog", false, "prog"),
            ("-S prog a", false, "prog a"),
            ("-vSprog a", false, "prog a"),
            ("--unset A prog", false, "prog"),
            ("-i prog", true, "prog"),
            ("- prog", true, "prog"),
            ("-vi A=b prog", true, "prog"),
            ("--ignore prog", true, "prog"),
            ("-uLD_PRELOAD prog", true, "prog"),
            ("--unset=LD_PRELOAD prog", true, "prog"),
            ("LD_PRELOAD= prog", true, "prog"),
            ("LD_PRELOADS= --ignore-signal=INT prog", false, "prog"),
            ("", false, ""),
        ] {
            assert_eq!(outcome(text), (lost, command.to_owned()), "{text}");
        }
    }
}
