//! How far a text goes on without anything that ends a string: for readers that step from place to place.
//!
//! [`plain_run`] looks at eight bytes at a time, and at blocks of 32 where a text is long.

use super::is_special;

/// The index of the first quote, backslash or control character from `at` on, or the length.
///
/// A word of eight bytes at a time finds the end of short texts; blocks of 32 are for the compiler to vectorise.
#[inline(always)]
pub(in crate::sensor) fn plain_run(text: &[u8], mut at: usize) -> usize {
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
