// SPDX-License-Identifier: MIT
//! Files of variables, as `EnvironmentFile=` and environment.d have them (systemd.exec(5)).

/// What is assigned, in its order; a value goes on over ends of lines in quotes and after a backslash.
pub fn assigned(file: &[u8]) -> Vec<(String, String)> {
    let end = |byte: u8| b"\n\r".contains(&byte);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let mut all = Vec::new();
    let mut left = file.iter().copied().peekable();
    while let Some(&first) = left.peek() {
        if first.is_ascii_whitespace() {
            left.next();
            continue;
        }
        if b"#;".contains(&first) {
            // Whether a backslash takes the next line along depends on systemd's version: it may count.
            left.by_ref().find(|&byte| end(byte));
            continue;
        }
        let mut name = Vec::new();
        let mut ended = None;
        for byte in left.by_ref() {
            if byte == b'=' || end(byte) {
                ended = Some(byte);
                break;
            }
            name.push(byte);
        }
        if ended == Some(b'=') {
            let mut value = Vec::new();
            let (mut quote, mut bare) = (None, false);
            while let Some(byte) = left.next() {
                match (byte, quote) {
                    (b'\\', None | Some(b'"')) => {
                        value.extend(left.next().filter(|&byte| !end(byte)));
                        bare |= quote.is_none();
                    }
                    (_, Some(its)) if byte == its => quote = None,
                    (b'"' | b'\'', None) if !bare => quote = Some(byte),
                    (_, None) if end(byte) => break,
                    _ => {
                        bare |= quote.is_none() && !byte.is_ascii_whitespace();
                        value.push(byte);
                    }
                }
            }
            all.push((text(&name), text(&value)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_systemd_ends_them() {
        for (text, names) in [
            ("# P=/a\n;P=a\nB=P=\n", "B"),
            ("A=b \\\n P=/a\n", "A"),
            ("A=b\n P = /a\n", "A P"),
            ("A=C:\\\\\nP=/x.so\n", "A P"),
            ("A=b\rP=/x.so\n", "A P"),
            ("A=\"x\nP=/x\n\"\nB='\\'\nP=c", "A B P"),
            ("A=b'c\nP=d\nnothing\nE=", "A P E"),
        ] {
            let all: Vec<_> = assigned(text.as_bytes()).into_iter().map(|(name, _)| name).collect();
            assert_eq!(all.join(" "), names, "{text}");
        }
        assert_eq!(assigned(b"A = 'b'\"c\\\"\"\\ d "), [("A".into(), "bc\" d".into())]);
    }
}
