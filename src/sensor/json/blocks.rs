//! A text in blocks of 64 bytes: where its strings end, and the bytes from there on.
//!
//! The bytes that end a plain run of a string are one word a block, so that a string costs a shift and a count. The loop
//! over a block has neither branches nor carried state, so that the compiler makes it one of vectors. Behind its last
//! byte a text goes on with zeros, so that nothing near its end has to be looked for.

use super::is_special;

/// Bytes of a block, one bit each in a mask.
const BLOCK: usize = 64;
/// Bytes of a text that are at hand with a block.
const AT_HAND: usize = BLOCK + 16;

type Bytes = [u8; AT_HAND];

/// The bytes at hand where a text goes no further.
const NOTHING: &Bytes = &[0; AT_HAND];

/// A text whose end is there a second time, with zeros behind it.
pub(super) struct Padded<'t> {
    text: &'t [u8],
    /// The first block that has not all bytes at hand, and all behind it.
    tail: [u8; BLOCK + AT_HAND],
    tail_start: usize,
}

impl<'t> Padded<'t> {
    #[inline]
    pub(super) fn new(text: &'t [u8]) -> Self {
        let tail_start = match text.len().checked_sub(AT_HAND) {
            Some(last) => block_start(last) + BLOCK,
            None => 0,
        };
        let mut padded = Self {
            text,
            tail: [0; BLOCK + AT_HAND],
            tail_start,
        };
        let end = text.get(tail_start..).unwrap_or_default();
        if let Some(copy) = padded.tail.get_mut(..end.len()) {
            copy.copy_from_slice(end);
        }
        padded
    }

    /// The bytes at hand with the block that starts there.
    #[inline(always)]
    fn bytes_at(&self, start: usize) -> &Bytes {
        match self.text.get(start..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => bytes,
            None => self.last_bytes_at(start),
        }
    }

    #[inline(never)]
    fn last_bytes_at(&self, start: usize) -> &Bytes {
        let place = start.wrapping_sub(self.tail_start);
        let bytes = self.tail.get(place..).and_then(<[u8]>::first_chunk);
        bytes.unwrap_or(NOTHING)
    }
}

/// The block of a text that was looked at last.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'t> {
    text: &'t Padded<'t>,
    start: usize,
    bytes: &'t Bytes,
    mask: u64,
}

impl<'t> Blocks<'t> {
    /// Begins with the block that this byte is in.
    #[inline]
    pub(super) fn at(text: &'t Padded<'t>, at: usize) -> Self {
        let start = block_start(at);
        let bytes = text.bytes_at(start);
        Self {
            text,
            start,
            bytes,
            mask: mask_by_call(bytes),
        }
    }

    /// The whole text.
    pub(super) fn text(&self) -> &'t [u8] {
        self.text.text
    }

    /// The index of the first quote, backslash or control character from `at` on, or one behind the text; and the eight
    /// bytes from there on as a number.
    #[inline(always)]
    pub(super) fn plain_end(&mut self, at: usize) -> (usize, u64) {
        let mut place = self.place_of(at);
        let eight = self.plain_end_in::<false>(&mut place);
        (self.start + place, eight)
    }

    /// Where a byte is seen from the start of the block; [`Blocks::index_of`] is the way back.
    #[inline(always)]
    pub(super) fn place_of(&self, at: usize) -> usize {
        at.wrapping_sub(self.start)
    }

    #[inline(always)]
    pub(super) fn index_of(&self, place: usize) -> usize {
        self.start.wrapping_add(place)
    }

    /// Moves such a place on to the first quote, backslash or control character, and gives the eight bytes from there on.
    /// `INLINE` without a call, for the one loop that goes over most of a large text.
    #[inline(always)]
    pub(super) fn plain_end_in<const INLINE: bool>(&mut self, place: &mut usize) -> u64 {
        loop {
            if *place >= BLOCK {
                // The next block is mostly the right one, and so need not wait for where the last string has ended.
                *place = place.wrapping_sub(BLOCK);
                self.start += BLOCK;
                if *place >= BLOCK {
                    let at = self.index_of(*place);
                    self.start = far_block_start(at);
                    *place = at.wrapping_sub(self.start);
                }
                self.bytes = self.text.bytes_at(self.start);
                self.mask = match INLINE {
                    true => mask_of(self.bytes),
                    false => mask_by_call(self.bytes),
                };
            }
            let rest = self.mask >> *place;
            if rest != 0 {
                *place += rest.trailing_zeros() as usize;
                return eight_of(self.bytes, *place % BLOCK);
            }
            *place = BLOCK;
        }
    }

    /// Eight bytes of the text as a number, if they are at hand; else 0.
    #[inline(always)]
    pub(super) fn eight_at(&self, at: usize) -> u64 {
        self.eight_in(self.place_of(at))
    }

    /// The same for a place that is seen from the start of the block.
    #[inline(always)]
    pub(super) fn eight_in(&self, place: usize) -> u64 {
        if place > AT_HAND - 8 {
            return 0;
        }
        eight_of(self.bytes, place)
    }
}

#[inline(always)]
fn eight_of(bytes: &Bytes, place: usize) -> u64 {
    let eight = bytes.get(place..place + 8);
    match eight.and_then(<[u8]>::first_chunk) {
        Some(eight) => u64::from_le_bytes(*eight),
        None => 0,
    }
}

fn block_start(at: usize) -> usize {
    at & !(BLOCK - 1)
}

#[cold]
#[inline(never)]
fn far_block_start(at: usize) -> usize {
    block_start(at)
}

#[inline(never)]
fn mask_by_call(bytes: &Bytes) -> u64 {
    mask_of(bytes)
}

#[inline(always)]
fn mask_of(bytes: &Bytes) -> u64 {
    // One bit for each of eight words, as often as a word has bytes.
    const BITS: [u8; BLOCK] = {
        let mut bits = [0; BLOCK];
        let mut place = 0;
        while place < BLOCK {
            bits[place] = 1 << (place / 8);
            place += 1;
        }
        bits
    };
    let Some(block) = bytes.first_chunk::<BLOCK>() else {
        return 0;
    };
    let flags = block.map(|byte| if is_special(byte) { u8::MAX } else { 0 });
    let bits: [u8; BLOCK] = std::array::from_fn(|place| flags[place] & BITS[place]);
    let words = bits.as_chunks::<8>().0.iter();
    transposed(words.fold(0, |all, word| all | u64::from_le_bytes(*word)))
}

/// Eight bytes of eight bits with rows and columns exchanged.
#[inline(always)]
fn transposed(mut bits: u64) -> u64 {
    for (distance, lower) in [
        (7, 0x00aa_00aa_00aa_00aa),
        (14, 0x0000_cccc_0000_cccc),
        (28, 0x0000_0000_f0f0_f0f0),
    ] {
        let other = (bits ^ (bits >> distance)) & lower;
        bits ^= other ^ (other << distance);
    }
    bits
}
