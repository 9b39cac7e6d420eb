//! JSON text of a template, with the words of Go's `encoding/json` for what is wrong with it.
//!
//! The words are those of the decoder that upstream's Go releases use; the experimental one has others.

use super::limits::Failure;
use crate::sensor::number::parse_float;

/// Containers inside one another that Go's decoder takes.
const MAX_DEPTH: usize = 10_000;

/// Text that is JSON.
pub(super) struct Checked {
    /// With what Go's decoder puts in place of what it cannot hold.
    pub text: String,
    /// The first error after which that decoder goes on.
    pub error: Option<String>,
}

/// Looks through a text.
///
/// # Errors
/// Go's words for the first byte that is wrong.
pub(super) fn check(text: &str) -> Result<Checked, Failure> {
    let mut reader = Reader {
        bytes: text.as_bytes(),
        at: 0,
        out: Vec::with_capacity(text.len()),
        copied: 0,
        error: None,
    };
    reader.document()?;
    reader.out.extend_from_slice(&reader.bytes[reader.copied..]);
    Ok(Checked {
        text: String::from_utf8_lossy(&reader.out).into_owned(),
        error: reader.error,
    })
}

struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
    out: Vec<u8>,
    /// Up to here the text stands in `out`.
    copied: usize,
    error: Option<String>,
}

type Checking = Result<(), Failure>;

fn end<T>() -> Result<T, Failure> {
    Err("unexpected end of JSON input".into())
}

/// Go's complaint about a byte, which it takes for a character.
fn wrong<T>(byte: u8, context: &str) -> Result<T, Failure> {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        0x07 => "\\a".to_owned(),
        0x08 => "\\b".to_owned(),
        0x0b => "\\v".to_owned(),
        0x0c => "\\f".to_owned(),
        0..0x20 | 0x7f => format!("\\x{byte:02x}"),
        0x80..=0xa0 | 0xad => format!("\\u{byte:04x}"),
        byte => char::from(byte).to_string(),
    };
    Err(format!("invalid character '{shown}' {context}").into())
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next byte that is no space, which stays.
    fn token(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    /// A byte inside a literal, where Go takes the end of the text for a space.
    fn inside(&mut self, fits: impl Fn(u8) -> bool, context: &str) -> Checking {
        match self.peek().unwrap_or(b' ') {
            byte if fits(byte) => self.at += 1,
            byte => return wrong(byte, context),
        }
        Ok(())
    }

    fn document(&mut self) -> Checking {
        // Of each open container whether it is an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            if self.value(&mut open)? {
                continue;
            }
            // Behind a value: what may follow is up to what is around it.
            loop {
                let Some(object) = open.last().copied() else {
                    return match self.token() {
                        None => Ok(()),
                        Some(byte) => wrong(byte, "after top-level value"),
                    };
                };
                match (self.token(), object) {
                    (None, _) => return end(),
                    (Some(b','), true) => {
                        self.at += 1;
                        match self.token() {
                            Some(b'"') => self.key()?,
                            Some(byte) => {
                                return wrong(byte, "looking for beginning of object key string");
                            }
                            None => return end(),
                        }
                        break;
                    }
                    (Some(b','), false) => {
                        self.at += 1;
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        open.pop();
                    }
                    (Some(byte), true) => return wrong(byte, "after object key:value pair"),
                    (Some(byte), false) => return wrong(byte, "after array element"),
                }
            }
        }
    }

    /// A value; whether one inside it follows.
    fn value(&mut self, open: &mut Vec<bool>) -> Result<bool, Failure> {
        let start = self.token();
        match start {
            None => return end(),
            Some(byte @ (b'{' | b'[')) => {
                self.at += 1;
                open.push(byte == b'{');
                if open.len() > MAX_DEPTH {
                    return wrong(byte, "exceeded max depth");
                }
                return self.opened(open);
            }
            Some(b'"') => self.string()?,
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => self.word("null")?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(byte) => return wrong(byte, "looking for beginning of value"),
        }
        Ok(false)
    }

    /// Behind the bracket that opens a container; whether a value inside it follows.
    fn opened(&mut self, open: &mut Vec<bool>) -> Result<bool, Failure> {
        match (self.token(), open.last() == Some(&true)) {
            (Some(b'}'), true) | (Some(b']'), false) => {
                self.at += 1;
                open.pop();
                Ok(false)
            }
            (Some(b'"'), true) => self.key().map(|()| true),
            (Some(byte), true) => wrong(byte, "looking for beginning of object key string"),
            (None, true) => end(),
            (_, false) => Ok(true),
        }
    }

    fn key(&mut self) -> Checking {
        self.string()?;
        match self.token() {
            Some(b':') => self.at += 1,
            Some(byte) => return wrong(byte, "after object key"),
            None => return end(),
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Checking {
        self.at += 1;
        for expected in word.bytes().skip(1) {
            let expecting = format!("in literal {word} (expecting '{}')", char::from(expected));
            self.inside(|byte| byte == expected, &expecting)?;
        }
        Ok(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Checking {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let zero = self.peek() == Some(b'0');
        self.inside(|byte| byte.is_ascii_digit(), "in numeric literal")?;
        if !zero {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            let context = "after decimal point in numeric literal";
            self.inside(|byte| byte.is_ascii_digit(), context)?;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.inside(
                |byte| byte.is_ascii_digit(),
                "in exponent of numeric literal",
            )?;
            self.digits();
        }
        let number = &self.bytes[start..self.at];
        if parse_float(number).is_err() {
            // Go leaves nothing in its place.
            let shown = String::from_utf8_lossy(number);
            let text =
                format!("json: cannot unmarshal number {shown} into Go value of type float64");
            self.error.get_or_insert(text);
            self.instead(start, b"null");
        }
        Ok(())
    }

    /// Puts something in place of what was read since a byte.
    fn instead(&mut self, start: usize, text: &[u8]) {
        self.out.extend_from_slice(&self.bytes[self.copied..start]);
        self.out.extend_from_slice(text);
        self.copied = self.at;
    }

    fn string(&mut self) -> Checking {
        self.at += 1;
        loop {
            match self.peek() {
                None => return end(),
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(byte @ 0..0x20) => return wrong(byte, "in string literal"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Checking {
        let start = self.at;
        self.at += 1;
        let unicode = self.peek() == Some(b'u');
        self.inside(
            |byte| b"bfnrt\\/\"u".contains(&byte),
            "in string escape code",
        )?;
        if !unicode {
            return Ok(());
        }
        for _ in 0..4 {
            let context = "in \\u hexadecimal character escape";
            self.inside(|byte| byte.is_ascii_hexdigit(), context)?;
        }
        match self.unit(start) {
            Some(0xd800..0xdc00) if matches!(self.unit(self.at), Some(0xdc00..0xe000)) => {
                self.at += 6;
            }
            // Half of a pair stands for no character.
            Some(0xd800..0xe000) => self.instead(start, b"\\ufffd"),
            _ => {}
        }
        Ok(())
    }

    /// The number that an escape `\uXXXX` at a place stands for.
    fn unit(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}
