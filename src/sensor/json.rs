//! JSON as raw bytes: is it valid, and where are the values that plain key paths name.
//!
//! From above: [`is_valid`] and [`scan`]. One pass, an explicit stack, no recursion, no allocation for documents
//! up to 64 levels deep. Accepts exactly what RFC 8259 calls a JSON text, without looking at UTF-8.

mod prefixes;

use std::ops::Range;

use prefixes::Tracker;
pub use prefixes::{MAX_PREFIX_DEPTH, PrefixSet, Spans};

/// Says whether the bytes are one valid JSON text.
#[must_use]
pub fn is_valid(text: &[u8]) -> bool {
    run(text, &mut Idle).is_some()
}

/// Validates the text and notes the first value of every plain path of the set; `None` if the text is not valid JSON.
#[must_use]
pub fn scan(text: &[u8], prefixes: &PrefixSet) -> Option<Spans> {
    if prefixes.is_empty() {
        return run(text, &mut Idle).map(|()| Spans::default());
    }
    let mut tracker = Tracker::new(prefixes);
    run(text, &mut tracker)?;
    Some(tracker.finish())
}

/// Hears where keys, elements and values are; depth counts the open containers.
trait Track {
    fn scalar(&mut self, start: usize, end: usize);
    fn opens(&mut self, depth: usize, start: usize);
    fn closes(&mut self, depth: usize, end: usize);
    fn key(&mut self, depth: usize, text: &[u8], at: Range<usize>, escaped: bool);
    fn element(&mut self, depth: usize);
}

/// Hears nothing.
struct Idle;

impl Track for Idle {
    fn scalar(&mut self, _: usize, _: usize) {}
    fn opens(&mut self, _: usize, _: usize) {}
    fn closes(&mut self, _: usize, _: usize) {}
    fn key(&mut self, _: usize, _: &[u8], _: Range<usize>, _: bool) {}
    fn element(&mut self, _: usize) {}
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

/// Reads a whole text; `None` if it is not valid.
fn run(text: &[u8], track: &mut impl Track) -> Option<()> {
    let mut open = Nesting::default();
    let (mut at, mut first) = next_byte(text, 0)?;
    loop {
        // A value begins here.
        let start = at;
        if first == b'{' || first == b'[' {
            open.push(first == b'{');
            track.opens(open.depth, start);
            let (next, byte) = next_byte(text, at + 1)?;
            // The closing bracket is the opening one plus two.
            if byte != first + 2 {
                (at, first) = member(text, next, byte, &open, track)?;
                continue;
            }
            at = next + 1;
            track.closes(open.depth, at);
            open.pop();
        } else {
            at = scalar_end(text, at, first)?;
            track.scalar(start, at);
        }
        loop {
            if open.depth == 0 {
                return next_byte(text, at).is_none().then_some(());
            }
            let (next, last) = next_byte(text, at)?;
            if last == b',' {
                let (next, byte) = next_byte(text, next + 1)?;
                (at, first) = member(text, next, byte, &open, track)?;
                break;
            }
            if last != (if open.in_object() { b'}' } else { b']' }) {
                return None;
            }
            at = next + 1;
            track.closes(open.depth, at);
            open.pop();
        }
    }
}

/// Goes over a key and its colon, or counts an element; gives where the value starts.
#[inline(always)]
fn member(
    text: &[u8],
    at: usize,
    first: u8,
    open: &Nesting,
    track: &mut impl Track,
) -> Option<(usize, u8)> {
    if !open.in_object() {
        track.element(open.depth);
        return Some((at, first));
    }
    if first != b'"' {
        return None;
    }
    let (end, escaped) = string_end(text, at + 1)?;
    track.key(open.depth, text, at + 1..end - 1, escaped);
    let (colon, byte) = next_byte(text, end)?;
    if byte != b':' {
        return None;
    }
    next_byte(text, colon + 1)
}

/// Where the next byte stands that is no blank, and that byte; `None` at the end.
#[inline(always)]
fn next_byte(text: &[u8], at: usize) -> Option<(usize, u8)> {
    let byte = *text.get(at)?;
    if byte > b' ' {
        return Some((at, byte));
    }
    after_space(text, at)
}

#[cold]
#[inline(never)]
fn after_space(text: &[u8], mut at: usize) -> Option<(usize, u8)> {
    loop {
        match *text.get(at)? {
            b' ' | b'\n' | b'\t' | b'\r' => at += 1,
            byte => return Some((at, byte)),
        }
    }
}

#[inline(always)]
fn scalar_end(text: &[u8], at: usize, first: u8) -> Option<usize> {
    match first {
        b'"' => string_end(text, at + 1).map(|(end, _)| end),
        b'-' | b'0'..=b'9' => number_end(text, at),
        b't' => literal_end(text, at, b"true"),
        b'f' => literal_end(text, at, b"false"),
        b'n' => literal_end(text, at, b"null"),
        _ => None,
    }
}

fn literal_end(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text.get(at..)?.starts_with(word).then_some(at + word.len())
}

/// The index after the closing quote of a valid string whose first content byte is at `at`, and whether it has escapes.
#[inline(always)]
fn string_end(text: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut escaped = false;
    loop {
        at = plain_run(text, at);
        match text.get(at)? {
            b'"' => return Some((at + 1, escaped)),
            b'\\' => {
                at = escape_end(text, at + 1)?;
                escaped = true;
            }
            _ => return None,
        }
    }
}

#[cold]
#[inline(never)]
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

/// The index of the first quote, backslash or control character from `at` on, or the length.
///
/// A word of eight bytes at a time finds the end of short texts; blocks of 32 are for the compiler to vectorise.
#[inline(always)]
pub(super) fn plain_run(text: &[u8], mut at: usize) -> usize {
    for _ in 0..4 {
        let Some(word) = word_at(text, at) else {
            return short_run(text, at);
        };
        let special = special_bits(word);
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    long_run(text, at)
}

#[inline(always)]
fn word_at(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)
        .and_then(<[u8]>::first_chunk::<8>)
        .map(|chunk| u64::from_le_bytes(*chunk))
}

const fn splat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The high bits of the bytes that end a plain run; only the lowest set bit is sure.
///
/// Each subtraction borrows where its byte is the one that is looked for; bytes beyond ASCII are left out at the end.
#[inline(always)]
fn special_bits(word: u64) -> u64 {
    let quote = (word ^ splat(b'"')).wrapping_sub(splat(1));
    let slash = (word ^ splat(b'\\')).wrapping_sub(splat(1));
    let control = word.wrapping_sub(splat(b' '));
    (quote | slash | control) & !word & splat(0x80)
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..b' ')
}

#[cold]
#[inline(never)]
fn short_run(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter()
        .position(|byte| is_special(*byte))
        .map_or(text.len(), |offset| at + offset)
}

#[cold]
#[inline(never)]
fn long_run(text: &[u8], mut at: usize) -> usize {
    while let Some(block) = text.get(at..).and_then(<[u8]>::first_chunk::<32>) {
        let seen = |seen: u8, byte: &u8| {
            seen | u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte < b' ')
        };
        if block.iter().fold(0, seen) != 0 {
            break;
        }
        at += 32;
    }
    while let Some(word) = word_at(text, at) {
        let special = special_bits(word);
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    short_run(text, at)
}

fn digits_end(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while let Some(b'0'..=b'9') = text.get(end) {
        end += 1;
    }
    (end > at).then_some(end)
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
