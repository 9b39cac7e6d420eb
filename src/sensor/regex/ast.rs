//! The parsed pattern, and the measures by which Go limits it.

use regex_syntax::hir::{ClassUnicode, Look};

/// One part of a pattern.
#[derive(Debug)]
pub(super) enum Node {
    Literal(char),
    Class(ClassUnicode),
    Look(Look),
    AnyChar,
    AnyCharButNewline,
    Repeat {
        min: u32,
        max: Option<u32>,
        greedy: bool,
        sub: Box<Node>,
    },
    Capture {
        index: u32,
        sub: Box<Node>,
    },
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
}

/// A node with its measures.
#[derive(Debug)]
pub(super) struct Piece {
    pub node: Node,
    /// Product of the nested counted repetitions.
    pub repeats: u64,
    /// Levels of the tree, as Go counts them.
    pub height: u32,
    /// Instructions of Go's program, roughly.
    pub size: u64,
}

impl Piece {
    pub fn leaf(node: Node) -> Self {
        Self {
            node,
            repeats: 1,
            height: 1,
            size: 1,
        }
    }

    pub fn capture(self, index: u32) -> Self {
        Self {
            node: Node::Capture {
                index,
                sub: Box::new(self.node),
            },
            repeats: self.repeats,
            height: self.height + 1,
            size: self.size.saturating_add(2),
        }
    }

    /// Repeats the piece; `max` is `None` where there is no upper bound.
    pub fn repeat(self, min: u32, max: Option<u32>, greedy: bool) -> Self {
        let times = u64::from(max.unwrap_or(min).max(1));
        let (repeats, size) = match max {
            Some(0) => (1, 1),
            Some(max) => (
                self.repeats.saturating_mul(times),
                self.size
                    .saturating_mul(times)
                    .saturating_add(u64::from(max - min.min(max))),
            ),
            None => (
                self.repeats.saturating_mul(times),
                self.size.saturating_mul(times).saturating_add(2),
            ),
        };
        Self {
            node: Node::Repeat {
                min,
                max,
                greedy,
                sub: Box::new(self.node),
            },
            repeats,
            height: self.height + 1,
            size,
        }
    }

    pub fn concat(pieces: Vec<Piece>) -> Self {
        Self::join(pieces, Node::Concat, |node| matches!(node, Node::Concat(_)))
    }

    pub fn alternate(pieces: Vec<Piece>) -> Self {
        Self::join(pieces, Node::Alternate, |node| {
            matches!(node, Node::Alternate(_))
        })
    }

    /// Joins pieces; a child of the same kind adds no level, as Go merges it into its parent.
    fn join(
        mut pieces: Vec<Piece>,
        make: fn(Vec<Node>) -> Node,
        same_kind: fn(&Node) -> bool,
    ) -> Self {
        if pieces.len() == 1
            && let Some(only) = pieces.pop()
        {
            return only;
        }
        let (mut repeats, mut height, mut size) = (1, 0, 1u64);
        let mut nodes = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let own_level = u32::from(same_kind(&piece.node));
            repeats = repeats.max(piece.repeats);
            height = height.max(piece.height - own_level);
            size = size.saturating_add(piece.size);
            nodes.push(piece.node);
        }
        Self {
            node: make(nodes),
            repeats,
            height: height + 1,
            size,
        }
    }
}
