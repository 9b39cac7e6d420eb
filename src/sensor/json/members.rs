//! Most of a text: members whose values are strings, short whole numbers and words, one after the other without blanks.

use super::begins;
use super::blocks::Blocks;

/// Where members of other kinds begin.
pub(super) enum Stop {
    /// With the key whose text starts there, which is wanted or has another value.
    Key(usize),
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
        if wanted(first, blocks.index_of(place) - start) {
            return Stop::Key(start);
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
            let length = short_scalar(eight >> 16);
            if !begins(eight, *b"\":") || length == 0 {
                return Stop::Key(start);
            }
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

/// How many of six bytes are a whole number, a word or an empty container; what comes next may be more of it. 0 for
/// anything else.
#[inline(always)]
fn short_scalar(six: u64) -> usize {
    let digits = digits(six);
    if digits > 0 {
        let leading_zero = six as u8 == b'0' && digits > 1;
        return if leading_zero { 0 } else { digits };
    }
    if begins(six, *b"true") || begins(six, *b"null") {
        return 4;
    }
    if begins(six, *b"[]") || begins(six, *b"{}") {
        return 2;
    }
    if begins(six, *b"false") { 5 } else { 0 }
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
