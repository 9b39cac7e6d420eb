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
    /// With a container of a key that is not wanted: where it starts, and with which byte. The reader goes
    /// over all of it, also where some of it has been gone over.
    Open(usize, u8),
    /// Behind a value that ends there, and after which none of them follows.
    Value(usize),
}

/// Stands for no place.
const NONE: usize = usize::MAX;

/// Goes over such members from the text of a key on, in `rows` also into the next object of an array, until there is
/// another one, or a key whose [`sight`] is among the `sights`. An object that has only such members is one of them.
#[inline(always)]
pub(super) fn skip_members<const INLINE: bool>(
    blocks: &mut Blocks<'_>,
    rows: bool,
    sights: u64,
    first: usize,
) -> Stop {
    let mut start = first;
    let mut place = blocks.place_of(start);
    let mut first = blocks.text().get(start).copied().unwrap_or_default();
    // Where an object inside starts; while there is one, no key is wanted and no row ends.
    let mut inner = NONE;
    let (mut wanted, mut in_row) = (sights, rows);
    loop {
        let eight = blocks.plain_end_in::<INLINE>(&mut place);
        let end = blocks.index_of(place);
        if wanted >> sight(first, end - start) & 1 == 1 {
            return Stop::Wanted(start, end, eight);
        }
        let after = if begins(eight, *b"\":\"") {
            place += 3;
            let eight = blocks.plain_end_in::<INLINE>(&mut place);
            if eight as u8 != b'"' {
                return other(start, inner);
            }
            place += 1;
            eight >> 8
        } else if begins(eight, *b"\":[\"") {
            // The values of a header, of which there mostly is one.
            let list = blocks.index_of(place + 2);
            place += 4;
            let eight = blocks.plain_end_in::<INLINE>(&mut place);
            if !begins(eight, *b"\"]") {
                return open(list, b'[', inner);
            }
            place += 2;
            eight >> 16
        } else if begins(eight, *b"\":{\"") && inner == NONE {
            inner = blocks.index_of(place + 2);
            (wanted, in_row) = (0, false);
            place += 4;
            start = blocks.index_of(place);
            first = (eight >> 32) as u8;
            continue;
        } else {
            if !begins(eight, *b"\":") {
                return other(start, inner);
            }
            let length = match short_value(eight >> 16) {
                0 => return other(start, inner),
                OPENS => return open(end + 2, (eight >> 16) as u8, inner),
                length => length,
            };
            place += 2 + length;
            let after = blocks.eight_in(place);
            if !matches!(after as u8, b',' | b'}') {
                return other(start, inner);
            }
            after
        };
        let distance = match to_next_key(in_row, after) {
            0 if inner == NONE => return Stop::Value(blocks.index_of(place)),
            0 if begins(after, *b"},\"") => {
                inner = NONE;
                (wanted, in_row) = (sights, rows);
                3
            }
            0 if after as u8 == b'}' => return Stop::Value(blocks.index_of(place) + 1),
            0 => return Stop::Open(inner, b'{'),
            distance => distance,
        };
        place += distance;
        start = blocks.index_of(place);
        first = (after >> (8 * distance)) as u8;
    }
}

/// At a member of another kind; an object that has one is left to whoever goes into objects.
#[inline(always)]
fn other(start: usize, inner: usize) -> Stop {
    if inner == NONE {
        Stop::Key(start)
    } else {
        Stop::Open(inner, b'{')
    }
}

/// At a container that has more than such members.
#[inline(always)]
fn open(at: usize, first: u8, inner: usize) -> Stop {
    if inner == NONE {
        Stop::Open(at, first)
    } else {
        Stop::Open(inner, b'{')
    }
}

/// What can be seen of a key without going over it: a number below 64 of its first byte, which is the closing quote if
/// there is no other, and its length.
#[inline(always)]
pub(super) fn sight(first: u8, length: usize) -> usize {
    (usize::from(first) ^ length << 3) % 64
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
