//! Plain key paths that one validating pass looks for, and what it found.
//!
//! A plain path is keys and array indexes only. The set is a small tree; the tracker follows the scanner through it and
//! knows nothing about containers that no path enters.

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
    children: Vec<(Vec<u8>, Option<u64>, usize)>,
    slot: Option<usize>,
}

impl PrefixSet {
    /// Adds a path of at most [`MAX_PREFIX_DEPTH`] keys and gives its slot in [`Spans`]; the same path has one slot.
    pub fn insert<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) -> usize {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let node = keys
            .into_iter()
            .take(MAX_PREFIX_DEPTH)
            .fold(0, |node, key| self.child_or_new(node, key));
        if let Some(slot) = self.nodes[node].slot {
            return slot;
        }
        let slot = self.slots;
        self.nodes[node].slot = Some(slot);
        self.slots += 1;
        slot
    }

    fn child_or_new(&mut self, node: usize, key: &[u8]) -> usize {
        if let Some(child) = self.child(node, key) {
            return child;
        }
        let child = self.nodes.len();
        let index = std::str::from_utf8(key)
            .ok()
            .filter(|key| key.bytes().all(|byte| byte.is_ascii_digit()));
        self.nodes[node].children.push((
            key.to_vec(),
            index.and_then(|key| key.parse().ok()),
            child,
        ));
        self.nodes.push(Node::default());
        child
    }

    fn child(&self, node: usize, key: &[u8]) -> Option<usize> {
        self.nodes[node]
            .children
            .iter()
            .find(|(name, _, _)| name == key)
            .map(|child| child.2)
    }

    fn element(&self, node: usize, index: u64) -> Option<usize> {
        self.nodes[node]
            .children
            .iter()
            .find(|(_, number, _)| *number == Some(index))
            .map(|child| child.2)
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

/// Follows the scanner; its calls cost nothing outside the containers that a path enters.
pub(super) struct Tracker<'s> {
    set: Option<&'s PrefixSet>,
    frames: [Frame; MAX_PREFIX_DEPTH + 1],
    used: usize,
    pending: Option<usize>,
    started_at: usize,
    spans: Spans,
}

impl<'s> Tracker<'s> {
    pub(super) fn idle() -> Self {
        Self {
            set: None,
            frames: Default::default(),
            used: 0,
            pending: None,
            started_at: 0,
            spans: Spans::default(),
        }
    }

    pub(super) fn new(set: &'s PrefixSet) -> Self {
        if set.nodes.is_empty() {
            return Self::idle();
        }
        let spans = Spans {
            found: vec![None; set.slots],
            repeated: false,
        };
        Self {
            set: Some(set),
            pending: Some(0),
            spans,
            ..Self::idle()
        }
    }

    pub(super) fn finish(self) -> Spans {
        self.spans
    }

    pub(super) fn value_starts(&mut self, at: usize) {
        self.started_at = at;
    }

    pub(super) fn scalar_ends(&mut self, at: usize) {
        if let Some(node) = self.pending.take() {
            self.record(node, self.started_at, at);
        }
    }

    pub(super) fn container_opens(&mut self, depth: usize) {
        let Some(node) = self.pending.take() else {
            return;
        };
        if let Some(frame) = self.frames.get_mut(self.used) {
            *frame = Frame {
                node,
                depth,
                next_index: 0,
                opened_at: self.started_at,
                seen: 0,
            };
            self.used += 1;
        }
    }

    pub(super) fn container_closes(&mut self, depth: usize, at: usize) {
        if let Some(frame) = self.frame(depth) {
            let (node, start) = (frame.node, frame.opened_at);
            self.used -= 1;
            self.record(node, start, at);
        }
    }

    fn frame(&mut self, depth: usize) -> Option<&mut Frame> {
        let last = self.used.checked_sub(1)?;
        self.frames
            .get_mut(last)
            .filter(|frame| frame.depth == depth)
    }

    pub(super) fn key(&mut self, depth: usize, raw: &[u8]) {
        let Some(set) = self.set else { return };
        let Some(frame) = self.frame(depth) else {
            return;
        };
        let children = &set.nodes[frame.node].children;
        let escaped = raw.contains(&b'\\').then(|| unescape(raw));
        let key = escaped.as_deref().unwrap_or(raw);
        let Some(place) = children.iter().position(|(name, _, _)| name == key) else {
            return;
        };
        let bit = 1u64 << (place % 64);
        let again = frame.seen & bit != 0;
        frame.seen |= bit;
        self.spans.repeated |= again;
        self.pending = Some(children[place].2);
    }

    pub(super) fn element(&mut self, depth: usize) {
        let Some(set) = self.set else { return };
        let Some(frame) = self.frame(depth) else {
            return;
        };
        let (node, index) = (frame.node, frame.next_index);
        frame.next_index += 1;
        self.pending = set.element(node, index);
    }

    fn record(&mut self, node: usize, start: usize, end: usize) {
        let slot = self.set.and_then(|set| set.nodes[node].slot);
        if let Some(found) = slot.and_then(|slot| self.spans.found.get_mut(slot)) {
            found.get_or_insert((start, end));
        }
    }
}
