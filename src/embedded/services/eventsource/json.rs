//! JSON as Go writes it: what a request body is checked against, compacted to, and put into the event.

/// Nesting that Go's decoder takes.
const MAX_DEPTH: usize = 10_000;

/// Appends a JSON string: `<`, `>`, `&` and the two line separators escaped, bytes that are not UTF-8 replaced.
pub(super) fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_char(out, c);
        }
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

fn push_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
            push_escape(out, u32::from(c))
        }
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn push_escape(out: &mut Vec<u8>, code: u32) {
    out.extend_from_slice(format!("\\u{code:04x}").as_bytes());
}

/// `{"name":["value", …], …}`, names in order.
pub(super) fn push_values<'a>(
    out: &mut Vec<u8>,
    entries: impl Iterator<Item = (&'a [u8], &'a [Vec<u8>])>,
) {
    out.push(b'{');
    for (index, (name, values)) in entries.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_string(out, name);
        out.extend_from_slice(b":[");
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            push_string(out, value);
        }
        out.push(b']');
    }
    out.push(b'}');
}

/// What the scanner expects next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// A value, or `]` of an empty array.
    FirstElement,
    /// A key, or `}` of an empty object.
    FirstKey,
    Key,
    /// `,` or the end of what is open; at the top, the end of the text.
    After,
}

/// Checks a text and appends it without the blanks between its parts; the error is worded as Go's.
///
/// Strings keep their bytes (also those that are not UTF-8), save that HTML's characters become escapes.
pub(super) fn compact(out: &mut Vec<u8>, text: &[u8]) -> Result<(), String> {
    let mut scanner = Scanner {
        text,
        at: 0,
        open: Vec::new(),
    };
    let mut expect = Expect::Value;
    loop {
        scanner.skip_blanks();
        let Some(byte) = scanner.peek() else {
            let ended = expect == Expect::After && scanner.open.is_empty();
            return if ended {
                Ok(())
            } else {
                Err("unexpected end of JSON input".to_owned())
            };
        };
        expect = match expect {
            Expect::After => scanner.after(out, byte)?,
            Expect::FirstKey if byte == b'}' => scanner.close(out),
            Expect::FirstElement if byte == b']' => scanner.close(out),
            Expect::FirstKey | Expect::Key => scanner.key(out, byte)?,
            Expect::Value | Expect::FirstElement => scanner.value(out, byte)?,
        };
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// `true` for an open object, `false` for an array.
    open: Vec<bool>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn after(&mut self, out: &mut Vec<u8>, byte: u8) -> Result<Expect, String> {
        let (closing, place, next) = match self.open.last() {
            None => return Err(self.invalid("after top-level value")),
            Some(true) => (b'}', "after object key:value pair", Expect::Key),
            Some(false) => (b']', "after array element", Expect::Value),
        };
        match byte {
            b',' => {
                out.push(b',');
                self.at += 1;
                Ok(next)
            }
            byte if byte == closing => Ok(self.close(out)),
            _ => Err(self.invalid(place)),
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) -> Expect {
        out.extend(self.peek());
        self.at += 1;
        self.open.pop();
        Expect::After
    }

    fn key(&mut self, out: &mut Vec<u8>, byte: u8) -> Result<Expect, String> {
        if byte != b'"' {
            return Err(self.invalid("looking for beginning of object key string"));
        }
        self.string(out)?;
        self.skip_blanks();
        match self.peek() {
            Some(b':') => {
                out.push(b':');
                self.at += 1;
                Ok(Expect::Value)
            }
            Some(_) => Err(self.invalid("after object key")),
            None => Err("unexpected end of JSON input".to_owned()),
        }
    }

    fn value(&mut self, out: &mut Vec<u8>, byte: u8) -> Result<Expect, String> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    return Err("exceeded max depth".to_owned());
                }
                out.push(byte);
                self.at += 1;
                self.open.push(byte == b'{');
                return Ok(if byte == b'{' {
                    Expect::FirstKey
                } else {
                    Expect::FirstElement
                });
            }
            b'"' => self.string(out)?,
            b't' => self.literal(out, b"true")?,
            b'f' => self.literal(out, b"false")?,
            b'n' => self.literal(out, b"null")?,
            b'-' | b'0'..=b'9' => self.number(out)?,
            _ => return Err(self.invalid("looking for beginning of value")),
        }
        Ok(Expect::After)
    }

    fn literal(&mut self, out: &mut Vec<u8>, word: &'static [u8]) -> Result<(), String> {
        for expected in word {
            match self.peek() {
                Some(byte) if byte == *expected => self.at += 1,
                Some(_) => {
                    return Err(
                        self.invalid(&format!("in literal {}", String::from_utf8_lossy(word)))
                    );
                }
                None => return Err("unexpected end of JSON input".to_owned()),
            }
        }
        out.extend_from_slice(word);
        Ok(())
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.skip_digits(),
            _ => return Err(self.invalid_or_end("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        out.extend_from_slice(self.text.get(start..self.at).unwrap_or_default());
        Ok(())
    }

    fn digits(&mut self, place: &str) -> Result<(), String> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.invalid_or_end(place));
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn string(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        out.push(b'"');
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    out.push(b'"');
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape(out)?,
                0..=0x1f => return Err(self.invalid("in string")),
                b'<' | b'>' | b'&' => {
                    push_escape(out, u32::from(byte));
                    self.at += 1;
                }
                // The line separators U+2028 and U+2029.
                0xe2 if matches!(
                    self.text.get(self.at + 1..self.at + 3),
                    Some([0x80, 0xa8 | 0xa9])
                ) =>
                {
                    let last = self.text.get(self.at + 2).copied().unwrap_or_default();
                    push_escape(out, 0x2000 + u32::from(last & 0x3f));
                    self.at += 3;
                }
                byte => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        Err("unexpected end of JSON input".to_owned())
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.invalid_or_end("in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.invalid_or_end("in string escape code")),
        }
        out.extend_from_slice(self.text.get(start..self.at).unwrap_or_default());
        Ok(())
    }

    fn invalid_or_end(&self, place: &str) -> String {
        if self.at >= self.text.len() {
            return "unexpected end of JSON input".to_owned();
        }
        self.invalid(place)
    }

    fn invalid(&self, place: &str) -> String {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let first = rest
            .utf8_chunks()
            .next()
            .and_then(|chunk| chunk.valid().chars().next());
        let shown = match first {
            Some('\'') => "'\\''".to_owned(),
            Some(c) if c.is_ascii_control() => format!("'\\x{:02x}'", u32::from(c)),
            Some('\u{feff}') => "'\\ufeff'".to_owned(),
            Some(c) => format!("'{c}'"),
            None => format!("'\\x{:02x}'", rest.first().copied().unwrap_or_default()),
        };
        format!("invalid character {shown} {place}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compacted(text: &str) -> Result<String, String> {
        let mut out = Vec::new();
        compact(&mut out, text.as_bytes()).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn blanks_go_and_the_rest_stays_as_written() {
        let text = " { \"a\" : [ 1.50 , -0e+3, true,null ] ,\"b\":{}, \"c\":[ ]}\n";
        assert_eq!(
            compacted(text).unwrap(),
            r#"{"a":[1.50,-0e+3,true,null],"b":{},"c":[]}"#
        );
        assert_eq!(
            compacted("\"<b>&\u{2028}é\\/\"").unwrap(),
            "\"\\u003cb\\u003e\\u0026\\u2028é\\/\""
        );
    }

    #[test]
    fn what_is_not_json_is_refused_in_gos_words() {
        for (text, error) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            (
                "{\"a\":01}",
                "invalid character '1' after object key:value pair",
            ),
            ("{} {}", "invalid character '{' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            (
                "1.e",
                "invalid character 'e' after decimal point in numeric literal",
            ),
            ("trux", "invalid character 'x' in literal true"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            (
                "\"\\u12g4\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            (
                "{1:2}",
                "invalid character '1' looking for beginning of object key string",
            ),
            ("{\"a\" 2}", "invalid character '2' after object key"),
            ("]", "invalid character ']' looking for beginning of value"),
            ("[1}", "invalid character '}' after array element"),
        ] {
            assert_eq!(compacted(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(compacted(&format!("{}{}", "[".repeat(10_000), "]".repeat(10_000))).is_ok());
        assert_eq!(
            compacted(&"[".repeat(10_001)).unwrap_err(),
            "exceeded max depth"
        );
    }

    proptest::proptest! {
        #[test]
        fn it_accepts_what_serde_accepts(text in "[\\[\\]{}\",:0-9.eE+tfnrualse \\\\-]{0,24}") {
            let ours = compacted(&text).is_ok();
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            proptest::prop_assert_eq!(ours, theirs);
        }
    }
}
