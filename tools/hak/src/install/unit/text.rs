// SPDX-License-Identifier: MIT
//! The text of unit files, as systemd.syntax(7) and systemd.service(5) have it.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::failure::{BAD_INPUT, failure};

pub struct Setting {
    pub name: String,
    pub value: String,
    pub file: PathBuf,
}

/// The lines, as systemd ends them: each of its marks once may come together.
fn lines(mut text: &[u8]) -> Vec<&[u8]> {
    let mark = |byte: &u8| b"\n\r\0".contains(byte);
    let mut all = Vec::new();
    while !text.is_empty() {
        let end = text.iter().position(mark).unwrap_or(text.len());
        let mut next = end;
        while text.get(next).is_some_and(mark) && !text[end..next].contains(&text[next]) && text[end..next] != [0] {
            next += 1;
        }
        all.push(&text[..end]);
        text = &text[next..];
    }
    all
}

/// Those of `[Service]`, with lines that go on joined. Comments may be in any encoding.
pub fn settings(file: &Path, text: &[u8]) -> Result<Vec<Setting>> {
    settings_of(file, text, "[Service]")
}

/// The same of another section.
pub fn settings_of(file: &Path, text: &[u8], section: &str) -> Result<Vec<Setting>> {
    let mut found = Vec::new();
    let mut inside = false;
    let mut joined: Vec<u8> = Vec::new();
    let mut mark: Option<&[u8]> = Some(b"\xEF\xBB\xBF");
    for mut line in lines(text).into_iter().chain([&b""[..]]) {
        if matches!(line.trim_ascii_start().first(), Some(b'#' | b';')) {
            continue;
        }
        // The first that there is, wherever.
        if let Some(rest) = mark.and_then(|mark| line.strip_prefix(mark)) {
            (line, mark) = (rest, None);
        }
        let backslashes = line.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if backslashes % 2 == 1 {
            joined.extend_from_slice(&line[..line.len() - 1]);
            joined.push(b' ');
            continue;
        }
        joined.extend_from_slice(line);
        let whole = std::mem::take(&mut joined);
        let Ok(whole) = str::from_utf8(&whole) else {
            let shown = String::from_utf8_lossy(&whole).into_owned();
            let message = format!("{}: systemd does not read what is not UTF-8: {shown}", file.display());
            return Err(failure(BAD_INPUT, message));
        };
        let whole = whole.trim();
        if whole.starts_with('[') {
            inside = whole == section;
        } else if let (true, Some((name, value))) = (inside, whole.split_once('=')) {
            let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
            found.push(Setting { name, value, file: file.to_owned() });
        }
    }
    Ok(found)
}

/// The words of a value. `None`: a quote is not closed.
pub fn words(value: &str) -> Option<Vec<Vec<u8>>> {
    let mut left = value.as_bytes();
    let mut words = Vec::new();
    while let Some(word) = next_word(&mut left)? {
        words.push(word);
    }
    Some(words)
}

/// Those of `ExecStart=`, which may hold several commands.
pub fn commands(value: &str) -> Option<Vec<Vec<Vec<u8>>>> {
    let mut left = value.as_bytes();
    let mut commands = vec![Vec::new()];
    loop {
        left = left.trim_ascii_start();
        let end = left.iter().position(u8::is_ascii_whitespace).unwrap_or(left.len());
        match &left[..end] {
            b";" => {
                commands.push(Vec::new());
                left = &left[end..];
            }
            b"\\;" => {
                commands.last_mut()?.push(b";".to_vec());
                left = &left[end..];
            }
            _ => match next_word(&mut left)? {
                Some(word) => commands.last_mut()?.push(word),
                None => break,
            },
        }
    }
    commands.retain(|command| !command.is_empty());
    Some(commands)
}

#[allow(clippy::option_option)]
fn next_word(left: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    *left = left.trim_ascii_start();
    if left.is_empty() {
        return Some(None);
    }
    let mut word = Vec::new();
    let mut quote = None;
    while let Some((&byte, rest)) = left.split_first() {
        *left = rest;
        match (byte, quote) {
            (b'\\', _) => {
                let (bytes, length) = escaped(rest);
                word.extend(bytes);
                *left = &rest[length..];
            }
            (_, Some(its)) if byte == its => quote = None,
            (b'"' | b'\'', None) => quote = Some(byte),
            (_, None) if byte.is_ascii_whitespace() => return Some(Some(word)),
            _ => word.push(byte),
        }
    }
    quote.is_none().then_some(Some(word))
}

/// What stands for the text after a backslash, and how long that is. What is no escape stays, backslash and all.
fn escaped(text: &[u8]) -> (Vec<u8>, usize) {
    let number = |from: usize, length: usize, base: u32| {
        let digits = text.get(from..from + length)?;
        let all = digits.iter().all(|&digit| char::from(digit).is_digit(base));
        all.then(|| u32::from_str_radix(str::from_utf8(digits).ok()?, base).ok())?
    };
    let byte = |value: Option<u32>| value.and_then(|value| u8::try_from(value).ok()).map(|value| vec![value]);
    let letter = |value: Option<u32>| value.and_then(char::from_u32).map(|value| value.to_string().into_bytes());
    let plain = |value: u8| Some(vec![value]);
    let (found, length) = match text.first() {
        Some(b'a') => (plain(7), 1),
        Some(b'b') => (plain(8), 1),
        Some(b'f') => (plain(12), 1),
        Some(b'n') => (plain(b'\n'), 1),
        Some(b'r') => (plain(b'\r'), 1),
        Some(b't') => (plain(b'\t'), 1),
        Some(b'v') => (plain(11), 1),
        Some(b's') => (plain(b' '), 1),
        Some(&its @ (b'\\' | b'"' | b'\'')) => (plain(its), 1),
        Some(b'x') => (byte(number(1, 2, 16)), 3),
        Some(b'u') => (letter(number(1, 4, 16)), 5),
        Some(b'U') => (letter(number(1, 8, 16)), 9),
        Some(b'0'..=b'7') => (byte(number(0, 3, 8)), 3),
        _ => (None, 0),
    };
    found.map_or((vec![b'\\'], 0), |found| (found, length))
}

/// As systemd takes them.
pub fn is_true(value: &str) -> bool {
    ["1", "yes", "y", "true", "t", "on"].contains(&value.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[u8]) -> Vec<(String, String)> {
        let all = settings(Path::new("/one"), text).unwrap();
        all.into_iter().map(|one| (one.name, one.value)).collect()
    }

    #[test]
    fn settings_are_those_of_the_service_alone() {
        let text = b"[Unit]\nExecStart=no\n[Service]\n# Environment=no \xFC \\\nExecStart = /a \\\n# no\n  b\r\nE=a\\\\\n[Install]\nX=y\n";
        let expected = [("ExecStart", "/a    b"), ("E", "a\\\\")];
        assert_eq!(pairs(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for end in [&b"\r\n"[..], b"\n\r", b"\n\0"] {
            let text = [&b"[Service]"[..], b"A=b \\", b"c", b"\xEF\xBB\xBFD=e"].join(end);
            assert_eq!(pairs(&text), [("A", "b  c"), ("D", "e")].map(|(name, value)| (name.into(), value.into())));
        }
        assert_eq!(lines(b"a\n\nb\0\nc\r"), [&b"a"[..], b"", b"b", b"", b"c"]);
        assert_eq!(pairs(b"[Service]\nA=b\\").len(), 1, "the last line goes on");
        assert!(settings(Path::new("/one"), b"[Service]\nA=\xFC\n").is_err());
    }

    #[test]
    fn words_are_those_of_systemd() {
        let text =
            |value: &str| words(value).map(|all| all.iter().map(|one| String::from_utf8_lossy(one).into()).collect());
        let expect = |value: &str, expected: &[&str]| {
            assert_eq!(text(value), Some(expected.iter().map(|&one| one.to_owned()).collect::<Vec<_>>()), "{value}");
        };
        expect("", &[]);
        expect(r#"a "b c"'d' "" e\x20f\s\\"#, &["a", "b cd", "", "e f \\"]);
        expect(r"a\qb \", &["a\\qb", "\\"]);
        expect(r"\101\u00fc", &["A\u{fc}"]);
        assert_eq!(words(r"\xfc"), Some(vec![vec![0xfc]]));
        assert_eq!(words("'a"), None);
        let all = commands(r"/a ; /b \; ';' c;").unwrap();
        assert_eq!(all, [vec![b"/a".to_vec()], ["/b", ";", ";", "c;"].map(|one| one.as_bytes().to_vec()).to_vec()]);
    }
}
