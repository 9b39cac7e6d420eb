//! JSON as raw bytes: is it valid, and where are the values that plain key paths name.
//!
//! From above: [`is_valid`] and [`scan`]. One pass; what no path enters is gone over with an explicit stack, so nesting
//! costs a bit a level. Accepts exactly what RFC 8259 calls a JSON text, without looking at UTF-8.

mod blocks;
mod prefixes;
mod runs;

use blocks::Blocks;
pub use prefixes::{MAX_PREFIX_DEPTH, PrefixSet, Spans};
pub(super) use runs::plain_run;

/// Says whether the bytes are one valid JSON text.
#[must_use]
pub fn is_valid(text: &[u8]) -> bool {
    let mut reader = Reader::new(text);
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
    prefixes::find(Reader::new(text), prefixes)
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
        if self.word == Self::EMPTY {
            self.word = restore(&mut self.outer);
            return self.word == Self::EMPTY;
        }
        false
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        self.word & 1 == 1
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

/// What comes after a member of an object.
enum Next {
    /// The next key, whose text starts there.
    Key(usize),
    /// The end of the object, which is before that byte.
    End(usize),
}

/// Goes over a text from value to value; every method gives `None` where the text is not valid JSON.
struct Reader<'t> {
    text: &'t [u8],
    blocks: Blocks,
}

impl<'t> Reader<'t> {
    fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            blocks: Blocks::default(),
        }
    }

    /// The end of the value that starts with the byte `first` at `at`.
    fn value_end(&mut self, at: usize, first: u8) -> Option<usize> {
        match first {
            b'"' => self.string_end(at + 1).map(|(end, _)| end),
            b'{' | b'[' => self.container_end(at, first),
            _ => plain_scalar_end(self.text, at, first),
        }
    }

    /// The end of a container, whatever is in it.
    #[inline(never)]
    fn container_end(&mut self, at: usize, first: u8) -> Option<usize> {
        // A copy stays in registers, as nobody else can see it.
        let mut blocks = self.blocks;
        let end = container_end(self.text, &mut blocks, at, first);
        self.blocks = blocks;
        end
    }

    #[inline(always)]
    fn next_byte(&self, at: usize) -> Option<(usize, u8)> {
        next_byte(self.text, at)
    }

    /// The index after the closing quote of a string whose text starts at `at`, and whether it has escapes.
    #[inline(always)]
    fn string_end(&mut self, at: usize) -> Option<(usize, bool)> {
        let at = self.blocks.plain_end(self.text, at);
        string_rest(self.text, at)
    }
}

/// The end of a container: a loop over values, with the containers around them as bits.
#[inline(always)]
fn container_end(text: &[u8], blocks: &mut Blocks, mut at: usize, mut first: u8) -> Option<usize> {
    let mut open = Nesting::new();
    'value: loop {
        let key = 'member: {
            match first {
                b'"' => {
                    let end = blocks.plain_end_inline(text, at + 1);
                    at = string_rest(text, end)?.0;
                }
                b'{' => {
                    open.push(true);
                    let (next, byte) = next_byte(text, at + 1)?;
                    if byte == b'"' {
                        break 'member next + 1;
                    }
                    if byte != b'}' {
                        return None;
                    }
                    at = next + 1;
                    if open.pop() {
                        return Some(at);
                    }
                }
                b'[' => {
                    open.push(false);
                    (at, first) = next_byte(text, at + 1)?;
                    if first != b']' {
                        continue 'value;
                    }
                    at += 1;
                    if open.pop() {
                        return Some(at);
                    }
                }
                _ => at = plain_scalar_end(text, at, first)?,
            }
            // A value has ended; so may the containers around it.
            loop {
                if let Some(key) = next_key(text, at, &open) {
                    break 'member key;
                }
                let (end, byte) = next_byte(text, at)?;
                if byte == b',' {
                    (at, first) = next_byte(text, end + 1)?;
                    if !open.in_object() {
                        continue 'value;
                    }
                    if first != b'"' {
                        return None;
                    }
                    break 'member at + 1;
                }
                if byte != (if open.in_object() { b'}' } else { b']' }) {
                    return None;
                }
                at = end + 1;
                if open.pop() {
                    return Some(at);
                }
            }
        };
        (at, first) = after_key(text, blocks, key)?;
    }
}

/// Where the text of the next key starts, if it follows without blanks in this object or in the next one of an array.
#[inline(always)]
fn next_key(text: &[u8], at: usize, open: &Nesting) -> Option<usize> {
    let four = four_at(text, at);
    if four & 0xffff == word(b",\"\0\0") && open.in_object() {
        return Some(at + 2);
    }
    (four == word(b"},{\"") && open.in_object_of_array()).then_some(at + 4)
}

/// Goes over a key whose text starts at `at`, and its colon.
#[inline(always)]
fn after_key(text: &[u8], blocks: &mut Blocks, at: usize) -> Option<(usize, u8)> {
    let end = blocks.plain_end_inline(text, at);
    if let Some(value) = text_follows(text, end) {
        return Some((value, b'"'));
    }
    let (end, _) = string_rest(text, end)?;
    after_colon(text, end)
}

/// What comes after a member of an object that ends at `at`.
#[inline(always)]
fn after_member(text: &[u8], at: usize) -> Option<Next> {
    let (at, byte) = next_byte(text, at)?;
    match byte {
        b',' => {
            let (at, byte) = next_byte(text, at + 1)?;
            (byte == b'"').then_some(Next::Key(at + 1))
        }
        b'}' => Some(Next::End(at + 1)),
        _ => None,
    }
}

/// Where the value starts of a key that may end at `end`, if it is a text and follows without blanks.
#[inline(always)]
fn text_follows(text: &[u8], end: usize) -> Option<usize> {
    (four_at(text, end) & 0xff_ffff == word(b"\":\"\0")).then_some(end + 2)
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

/// Four bytes of the text as a number; 0 near its end, where nobody needs them.
#[inline(always)]
fn four_at(text: &[u8], at: usize) -> u32 {
    match text.get(at..).and_then(<[u8]>::first_chunk::<4>) {
        Some(bytes) => u32::from_le_bytes(*bytes),
        None => 0,
    }
}

const fn word(bytes: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*bytes)
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
    let mut blocks = Blocks::default();
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = escape_end(text, at + 1)?,
            _ => return None,
        }
        at = blocks.plain_end(text, at);
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
