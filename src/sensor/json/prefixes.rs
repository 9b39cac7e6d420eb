//! Plain key paths that one validating pass looks for, and what it found.
//!
//! A plain path is keys and array indexes only. The set is a small tree; the tracker follows the scanner through it and
//! knows nothing about containers that no path enters.

use std::ops::Range;

use super::Track;
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
    slot: Option<usize>,
}

#[derive(Debug, Clone)]
struct Child {
    key: Vec<u8>,
    /// The key as an array index, if it is one.
    index: Option<u64>,
    node: usize,
}

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
            index: number.and_then(|key| key.parse().ok()),
            node: self.nodes.len(),
        };
        self.nodes[node].children.push(child);
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }
}

/// Where a scan found the paths of a [`PrefixSet`].
#[derive(Debug, Clone, Default)]
pub struct Spans {
    found: Vec<Option<(usize, usize)>>,
    repeated: bool,
}

impl Spans {
    /// Start and end of the first value of this slot's path.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<(usize, usize)> {
        self.found.get(slot).copied().flatten()
    }

    /// A key on one of the paths occurs twice in its object, so a path that goes on may have to look at the second.
    #[must_use]
    pub fn repeated(&self) -> bool {
        self.repeated
    }
}

#[derive(Clone, Copy, Default)]
struct Frame {
    node: usize,
    depth: usize,
    next_index: u64,
    opened_at: usize,
    seen: u64,
}

/// Follows the scanner; its calls cost one comparison outside the containers that a path enters.
pub(super) struct Tracker<'s> {
    set: &'s PrefixSet,
    /// Containers that a path enters, around the top one.
    outer: [Frame; MAX_PREFIX_DEPTH + 1],
    /// How many of them there are.
    entered: usize,
    /// The innermost of them; depth 0 where there is none.
    top: Frame,
    /// Node of the value that comes next.
    pending: Option<usize>,
    spans: Spans,
}

impl<'s> Tracker<'s> {
    pub(super) fn new(set: &'s PrefixSet) -> Self {
        let spans = Spans {
            found: vec![None; set.slots],
            repeated: false,
        };
        Self {
            set,
            outer: [Frame::default(); MAX_PREFIX_DEPTH + 1],
            entered: 0,
            top: Frame::default(),
            pending: Some(0),
            spans,
        }
    }

    pub(super) fn finish(self) -> Spans {
        self.spans
    }

    fn note(&mut self, node: usize, start: usize, end: usize) {
        let slot = self.set.nodes.get(node).and_then(|node| node.slot);
        if let Some(found) = slot.and_then(|slot| self.spans.found.get_mut(slot)) {
            found.get_or_insert((start, end));
        }
    }

    fn children(&self) -> &'s [Child] {
        self.set
            .nodes
            .get(self.top.node)
            .map_or(&[], |node| &node.children)
    }
}

impl Track for Tracker<'_> {
    #[inline]
    fn scalar(&mut self, start: usize, end: usize) {
        if let Some(node) = self.pending.take() {
            self.note(node, start, end);
        }
    }

    #[inline]
    fn opens(&mut self, depth: usize, start: usize) {
        if let Some(node) = self.pending.take() {
            if let Some(outer) = self.outer.get_mut(self.entered) {
                *outer = self.top;
            }
            self.entered += 1;
            self.top = Frame {
                node,
                depth,
                next_index: 0,
                opened_at: start,
                seen: 0,
            };
        }
    }

    #[inline]
    fn closes(&mut self, depth: usize, end: usize) {
        if depth == self.top.depth {
            let closed = self.top;
            self.entered = self.entered.saturating_sub(1);
            self.top = self.outer.get(self.entered).copied().unwrap_or_default();
            self.note(closed.node, closed.opened_at, end);
        }
    }

    #[inline]
    fn key(&mut self, depth: usize, text: &[u8], at: Range<usize>, escaped: bool) {
        if depth == self.top.depth {
            self.own_key(text.get(at).unwrap_or_default(), escaped);
        }
    }

    #[inline]
    fn element(&mut self, depth: usize) {
        if depth == self.top.depth {
            self.own_element();
        }
    }
}

impl Tracker<'_> {
    #[inline(never)]
    fn own_key(&mut self, raw: &[u8], escaped: bool) {
        let children = self.children();
        let place = if escaped {
            let key = unescape(raw);
            children.iter().position(|child| child.key == key)
        } else {
            children.iter().position(|child| child.key == raw)
        };
        let Some(place) = place else { return };
        let bit = 1u64 << (place % 64);
        self.spans.repeated |= self.top.seen & bit != 0;
        self.top.seen |= bit;
        self.pending = children.get(place).map(|child| child.node);
    }

    #[inline(never)]
    fn own_element(&mut self) {
        let index = self.top.next_index;
        self.top.next_index += 1;
        self.pending = self
            .children()
            .iter()
            .find(|child| child.index == Some(index))
            .map(|child| child.node);
    }
}
