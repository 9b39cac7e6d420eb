//! JSON as raw bytes: is it valid, and where are the values that plain key paths name.
//!
//! From above: [`is_valid`] and [`scan`]. One pass; what no path enters is gone over with an explicit stack, so nesting
//! costs a bit a level. Accepts exactly what RFC 8259 calls a JSON text, without looking at UTF-8.

mod blocks;
mod members;
mod prefixes;
mod runs;

use blocks::{Blocks, Padded};
use members::{Stop, skip_members};
pub use prefixes::{MAX_PREFIX_DEPTH, PrefixSet, Spans};
pub(super) use runs::plain_run;

/// Says whether the bytes are one valid JSON text.
#[must_use]
pub fn is_valid(text: &[u8]) -> bool {
    let text = Padded::new(text);
    let mut reader = Reader::new(&text);
    let whole = |reader: &mut Reader<'_>| {
        let (at, first) = reader.next_byte(0)?;
        reader.value_end(at, first)
    };
    whole(&mut reader).is_some_and(|end| reader.next_byte(end).is_none())
}

/// Validates the text and notes the first value of every plain path of the set; `None` if the text is not valid JSON.
#[must_use]
pub fn scan(text: &[u8], prefixes: &PrefixSet) -> Option<Spans> {
    if prefixes.is_empty() {
        return is_valid(text).then(Spans::default);
    }
    prefixes::find(&Padded::new(text), prefixes)
}

/// Kinds of the containers around a place, one bit each (set: object), above them a bit that marks the end.
struct Nesting {
    word: u64,
    /// Words of the outer levels, each full.
    outer: Vec<u64>,
}

impl Nesting {
    const EMPTY: u64 = 1;

    fn new() -> Self {
        Self {
            word: Self::EMPTY,
            outer: Vec::new(),
        }
    }

    #[inline(always)]
    fn push(&mut self, object: bool) {
        if self.word >> 63 == 1 {
            save(&mut self.outer, self.word);
            self.word = Self::EMPTY;
        }
        self.word = self.word << 1 | u64::from(object);
    }

    /// Leaves a container; says whether that was the outermost one.
    #[inline(always)]
    fn pop(&mut self) -> bool {
        self.word >>= 1;
        if self.word != Self::EMPTY {
            return false;
        }
        self.word = match self.outer.is_empty() {
            true => Self::EMPTY,
            false => restore(&mut self.outer),
        };
        self.word == Self::EMPTY
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        self.word & 1 == 1
    }

    /// The byte that closes the innermost container.
    #[inline(always)]
    fn closing(&self) -> u8 {
        if self.in_object() { b'}' } else { b']' }
    }

    #[inline(always)]
    fn in_object_of_array(&self) -> bool {
        self.word & 3 == 1
    }
}

#[cold]
#[inline(never)]
fn save(outer: &mut Vec<u64>, word: u64) {
    outer.push(word);
}

#[inline(never)]
fn restore(outer: &mut Vec<u64>) -> u64 {
    outer.pop().unwrap_or(Nesting::EMPTY)
}

/// What comes after a value in a container.
enum Then {
    /// Another key, whose text starts there.
    Key(usize),
    /// Another value of an array: where it starts, and with which byte.
    Value(usize, u8),
    /// The end of the outermost container, which is before that byte.
    End(usize),
}

/// Goes over a text from value to value; every method gives `None` where the text is not valid JSON.
struct Reader<'t> {
    text: &'t [u8],
    blocks: Blocks<'t>,
}

impl<'t> Reader<'t> {
    #[inline]
    fn new(text: &'t Padded<'t>) -> Self {
        let blocks = Blocks::at(text, 0);
        Self {
            text: blocks.text(),
            blocks,
        }
    }

    /// The end of the value that starts with the byte `first` at `at`.
    #[inline]
    fn value_end(&mut self, at: usize, first: u8) -> Option<usize> {
        match first {
            b'"' => string_end(&mut self.blocks, at + 1),
            b'{' | b'[' => container_end(&mut self.blocks, at, first),
            _ => plain_scalar_end(self.text, at, first),
        }
    }

    #[inline(always)]
    fn next_byte(&self, at: usize) -> Option<(usize, u8)> {
        next_byte(self.text, at)
    }
}

/// The end of a container: a loop over values, with the containers around them as bits.
#[inline(never)]
fn container_end(around: &mut Blocks<'_>, mut at: usize, mut first: u8) -> Option<usize> {
    // A copy stays in registers, as nobody else can see it.
    let mut blocks = *around;
    let text = blocks.text();
    let mut open = Nesting::new();
    'value: loop {
        let mut then = match first {
            b'{' | b'[' => enter(text, &mut open, at, first)?,
            b'"' => {
                let end = string_end(&mut blocks, at + 1)?;
                after_value(&blocks, &mut open, end)?
            }
            _ => {
                let end = plain_scalar_end(text, at, first)?;
                after_value(&blocks, &mut open, end)?
            }
        };
        loop {
            let key = match then {
                Then::Key(key) => key,
                Then::Value(next, byte) => {
                    (at, first) = (next, byte);
                    continue 'value;
                }
                Then::End(end) => {
                    *around = blocks;
                    return Some(end);
                }
            };
            let rows = open.in_object_of_array();
            match skip_members::<true>(&mut blocks, rows, 0, key) {
                Stop::Open(next, byte) => {
                    (at, first) = (next, byte);
                    continue 'value;
                }
                Stop::Value(end) => then = after_value(&blocks, &mut open, end)?,
                Stop::Key(key) | Stop::Wanted(key, ..) => {
                    let key = Key::read(&mut blocks, key)?;
                    (at, first) = (key.value, key.first);
                    continue 'value;
                }
            }
        }
    }
}

/// A key of an object, and where its value starts.
struct Key {
    /// The index of the closing quote.
    end: usize,
    escaped: bool,
    value: usize,
    /// The first byte of the value.
    first: u8,
}

impl Key {
    /// Reads a key whose text starts at `start`.
    #[inline(always)]
    fn read(blocks: &mut Blocks<'_>, start: usize) -> Option<Self> {
        let text = blocks.text();
        let (end, eight) = blocks.plain_end(start);
        Self::before(text, end, eight)
    }

    /// The same of a key whose plain text ends before those eight bytes.
    #[inline(always)]
    fn before(text: &[u8], end: usize, eight: u64) -> Option<Self> {
        let first = (eight >> 16) as u8;
        if begins(eight, *b"\":") && first > b' ' {
            return Some(Self {
                end,
                escaped: false,
                value: end + 2,
                first,
            });
        }
        let (end, escaped) = string_rest(text, end)?;
        let (value, first) = after_colon(text, end)?;
        Some(Self {
            end: end - 1,
            escaped,
            value,
            first,
        })
    }
}

/// Goes into a container, and out again if nothing is in it.
#[inline(always)]
fn enter(text: &[u8], open: &mut Nesting, at: usize, first: u8) -> Option<Then> {
    let object = first == b'{';
    open.push(object);
    let (next, byte) = next_byte(text, at + 1)?;
    if byte == open.closing() {
        return leave(text, open, next);
    }
    match object {
        true => (byte == b'"').then_some(Then::Key(next + 1)),
        false => Some(Then::Value(next, byte)),
    }
}

/// What comes after a value that ends at `at`.
#[inline(always)]
fn after_value(blocks: &Blocks<'_>, open: &mut Nesting, at: usize) -> Option<Then> {
    let text = blocks.text();
    // What is there mostly is seen at once.
    let eight = blocks.eight_at(at);
    if begins(eight, *b",\"") && open.in_object() {
        return Some(Then::Key(at + 2));
    }
    if begins(eight, *b"},{\"") && open.in_object_of_array() {
        return Some(Then::Key(at + 4));
    }
    let (at, byte) = next_byte(text, at)?;
    if byte == b',' {
        return after_comma(text, open, at);
    }
    (byte == open.closing())
        .then(|| leave(text, open, at))
        .flatten()
}

#[inline(always)]
fn after_comma(text: &[u8], open: &Nesting, comma: usize) -> Option<Then> {
    let (at, byte) = next_byte(text, comma + 1)?;
    match open.in_object() {
        true => (byte == b'"').then_some(Then::Key(at + 1)),
        false => Some(Then::Value(at, byte)),
    }
}

/// What comes after a container that is closed by the byte at `at`; with it others may end.
#[inline(never)]
fn leave(text: &[u8], open: &mut Nesting, mut at: usize) -> Option<Then> {
    while !open.pop() {
        let (end, byte) = next_byte(text, at + 1)?;
        if byte == b',' {
            return after_comma(text, open, end);
        }
        if byte != open.closing() {
            return None;
        }
        at = end;
    }
    Some(Then::End(at + 1))
}

#[inline(always)]
fn after_colon(text: &[u8], at: usize) -> Option<(usize, u8)> {
    let (colon, byte) = next_byte(text, at)?;
    if byte != b':' {
        return None;
    }
    next_byte(text, colon + 1)
}

/// Where the next byte stands that is no blank, and that byte; `None` at the end.
#[inline(always)]
fn next_byte(text: &[u8], mut at: usize) -> Option<(usize, u8)> {
    let mut byte = *text.get(at)?;
    if byte <= b' ' {
        at = after_space(text, at);
        byte = *text.get(at)?;
    }
    Some((at, byte))
}

#[inline(never)]
fn after_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// Whether eight bytes begin with these few.
#[inline(always)]
const fn begins<const N: usize>(eight: u64, few: [u8; N]) -> bool {
    let mut wanted = [0; 8];
    let mut place = 0;
    while place < N {
        wanted[place] = few[place];
        place += 1;
    }
    eight & (u64::MAX >> (64 - 8 * N)) == u64::from_le_bytes(wanted)
}

/// The index after the closing quote of a string whose text starts at `at`.
#[inline(always)]
fn string_end(blocks: &mut Blocks<'_>, at: usize) -> Option<usize> {
    let (end, eight) = blocks.plain_end(at);
    if eight as u8 == b'"' {
        return Some(end + 1);
    }
    escaped_end(blocks.text(), end)
}

/// From the first byte of a string on that is not plain: the index after its closing quote, and whether it has escapes.
#[inline(always)]
fn string_rest(text: &[u8], at: usize) -> Option<(usize, bool)> {
    if *text.get(at)? == b'"' {
        return Some((at + 1, false));
    }
    escaped_end(text, at).map(|end| (end, true))
}

#[inline(never)]
fn escaped_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = escape_end(text, at + 1)?,
            _ => return None,
        }
        at = plain_run(text, at);
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

/// The end of a number, `true`, `false` or `null`.
#[inline(always)]
fn plain_scalar_end(text: &[u8], at: usize, first: u8) -> Option<usize> {
    match first {
        b'-' | b'0'..=b'9' => number_end(text, at, first),
        b't' => word_end(text, at, b"true"),
        b'f' => word_end(text, at, b"false"),
        b'n' => word_end(text, at, b"null"),
        _ => None,
    }
}

#[inline(always)]
fn word_end(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let rest = text.get(at..)?;
    rest.starts_with(word).then_some(at + word.len())
}

/// The index behind the digits from `at` on, of which there must be one.
#[inline(always)]
fn digits_end(text: &[u8], at: usize) -> Option<usize> {
    text.get(at).filter(|byte| byte.is_ascii_digit())?;
    let mut end = at + 1;
    while text.get(end).is_some_and(u8::is_ascii_digit) {
        end += 1;
    }
    Some(end)
}

#[inline(always)]
fn number_end(text: &[u8], at: usize, first: u8) -> Option<usize> {
    let digits = at + usize::from(first == b'-');
    let end = match text.get(digits)? {
        b'0' => digits + 1,
        _ => digits_end(text, digits)?,
    };
    match text.get(end) {
        Some(b'.' | b'e' | b'E') => fraction_end(text, end),
        _ => Some(end),
    }
}

/// The end of a number that has a fraction or an exponent, from the whole part's end on.
#[inline(never)]
fn fraction_end(text: &[u8], mut at: usize) -> Option<usize> {
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

/// Bytes that end a plain run of a string.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..b' ')
}

#[cfg(test)]
mod tests;
