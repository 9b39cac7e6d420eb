//! Taking a path apart: one component at a time, for an object or for an array, and the inside of queries.

use std::borrow::Cow;

use super::modifiers;
use super::query::Operator;
use super::scan;
use super::text::unescape;

/// What follows a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest<'p> {
    /// The component is the last one.
    End,
    /// The path goes on inside the value.
    Path(&'p [u8]),
    /// A new look-up starts on the value that the path so far found.
    Pipe(&'p [u8]),
}

impl Rest<'_> {
    /// How much of a path was read before this rest of it.
    pub(super) fn consumed(self, path: &[u8]) -> usize {
        match self {
            Self::End => path.len(),
            Self::Path(rest) | Self::Pipe(rest) => path.len() - rest.len(),
        }
    }
}

/// A component read for an object.
pub(super) struct ObjectPart<'p> {
    pub(super) key: Cow<'p, [u8]>,
    pub(super) wild: bool,
    pub(super) rest: Rest<'p>,
}

impl<'p> ObjectPart<'p> {
    pub(super) fn read(path: &'p [u8]) -> Self {
        let mut wild = false;
        for (at, byte) in path.iter().enumerate() {
            match byte {
                b'|' => {
                    return Self {
                        key: Cow::Borrowed(&path[..at]),
                        wild,
                        rest: Rest::Pipe(&path[at + 1..]),
                    };
                }
                b'.' => {
                    return Self {
                        key: Cow::Borrowed(&path[..at]),
                        wild,
                        rest: after_dot(&path[at + 1..]),
                    };
                }
                b'*' | b'?' => wild = true,
                b'\\' => return Self::read_escaped(path, at, wild),
                _ => {}
            }
        }
        Self {
            key: Cow::Borrowed(path),
            wild,
            rest: Rest::End,
        }
    }

    /// Goes on from the first backslash; escapes leave the key.
    fn read_escaped(path: &'p [u8], mut at: usize, mut wild: bool) -> Self {
        let mut key = path[..at].to_vec();
        let mut rest = Rest::End;
        while let Some(&byte) = path.get(at) {
            match byte {
                b'\\' => {
                    at += 1;
                    key.extend(path.get(at));
                }
                b'.' => {
                    rest = after_dot(&path[at + 1..]);
                    break;
                }
                b'|' => {
                    rest = Rest::Pipe(&path[at + 1..]);
                    break;
                }
                _ => {
                    wild |= matches!(byte, b'*' | b'?');
                    key.push(byte);
                }
            }
            at += 1;
        }
        Self {
            key: Cow::Owned(key),
            wild,
            rest,
        }
    }
}

/// A dot before a modifier or a multipath works as a pipe.
fn after_dot(rest: &[u8]) -> Rest<'_> {
    if starts_new_lookup(rest) {
        Rest::Pipe(rest)
    } else {
        Rest::Path(rest)
    }
}

fn starts_new_lookup(rest: &[u8]) -> bool {
    match rest {
        [b'[' | b'{', ..] => true,
        [b'@', name @ ..] => {
            // No modifier has a longer name, so no more of the path needs to be looked at.
            let head = &name[..name.len().min(modifiers::LONGEST_NAME + 1)];
            let end = head
                .iter()
                .position(|byte| matches!(byte, b'.' | b'|' | b':'))
                .unwrap_or(head.len());
            modifiers::Modifier::named(&head[..end]).is_some()
        }
        _ => false,
    }
}

/// The condition inside `#(…)`.
pub(super) struct Query<'p> {
    pub(super) path: &'p [u8],
    pub(super) operator: Operator,
    pub(super) value: Cow<'p, [u8]>,
    pub(super) all: bool,
}

/// What a component asks of an array.
pub(super) enum ArrayPick<'p> {
    /// The element with this index; `None` where the component is no index and nothing matches.
    Index(Option<u64>),
    /// `#` at the end: the number of elements.
    Count,
    /// `#.path`: the path's value in every element.
    Each(&'p [u8]),
    /// `#(…)`, with or without a second `#`.
    Query(Query<'p>),
    /// A `#` in some other place: nothing matches.
    Nothing,
}

/// A component read for an array.
pub(super) struct ArrayPart<'p> {
    pub(super) pick: ArrayPick<'p>,
    pub(super) rest: Rest<'p>,
}

impl<'p> ArrayPart<'p> {
    pub(super) fn read(path: &'p [u8]) -> Self {
        if let [b'#', b'[' | b'(', ..] = path {
            return Self::read_query(path);
        }
        let hashed = |part: &[u8]| part.contains(&b'#');
        let end = path.iter().position(|byte| matches!(byte, b'|' | b'.'));
        let Some(end) = end else {
            return Self {
                pick: Self::plain_pick(path),
                rest: Rest::End,
            };
        };
        let (part, tail) = (&path[..end], &path[end + 1..]);
        if path[end] == b'|' {
            return Self {
                pick: Self::plain_pick(part),
                rest: Rest::Pipe(tail),
            };
        }
        if part == b"#" {
            return Self {
                pick: ArrayPick::Each(tail),
                rest: Rest::Path(tail),
            };
        }
        let rest = if hashed(part) {
            Rest::Path(tail)
        } else {
            after_dot(tail)
        };
        Self {
            pick: Self::plain_pick(part),
            rest,
        }
    }

    fn plain_pick(part: &'p [u8]) -> ArrayPick<'p> {
        match part {
            b"#" => ArrayPick::Count,
            _ if part.contains(&b'#') => ArrayPick::Nothing,
            _ => ArrayPick::Index(array_index(part)),
        }
    }

    fn read_query(path: &'p [u8]) -> Self {
        let Some((mut query, end)) = read_query(path) else {
            // A query without an end asks for nothing, and the first scalar satisfies it.
            let query = Query {
                path: &[],
                operator: Operator::Exists,
                value: Cow::Borrowed(&[]),
                all: false,
            };
            return Self {
                pick: ArrayPick::Query(query),
                rest: Rest::End,
            };
        };
        query.all = path.get(end) == Some(&b'#');
        let tail = &path[end..];
        let rest = match tail.iter().position(|byte| matches!(byte, b'|' | b'.')) {
            None => Rest::End,
            Some(at) if tail[at] == b'|' => Rest::Pipe(&tail[at + 1..]),
            Some(at) => Rest::Path(&tail[at + 1..]),
        };
        Self {
            pick: ArrayPick::Query(query),
            rest,
        }
    }
}

fn array_index(part: &[u8]) -> Option<u64> {
    let digits = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    digits.then(|| {
        part.iter().fold(0u64, |index, digit| {
            index.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
        })
    })
}

/// Reads `#(…)` from its `#` on; gives the query and the index after its closing bracket.
fn read_query(path: &[u8]) -> Option<(Query<'_>, usize)> {
    let (mut at, mut operator_at, mut depth, mut escaped) = (2, 0, 1usize, false);
    loop {
        let byte = *path.get(at)?;
        if depth == 1 && operator_at == 0 && matches!(byte, b'!' | b'=' | b'<' | b'>' | b'%') {
            operator_at = at;
            at += 1;
            continue;
        }
        match byte {
            b'\\' => at += 1,
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth -= 1,
            b'"' => {
                let end = quoted_end(path, at + 1);
                escaped |= path.get(at..end).is_some_and(|text| text.contains(&b'\\'));
                at = end;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        at += 1;
    }
    let split = if operator_at == 0 { at } else { operator_at };
    let (operator, value) = Operator::split(trim(&path[split..at]));
    let query = Query {
        path: trim(&path[2..split]),
        operator,
        value: unquote(trim(value), escaped),
        all: false,
    };
    Some((query, at + 1))
}

/// Index of the closing quote of a path's quoted text, or the length.
fn quoted_end(path: &[u8], mut at: usize) -> usize {
    while let Some(byte) = path.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at,
            _ => at += 1,
        }
    }
    path.len()
}

fn unquote(value: &[u8], escaped: bool) -> Cow<'_, [u8]> {
    match value {
        [b'"', inner @ .., b'"'] if escaped => Cow::Owned(unescape(inner)),
        [b'"', inner @ .., b'"'] => Cow::Borrowed(inner),
        _ => Cow::Borrowed(value),
    }
}

/// Cuts spaces and control characters off both ends.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let start = text
        .iter()
        .position(|byte| *byte > b' ')
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| *byte > b' ')
        .map_or(start, |last| last + 1);
    &text[start..end]
}

/// Splits the path of an element at a pipe that belongs to the whole collection.
pub(super) fn split_pipe(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if !path.contains(&b'|') {
        return None;
    }
    if path.first() == Some(&b'{') {
        let end = 1 + scan::group_end(&path[1..]);
        return (path.get(end) == Some(&b'|')).then(|| (&path[..end], &path[end + 1..]));
    }
    let mut at = 0;
    while let Some(byte) = path.get(at) {
        match byte {
            b'\\' => at += 1,
            b'.' if path.get(at + 1) == Some(&b'#') => at = selector_end(path, at + 2)?,
            b'.' if at + 1 == path.len() => return None,
            b'|' => return Some((&path[..at], &path[at + 1..])),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Index of the last byte of a `#(…)` whose bracket may stand at `at`; `None` at the path's end.
fn selector_end(path: &[u8], mut at: usize) -> Option<usize> {
    let (open, close) = match path.get(at)? {
        b'[' => (b'[', b']'),
        b'(' => (b'(', b')'),
        _ => return Some(at),
    };
    let mut depth = 0usize;
    while let Some(&byte) = path.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => at = quoted_end(path, at + 1),
            _ if byte == open => depth += 1,
            _ if byte == close => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    Some(at)
}
