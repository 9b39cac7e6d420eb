//! JSON as raw bytes: is it valid, and where are the values that plain key paths name.
//!
//! From above: [`is_valid`] and [`scan`]. One pass, an explicit stack, no recursion, no allocation for documents
//! up to 64 levels deep. Accepts exactly what RFC 8259 calls a JSON text, without looking at UTF-8.

mod prefixes;

use prefixes::Tracker;
pub use prefixes::{MAX_PREFIX_DEPTH, PrefixSet, Spans};

/// Says whether the bytes are one valid JSON text.
#[must_use]
pub fn is_valid(text: &[u8]) -> bool {
    Scanner {
        text,
        at: 0,
        open: Nesting::default(),
        tracker: Tracker::idle(),
    }
    .run()
    .is_some()
}

/// Validates the text and notes the first value of every plain path of the set; `None` if the text is not valid JSON.
#[must_use]
pub fn scan(text: &[u8], prefixes: &PrefixSet) -> Option<Spans> {
    Scanner {
        text,
        at: 0,
        open: Nesting::default(),
        tracker: Tracker::new(prefixes),
    }
    .run()
}

/// Container kinds from the root to here, one bit each (set: object).
#[derive(Default)]
struct Nesting {
    word: u64,
    full: Vec<u64>,
    depth: usize,
}

impl Nesting {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.full.push(self.word);
        }
        self.word = self.word << 1 | u64::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.word >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.word = self.full.pop().unwrap_or(0);
        }
    }

    fn in_object(&self) -> bool {
        self.word & 1 == 1
    }
}

struct Scanner<'t, 's> {
    text: &'t [u8],
    at: usize,
    open: Nesting,
    tracker: Tracker<'s>,
}

impl Scanner<'_, '_> {
    fn run(mut self) -> Option<Spans> {
        self.skip_space();
        loop {
            if self.value()? {
                continue;
            }
            if !self.after_value()? {
                return Some(self.tracker.finish());
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads a scalar or enters a container; true when a value must follow at once.
    fn value(&mut self) -> Option<bool> {
        self.tracker.value_starts(self.at);
        match self.peek()? {
            b'{' => return self.enter(true),
            b'[' => return self.enter(false),
            b'"' => self.at = string_end(self.text, self.at + 1)?,
            b'-' | b'0'..=b'9' => self.at = number_end(self.text, self.at)?,
            b't' => self.literal(b"true")?,
            b'f' => self.literal(b"false")?,
            b'n' => self.literal(b"null")?,
            _ => return None,
        }
        self.tracker.scalar_ends(self.at);
        Some(false)
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        self.text
            .get(self.at..)?
            .starts_with(word)
            .then(|| self.at += word.len())
    }

    fn enter(&mut self, object: bool) -> Option<bool> {
        self.open.push(object);
        self.tracker.container_opens(self.open.depth);
        self.at += 1;
        self.skip_space();
        let close = if object { b'}' } else { b']' };
        if self.peek()? == close {
            self.leave();
            return Some(false);
        }
        self.next_member(object)?;
        Some(true)
    }

    fn leave(&mut self) {
        self.at += 1;
        self.tracker.container_closes(self.open.depth, self.at);
        self.open.pop();
    }

    /// Reads a key and its colon, or counts an element; the value follows.
    fn next_member(&mut self, object: bool) -> Option<()> {
        let depth = self.open.depth;
        if !object {
            self.tracker.element(depth);
            return Some(());
        }
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at + 1;
        self.at = string_end(self.text, start)?;
        self.tracker.key(depth, &self.text[start..self.at - 1]);
        self.skip_space();
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        self.skip_space();
        Some(())
    }

    /// Goes over commas and closing brackets to the next value; false at the end of a valid text.
    fn after_value(&mut self) -> Option<bool> {
        loop {
            self.skip_space();
            if self.open.depth == 0 {
                return (self.at == self.text.len()).then_some(false);
            }
            let object = self.open.in_object();
            match self.peek()? {
                b',' => {
                    self.at += 1;
                    self.skip_space();
                    self.next_member(object)?;
                    return Some(true);
                }
                b'}' if object => self.leave(),
                b']' if !object => self.leave(),
                _ => return None,
            }
        }
    }
}

/// The index after the closing quote of a valid string whose first content byte is at `at`.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = plain_run(text, at);
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = escape_end(text, at + 1)?,
            _ => return None,
        }
    }
}

fn escape_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' => {
            let digits = text.get(at + 1..at + 5)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 5)
        }
        _ => None,
    }
}

const fn splat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The index of the first quote, backslash or control character from `at` on, or the length.
///
/// A word of eight bytes at a time finds short strings; blocks of 32 are for the compiler to vectorise.
pub(super) fn plain_run(text: &[u8], mut at: usize) -> usize {
    if let Some(found) = special_in_word(text, &mut at, 2) {
        return found;
    }
    while let Some(block) = text.get(at..).and_then(<[u8]>::first_chunk::<32>) {
        let special = block.iter().fold(0u8, |seen, byte| {
            seen | u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte < b' ')
        });
        if special != 0 {
            break;
        }
        at += 32;
    }
    if let Some(found) = special_in_word(text, &mut at, 4) {
        return found;
    }
    let rest = text.get(at..).unwrap_or_default();
    rest.iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '))
        .map_or(text.len(), |offset| at + offset)
}

fn special_in_word(text: &[u8], at: &mut usize, words: usize) -> Option<usize> {
    for _ in 0..words {
        let chunk = text.get(*at..).and_then(<[u8]>::first_chunk::<8>)?;
        let word = u64::from_le_bytes(*chunk);
        let (quote, slash) = (word ^ splat(b'"'), word ^ splat(b'\\'));
        let zero_in = |bytes: u64| bytes.wrapping_sub(splat(1)) & !bytes;
        let control = word.wrapping_sub(splat(b' ')) & !word;
        let special = (zero_in(quote) | zero_in(slash) | control) & splat(0x80);
        if special != 0 {
            return Some(*at + special.trailing_zeros() as usize / 8);
        }
        *at += 8;
    }
    None
}

fn digits_end(text: &[u8], at: usize) -> Option<usize> {
    let digits = text
        .get(at..)?
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    (digits > 0).then_some(at + digits)
}

fn number_end(text: &[u8], mut at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = if text.get(at) == Some(&b'0') {
        at + 1
    } else {
        digits_end(text, at)?
    };
    if text.get(at) == Some(&b'.') {
        at = digits_end(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = digits_end(text, at)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests;
