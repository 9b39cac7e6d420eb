//! Plain key paths that one validating pass looks for, and what it found.
//!
//! A plain path is keys and array indexes only. The set is a small tree; the tracker follows it through the text and
//! leaves containers that no path enters to the reader.

use super::blocks::Padded;
use super::members::{Stop, sight, skip_members};
use super::{Key, Reader, container_end};
use crate::sensor::path::unescape;

/// Longest plain path, in keys, that a scan follows.
pub const MAX_PREFIX_DEPTH: usize = 16;

/// Plain paths to look for while validating; made once, used for every event.
#[derive(Debug, Clone, Default)]
pub struct PrefixSet {
    nodes: Vec<Node>,
    slots: usize,
}

#[derive(Debug, Clone, Default)]
struct Node {
    children: Vec<Child>,
    /// What the children's keys look like at first [`sight`], one bit each.
    sights: u64,
    slot: Option<usize>,
}

impl Node {
    /// The place of the child with the key that is from `start` to `end` in a text.
    #[inline(always)]
    fn place_of(&self, text: &[u8], start: usize, end: usize) -> Option<usize> {
        let raw = text.get(start..end)?;
        let beginning = match text.get(start..).and_then(<[u8]>::first_chunk) {
            Some(eight) => first_bytes(*eight, raw.len()),
            None => beginning(raw),
        };
        self.children.iter().position(|child| {
            child.beginning == beginning
                && child.key.len() == raw.len()
                && (raw.len() <= 8 || child.key == raw)
        })
    }

    /// The same of a key with escapes.
    #[cold]
    #[inline(never)]
    fn place_of_escaped(&self, raw: &[u8]) -> Option<usize> {
        let key = unescape(raw);
        self.children.iter().position(|child| child.key == key)
    }

    /// The child at this place; notes which keys were there, and whether one was there twice.
    #[inline(always)]
    fn child(&self, place: usize, seen: &mut u64) -> Option<usize> {
        // Children behind the sixty-third share their bit, which costs a second look-up at most.
        let bit = 1 << place.min(62);
        if *seen & bit != 0 {
            *seen |= REPEATED;
        }
        *seen |= bit;
        self.children.get(place).map(|child| child.node)
    }
}

/// The first eight bytes of a key as a number, with zeros behind a shorter one.
fn beginning(key: &[u8]) -> u64 {
    let mut eight = [0; 8];
    for (place, byte) in eight.iter_mut().zip(key) {
        *place = *byte;
    }
    u64::from_le_bytes(eight)
}

/// The same from eight bytes that begin with a key of this length.
#[inline(always)]
fn first_bytes(eight: [u8; 8], length: usize) -> u64 {
    let eight = u64::from_le_bytes(eight);
    match length {
        0 => 0,
        1..8 => eight & (u64::MAX >> (64 - 8 * length)),
        _ => eight,
    }
}

#[derive(Debug, Clone)]
struct Child {
    key: Vec<u8>,
    /// What most keys are told apart by, without a call.
    beginning: u64,
    /// The key as an array index, if it is one.
    index: Option<u64>,
    node: usize,
}

/// The bit of the keys seen that says that one of them was there twice.
const REPEATED: u64 = 1 << 63;

impl PrefixSet {
    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path of at most [`MAX_PREFIX_DEPTH`] keys and gives its slot in [`Spans`]; the same path has one slot.
    pub fn insert<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) -> usize {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let node = keys
            .into_iter()
            .take(MAX_PREFIX_DEPTH)
            .fold(0, |node, key| self.child_or_new(node, key));
        let next = self.slots;
        let slot = *self.nodes[node].slot.get_or_insert(next);
        self.slots += usize::from(slot == next);
        slot
    }

    fn child_or_new(&mut self, node: usize, key: &[u8]) -> usize {
        if let Some(child) = self.nodes[node]
            .children
            .iter()
            .find(|child| child.key == key)
        {
            return child.node;
        }
        let number = std::str::from_utf8(key)
            .ok()
            .filter(|key| key.bytes().all(|byte| byte.is_ascii_digit()));
        let child = Child {
            key: key.to_vec(),
            beginning: beginning(key),
            index: number.and_then(|key| key.parse().ok()),
            node: self.nodes.len(),
        };
        let first = key.first().copied().unwrap_or(b'"');
        self.nodes[node].sights |= 1 << sight(first, key.len());
        self.nodes[node].children.push(child);
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }
}

/// Paths whose places need no memory of their own.
const FEW: usize = 4;

/// Where a scan found the paths of a [`PrefixSet`].
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// Start and end of the first slots; a value has at least one byte, so an end of 0 is none.
    few: [(usize, usize); FEW],
    /// The same of all slots behind them.
    more: Vec<(usize, usize)>,
    repeated: bool,
}

impl Spans {
    fn new(slots: usize) -> Self {
        Self {
            more: vec![(0, 0); slots.saturating_sub(FEW)],
            ..Self::default()
        }
    }

    fn note(&mut self, slot: usize, start: usize, end: usize) {
        let span = match slot.checked_sub(FEW) {
            None => self.few.get_mut(slot),
            Some(slot) => self.more.get_mut(slot),
        };
        // Of two equal keys the first counts.
        if let Some(span) = span.filter(|span| span.1 == 0) {
            *span = (start, end);
        }
    }

    /// Start and end of the first value of this slot's path.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<(usize, usize)> {
        let span = match slot.checked_sub(FEW) {
            None => self.few.get(slot),
            Some(slot) => self.more.get(slot),
        };
        span.copied().filter(|span| span.1 > 0)
    }

    /// A key on one of the paths occurs twice in its object, so a path that goes on may have to look at the second.
    #[must_use]
    pub fn repeated(&self) -> bool {
        self.repeated
    }
}

/// Goes through the whole text; `None` if it is not valid JSON.
pub(super) fn find(text: &Padded<'_>, set: &PrefixSet) -> Option<Spans> {
    let mut spans = Spans::new(set.slots);
    let mut tracker = Tracker {
        reader: Reader::new(text),
        set,
        spans: &mut spans,
    };
    let (at, first) = tracker.reader.next_byte(0)?;
    let end = tracker.value(0, at, first)?;
    tracker.reader.next_byte(end).is_none().then_some(spans)
}

/// Enters the containers on the set's paths and has the reader go over all others.
///
/// It calls itself once a level of the set, so at most [`MAX_PREFIX_DEPTH`] times.
struct Tracker<'t, 's> {
    reader: Reader<'t>,
    set: &'s PrefixSet,
    spans: &'s mut Spans,
}

impl<'s> Tracker<'_, 's> {
    /// The end of the value of a node, which is noted.
    #[inline(always)]
    fn value(&mut self, node: usize, at: usize, first: u8) -> Option<usize> {
        let set = self.set;
        let node = set.nodes.get(node)?;
        let end = match first {
            b'{' if !node.children.is_empty() => self.object(node, at)?,
            b'[' if !node.children.is_empty() => self.array(node, at)?,
            _ => self.reader.value_end(at, first)?,
        };
        if let Some(slot) = node.slot {
            self.spans.note(slot, at, end);
        }
        Some(end)
    }

    #[inline(never)]
    fn object(&mut self, node: &'s Node, at: usize) -> Option<usize> {
        let (at, byte) = self.reader.next_byte(at + 1)?;
        if byte == b'}' {
            return Some(at + 1);
        }
        let mut start = (byte == b'"').then_some(at + 1)?;
        let mut seen = 0u64;
        loop {
            // A copy stays in registers; whoever else goes on in the text gets it back.
            let mut blocks = self.reader.blocks;
            let stop = skip_members::<false>(&mut blocks, false, node.sights, start);
            self.reader.blocks = blocks;
            let end = match stop {
                Stop::Open(at, first) => container_end(&mut self.reader.blocks, at, first)?,
                Stop::Value(end) => end,
                Stop::Key(start) => self.other_member(node, start, &mut seen)?,
                Stop::Wanted(start, end, eight) => {
                    let key = Key::before(self.reader.text, end, eight)?;
                    let place = match key.escaped {
                        false => node.place_of(self.reader.text, start, key.end),
                        true => node.place_of_escaped(self.reader.text.get(start..key.end)?),
                    };
                    self.member(node, place, &key, &mut seen)?
                }
            };
            let (at, byte) = self.reader.next_byte(end)?;
            if byte == b'}' {
                self.spans.repeated |= seen & REPEATED != 0;
                return Some(at + 1);
            }
            let (at, quote) = self.reader.next_byte(at + 1)?;
            if (byte, quote) != (b',', b'"') {
                return None;
            }
            start = at + 1;
        }
    }

    /// The end of a member whose key is wanted only if it has escapes.
    #[inline(never)]
    fn other_member(&mut self, node: &'s Node, start: usize, seen: &mut u64) -> Option<usize> {
        let key = Key::read(&mut self.reader.blocks, start)?;
        let place = match key.escaped {
            false => None,
            true => node.place_of_escaped(self.reader.text.get(start..key.end)?),
        };
        self.member(node, place, &key, seen)
    }

    /// The end of a member, whose value is looked through if the node has a child of its key.
    #[inline(always)]
    fn member(
        &mut self,
        node: &'s Node,
        place: Option<usize>,
        key: &Key,
        seen: &mut u64,
    ) -> Option<usize> {
        match place.and_then(|place| node.child(place, seen)) {
            Some(child) => self.value(child, key.value, key.first),
            None => self.reader.value_end(key.value, key.first),
        }
    }

    #[inline(never)]
    fn array(&mut self, node: &'s Node, at: usize) -> Option<usize> {
        let (mut at, mut byte) = self.reader.next_byte(at + 1)?;
        if byte == b']' {
            return Some(at + 1);
        }
        let mut index = 0;
        loop {
            let mut children = node.children.iter();
            let child = children.find(|child| child.index == Some(index));
            let end = match child {
                None => self.reader.value_end(at, byte)?,
                Some(child) => self.value(child.node, at, byte)?,
            };
            index += 1;
            (at, byte) = self.reader.next_byte(end)?;
            match byte {
                b',' => (at, byte) = self.reader.next_byte(at + 1)?,
                b']' => return Some(at + 1),
                _ => return None,
            }
        }
    }
}
