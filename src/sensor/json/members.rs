//! Most of a text: members whose values are strings, short whole numbers and words, one after the other without blanks.

use super::begins;
use super::blocks::Blocks;

/// Where members of other kinds begin.
pub(super) enum Stop {
    /// With the key whose text starts there, and which has another value.
    Key(usize),
    /// With a key that may be wanted: where its text starts and where it has its first byte that is not plain, and the
    /// eight bytes from there on.
    Wanted(usize, usize, u64),
    /// With a container of a key that is not wanted: where it starts, and with which byte.
    Open(usize, u8),
    /// Behind a value that ends there, and after which none of them follows.
    Value(usize),
}

/// Goes over such members from the text of a key on, in `rows` also into the next object of an array, until there is
/// another one, or a key whose first byte and length are `wanted`.
#[inline(always)]
pub(super) fn skip_members<const INLINE: bool>(
    blocks: &mut Blocks<'_>,
    rows: bool,
    wanted: impl Fn(u8, usize) -> bool,
    first: usize,
) -> Stop {
    let mut start = first;
    let mut place = blocks.place_of(first);
    loop {
        let first = blocks.text().get(start).copied().unwrap_or_default();
        let eight = blocks.plain_end_in::<INLINE>(&mut place);
        let end = blocks.index_of(place);
        if wanted(first, end - start) {
            return Stop::Wanted(start, end, eight);
        }
        if begins(eight, *b"\":\"") {
            place += 3;
            let eight = blocks.plain_end_in::<INLINE>(&mut place);
            if eight as u8 != b'"' {
                return Stop::Key(start);
            }
            match to_next_key(rows, eight >> 8) {
                0 => return Stop::Value(blocks.index_of(place) + 1),
                distance => place += 1 + distance,
            }
        } else {
            if !begins(eight, *b"\":") {
                return Stop::Key(start);
            }
            let length = match short_value(eight >> 16) {
                0 => return Stop::Key(start),
                OPENS => return Stop::Open(blocks.index_of(place) + 2, (eight >> 16) as u8),
                length => length,
            };
            place += 2 + length;
            let eight = blocks.eight_in(place);
            match to_next_key(rows, eight) {
                0 if matches!(eight as u8, b',' | b'}') => {
                    return Stop::Value(blocks.index_of(place));
                }
                0 => return Stop::Key(start),
                distance => place += distance,
            }
        }
        start = blocks.index_of(place);
    }
}

/// How far the text of the next key is, if these eight bytes behind a value lead to one without blanks; else 0.
#[inline(always)]
fn to_next_key(rows: bool, eight: u64) -> usize {
    if begins(eight, *b",\"") {
        return 2;
    }
    if rows && begins(eight, *b"},{\"") {
        4
    } else {
        0
    }
}

/// The length of a container that is not empty, as [`short_value`] tells it.
const OPENS: usize = usize::MAX;

/// How many of six bytes are a whole number, a word or an empty container; what comes next may be more of it. 0 for
/// anything else.
#[inline(always)]
fn short_value(six: u64) -> usize {
    let first = six as u8;
    match first {
        b'0'..=b'9' => {
            let digits = digits(six);
            if first == b'0' && digits > 1 {
                0
            } else {
                digits
            }
        }
        b'{' | b'[' => {
            if begins(six, *b"{}") || begins(six, *b"[]") {
                2
            } else {
                OPENS
            }
        }
        b't' if begins(six, *b"true") => 4,
        b'n' if begins(six, *b"null") => 4,
        b'f' if begins(six, *b"false") => 5,
        _ => 0,
    }
}

/// How many digits six bytes with zeros behind them begin with.
#[inline(always)]
fn digits(six: u64) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let values = six ^ (ONES * u64::from(b'0'));
    // What is above nine gets the highest bit of its byte, or has it.
    let others = (values.wrapping_add(ONES * 0x76) | values) & (ONES * 0x80);
    others.trailing_zeros() as usize / 8
}
