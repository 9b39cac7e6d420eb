//! Where strings end: the bytes that end a plain run of a string, 64 of the text at a time as one word.
//!
//! The loop over a block has neither branches nor carried state, so that the compiler makes it one of vectors; within
//! a block a string then costs a shift and a count.

use super::is_special;

/// Bytes of a block, one bit each in a mask.
const BLOCK: usize = 64;

/// The mask of the block of a text that was looked at last.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// First byte of that block; no block starts at the value it has before the first look.
    start: usize,
    mask: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            start: usize::MAX,
            mask: 0,
        }
    }
}

impl Blocks {
    /// The index of the first quote, backslash or control character from `at` on, or one behind the text.
    #[inline(always)]
    pub(super) fn plain_end(&mut self, text: &[u8], at: usize) -> usize {
        self.end(at, |start| mask_by_call(text, start))
    }

    /// The same without a call, for the one loop that goes over most of a large text.
    #[inline(always)]
    pub(super) fn plain_end_inline(&mut self, text: &[u8], at: usize) -> usize {
        self.end(at, |start| mask_at(text, start))
    }

    #[inline(always)]
    fn end(&mut self, mut at: usize, mask: impl Fn(usize) -> u64) -> usize {
        loop {
            let start = at & !(BLOCK - 1);
            if start != self.start {
                self.start = start;
                self.mask = mask(start);
            }
            let rest = self.mask >> (at % BLOCK);
            if rest != 0 {
                return at + rest.trailing_zeros() as usize;
            }
            at = start + BLOCK;
        }
    }
}

#[inline(never)]
fn mask_by_call(text: &[u8], start: usize) -> u64 {
    mask_at(text, start)
}

/// The mask of a block; what lies behind the text counts as control characters.
#[inline(always)]
fn mask_at(text: &[u8], start: usize) -> u64 {
    match text.get(start..).and_then(<[u8]>::first_chunk::<BLOCK>) {
        Some(block) => mask_of(block),
        None => last_mask(text, start),
    }
}

#[cold]
#[inline(never)]
fn last_mask(text: &[u8], start: usize) -> u64 {
    let mut last = [0; BLOCK];
    let rest = text.get(start..).unwrap_or_default();
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    mask_of(&last)
}

#[inline(always)]
fn mask_of(block: &[u8; BLOCK]) -> u64 {
    // Multiplying moves the lowest bit of each byte into the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let flags = block.map(|byte| u8::from(is_special(byte)));
    let mut mask = 0;
    for (place, word) in flags.as_chunks::<8>().0.iter().enumerate() {
        mask |= (u64::from_le_bytes(*word).wrapping_mul(GATHER) >> 56) << (8 * place);
    }
    mask
}
