//! The patterns of gopher-lua, with a step count: in C they run without end and without a way to stop them.
//!
//! A pattern is read whole before anything is matched, so a mistake in it shows on every text. Where gopher-lua is not
//! Lua 5.1 (no `%f`, ranges between classes, what a late `*` repeats) its own reading counts (its `pm/pm.go`).

/// Steps between two looks at the budget.
const STEPS_PER_CHARGE: usize = 4096;
/// Choices left open at once; more is an error upstream too.
const MAX_CHOICES: usize = 1_000_000;

/// Why a pattern could not be read, or a match not be tried to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::sensor) enum PatternError {
    #[error("{0}")]
    Invalid(&'static str),
    #[error("pattern/input too complex")]
    TooComplex,
    #[error("steps used up")]
    Exhausted,
}

type Outcome<T> = Result<T, PatternError>;

/// A group's place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sensor) enum Capture {
    Span(usize, usize),
    /// `()`: the position itself.
    Position(usize),
}

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Class([u64; 4]);

impl Class {
    fn of(member: impl Fn(u8) -> bool) -> Self {
        let mut class = Self::default();
        for byte in (0..=u8::MAX).filter(|byte| member(*byte)) {
            class.0[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
        class
    }

    fn byte(byte: u8) -> Self {
        let mut class = Self::default();
        class.0[usize::from(byte / 64)] = 1 << (byte % 64);
        class
    }

    /// What `%` and a letter stand for; any other character stands for itself.
    fn named(name: u8) -> Self {
        let member: fn(u8) -> bool = match name.to_ascii_lowercase() {
            b'a' => |c| c.is_ascii_alphabetic(),
            b'c' => |c| c.is_ascii_control(),
            b'd' => |c| c.is_ascii_digit(),
            b'l' => |c| c.is_ascii_lowercase(),
            b'p' => |c| c.is_ascii_punctuation(),
            b's' => |c| matches!(c, b' ' | b'\t'..=b'\r'),
            b'u' => |c| c.is_ascii_uppercase(),
            b'w' => |c| c.is_ascii_alphanumeric(),
            b'x' => |c| c.is_ascii_hexdigit(),
            b'z' => |c| c == 0,
            _ => return Self::byte(name),
        };
        Self::of(|c| member(c) != name.is_ascii_uppercase())
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }

    fn join(self, other: Self) -> Self {
        Self(std::array::from_fn(|part| self.0[part] | other.0[part]))
    }

    fn negate(self) -> Self {
        Self(self.0.map(|part| !part))
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Class(Class),
    /// Goes to the first, and to the second when that fails.
    Split(usize, usize),
    Jump(usize),
    Save(usize),
    Position(usize),
    /// `%b`; without both bytes it matches nothing.
    Balance(Option<(u8, u8)>),
    BackReference(usize),
    End,
}

/// A pattern ready to match.
#[derive(Debug, Clone)]
pub(in crate::sensor) struct Pattern {
    ops: Vec<Op>,
    anchored: bool,
    /// For each group whether it is `()`.
    groups: Vec<bool>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`PatternError::Invalid`] for parentheses or sets that do not close, and for `%0`.
    pub fn new(source: &[u8]) -> Outcome<Self> {
        let anchored = source.first() == Some(&b'^');
        let mut reader = Reader {
            rest: &source[usize::from(anchored)..],
            ops: Vec::new(),
            open: Vec::new(),
            groups: Vec::new(),
            repeatable: false,
        };
        while !reader.rest.is_empty() {
            reader.item()?;
        }
        if !reader.open.is_empty() {
            return Err(PatternError::Invalid("unfinished capture"));
        }
        Ok(Self {
            ops: reader.ops,
            anchored,
            groups: reader.groups,
        })
    }

    /// Says whether it begins with `^` and is tried at one place only.
    pub fn is_anchored(&self) -> bool {
        self.anchored
    }
}

struct Reader<'p> {
    rest: &'p [u8],
    ops: Vec<Op>,
    /// Groups that are not closed yet.
    open: Vec<usize>,
    groups: Vec<bool>,
    /// Whether the last item is a class, which a `*` may repeat.
    repeatable: bool,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn class(&mut self, class: Class) {
        self.ops.push(Op::Class(class));
        self.repeatable = true;
    }

    fn other(&mut self, op: Op) {
        self.ops.push(op);
        self.repeatable = false;
    }

    fn item(&mut self) -> Outcome<()> {
        let Some(first) = self.next() else {
            return Ok(());
        };
        match first {
            b'%' => self.escape()?,
            b'.' => self.class(Class::of(|_| true)),
            b'[' => {
                let set = self.set()?;
                self.class(set);
            }
            b'(' => self.group(),
            b')' => match self.open.pop() {
                Some(group) => self.other(Op::Save(2 * group + 1)),
                None => return Err(PatternError::Invalid("invalid ')'")),
            },
            b'*' | b'+' | b'-' | b'?' if self.repeatable => self.repeat(first),
            b'$' if self.rest.is_empty() => self.other(Op::End),
            literal => self.class(Class::byte(literal)),
        }
        Ok(())
    }

    fn escape(&mut self) -> Outcome<()> {
        match self.next() {
            Some(b'0') => return Err(PatternError::Invalid("invalid capture index")),
            Some(digit @ b'1'..=b'9') => {
                self.other(Op::BackReference(usize::from(digit - b'0')));
            }
            Some(b'b') => {
                let (open, close) = (self.next(), self.next());
                self.other(Op::Balance(open.zip(close)));
            }
            Some(name) => self.class(Class::named(name)),
            None => self.class(Class::default()),
        }
        Ok(())
    }

    fn group(&mut self) {
        let is_position = self.rest.first() == Some(&b')');
        self.groups.push(is_position);
        let group = self.groups.len();
        if is_position {
            self.next();
            self.other(Op::Position(2 * group));
        } else {
            self.open.push(group);
            self.other(Op::Save(2 * group));
        }
    }

    fn repeat(&mut self, kind: u8) {
        let Some(class) = self.ops.pop() else {
            return;
        };
        let at = self.ops.len();
        match kind {
            b'*' => self
                .ops
                .extend([Op::Split(at + 1, at + 3), class, Op::Jump(at)]),
            b'+' => self.ops.extend([class, Op::Split(at, at + 2)]),
            b'-' => self
                .ops
                .extend([Op::Split(at + 3, at + 1), class, Op::Jump(at)]),
            _ => self.ops.extend([Op::Split(at + 1, at + 2), class]),
        }
        self.repeatable = false;
    }

    /// Reads a set behind its `[`.
    fn set(&mut self) -> Outcome<Class> {
        let negated = self.rest.first() == Some(&b'^');
        if negated {
            self.next();
        }
        // A member with the byte that it is, if it can begin or end a range.
        let mut members: Vec<(Class, Option<u8>)> = Vec::new();
        let mut range = false;
        loop {
            let member = match self.next() {
                Some(b']') if !members.is_empty() => break,
                Some(b'-') if !members.is_empty() => {
                    range = true;
                    continue;
                }
                Some(b'%') => match self.next() {
                    Some(name) => (Class::named(name), None),
                    None => return Err(PatternError::Invalid("unexpected EOS")),
                },
                Some(byte) => (Class::byte(byte), Some(byte)),
                None => return Err(PatternError::Invalid("unexpected EOS")),
            };
            let begin = if range { members.pop() } else { None };
            range = false;
            members.push(match begin {
                Some((_, begin)) => (between(begin, member.1), None),
                None => member,
            });
        }
        if range {
            members.push((Class::byte(b'-'), None));
        }
        let set = members
            .iter()
            .fold(Class::default(), |set, (class, _)| set.join(*class));
        Ok(if negated { set.negate() } else { set })
    }
}

/// A range; one that begins or ends with a class is empty.
fn between(begin: Option<u8>, end: Option<u8>) -> Class {
    match begin.zip(end) {
        Some((begin, end)) => Class::of(|c| (begin..=end).contains(&c)),
        None => Class::default(),
    }
}

/// What is taken back when a choice fails.
enum Choice {
    Resume { op: usize, at: usize },
    Restore { slot: usize, before: Option<usize> },
}

/// Tries one pattern on one text.
pub(in crate::sensor) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a Pattern,
    slots: Vec<Option<usize>>,
    choices: Vec<Choice>,
    steps: usize,
    /// Takes steps away; false when none are left.
    charge: &'a dyn Fn(usize) -> bool,
}

impl<'a> Matcher<'a> {
    pub fn new(text: &'a [u8], pattern: &'a Pattern, charge: &'a dyn Fn(usize) -> bool) -> Self {
        Self {
            text,
            pattern,
            slots: vec![None; 2 * (pattern.groups.len() + 1)],
            choices: Vec::new(),
            steps: 0,
            charge,
        }
    }

    /// Tries at one place and gives the end of the match.
    pub fn match_at(&mut self, start: usize) -> Outcome<Option<usize>> {
        self.slots.fill(None);
        self.choices.clear();
        self.steps += self.slots.len() / 16;
        let (mut op, mut at) = (0, start);
        loop {
            self.step()?;
            match self.run(&mut op, &mut at)? {
                Progress::Matched => return Ok(Some(at)),
                Progress::On => {}
                Progress::Failed => match self.resume() {
                    Some((next, place)) => (op, at) = (next, place),
                    None => return Ok(None),
                },
            }
        }
    }

    /// Returns the groups of the last match.
    pub fn captures(&self) -> Vec<Capture> {
        let groups = self.pattern.groups.iter().enumerate();
        groups
            .filter_map(|(place, is_position)| {
                let start = self.slots[2 * place + 2]?;
                Some(if *is_position {
                    Capture::Position(start)
                } else {
                    Capture::Span(start, self.slots[2 * place + 3]?)
                })
            })
            .collect()
    }

    fn step(&mut self) -> Outcome<()> {
        self.steps += 1;
        if self.steps >= STEPS_PER_CHARGE {
            self.steps = 0;
            if !(self.charge)(STEPS_PER_CHARGE) {
                return Err(PatternError::Exhausted);
            }
        }
        Ok(())
    }

    fn choose(&mut self, choice: Choice) -> Outcome<()> {
        if self.choices.len() >= MAX_CHOICES {
            return Err(PatternError::TooComplex);
        }
        self.choices.push(choice);
        Ok(())
    }

    fn resume(&mut self) -> Option<(usize, usize)> {
        loop {
            match self.choices.pop()? {
                Choice::Resume { op, at } => return Some((op, at)),
                Choice::Restore { slot, before } => self.slots[slot] = before,
            }
        }
    }

    fn run(&mut self, op: &mut usize, at: &mut usize) -> Outcome<Progress> {
        let Some(instruction) = self.pattern.ops.get(*op).copied() else {
            return Ok(Progress::Matched);
        };
        *op += 1;
        match instruction {
            Op::Class(class) => match self.text.get(*at) {
                Some(byte) if class.contains(*byte) => *at += 1,
                _ => return Ok(Progress::Failed),
            },
            Op::Split(first, second) => {
                self.choose(Choice::Resume {
                    op: second,
                    at: *at,
                })?;
                *op = first;
            }
            Op::Jump(to) => *op = to,
            Op::Save(slot) => {
                let before = self.slots[slot];
                self.choose(Choice::Restore { slot, before })?;
                self.slots[slot] = Some(*at);
            }
            Op::Position(slot) => self.slots[slot..=slot + 1].fill(Some(*at)),
            Op::End if *at >= self.text.len() => {}
            Op::End => return Ok(Progress::Failed),
            Op::Balance(bytes) => match self.balance(*at, bytes)? {
                Some(end) => *at = end,
                None => return Ok(Progress::Failed),
            },
            Op::BackReference(group) => match self.back_reference(*at, group)? {
                Some(end) => *at = end,
                None => return Ok(Progress::Failed),
            },
        }
        Ok(Progress::On)
    }

    fn balance(&mut self, start: usize, bytes: Option<(u8, u8)>) -> Outcome<Option<usize>> {
        let Some((open, close)) = bytes else {
            return Ok(None);
        };
        if self.text.get(start) != Some(&open) {
            return Ok(None);
        }
        let mut level = 1usize;
        for at in start + 1..self.text.len() {
            self.step()?;
            let byte = self.text[at];
            if byte == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(at + 1));
                }
            }
            if byte == open {
                level += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, at: usize, group: usize) -> Outcome<Option<usize>> {
        let slot = |slot: usize| self.slots.get(slot).copied().flatten();
        let (Some(start), Some(end)) = (slot(2 * group), slot(2 * group + 1)) else {
            return Err(PatternError::Invalid("invalid capture index"));
        };
        // A group inside itself can be older than its own beginning.
        let Some(wanted) = self.text.get(start..end) else {
            return Err(PatternError::Invalid("invalid capture index"));
        };
        let same = self.text[at..].starts_with(wanted);
        self.steps += wanted.len() / 16;
        Ok(same.then_some(at + wanted.len()))
    }
}

enum Progress {
    On,
    Failed,
    Matched,
}

/// Finds a plain text from `start` on, in time linear in both.
pub(in crate::sensor) fn find_plain(text: &[u8], wanted: &[u8], start: usize) -> Option<usize> {
    if wanted.is_empty() {
        return Some(start);
    }
    let mut fallback = vec![0; wanted.len()];
    let mut length = 0;
    for at in 1..wanted.len() {
        while length > 0 && wanted[at] != wanted[length] {
            length = fallback[length - 1];
        }
        length += usize::from(wanted[at] == wanted[length]);
        fallback[at] = length;
    }
    let mut matched = 0;
    for (at, c) in text.iter().enumerate().skip(start) {
        while matched > 0 && *c != wanted[matched] {
            matched = fallback[matched - 1];
        }
        matched += usize::from(*c == wanted[matched]);
        if matched == wanted.len() {
            return Some(at + 1 - wanted.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matched(text: &str, pattern: &str) -> Outcome<Option<(usize, Vec<Capture>)>> {
        let pattern = Pattern::new(pattern.as_bytes())?;
        let mut matcher = Matcher::new(text.as_bytes(), &pattern, &|_| true);
        let end = matcher.match_at(0)?;
        Ok(end.map(|end| (end, matcher.captures())))
    }

    fn spans(text: &str, pattern: &str) -> Option<(usize, Vec<Capture>)> {
        matched(text, pattern).unwrap()
    }

    #[test]
    fn items_match_as_the_manual_says() {
        assert_eq!(
            spans("v1.23", "%a(%d+)%.(%d+)").unwrap().1,
            [Capture::Span(1, 2), Capture::Span(3, 5)]
        );
        assert_eq!(spans("(a(b)c)d", "%b()").unwrap().0, 7);
        assert_eq!(
            spans("abab", "(ab)%1()").unwrap().1,
            [Capture::Span(0, 2), Capture::Position(4)]
        );
        assert_eq!(spans("a-]", "[a%-%]]*$").unwrap().0, 3);
        assert_eq!(spans("]", "[]]").unwrap().0, 1);
        assert_eq!(spans("abc", "a?b?x?c").unwrap().0, 3);
        assert!(spans("abc", "[^a]").is_none());
    }

    #[test]
    fn a_mistake_shows_on_every_text() {
        for (pattern, want) in [
            ("x(a", "unfinished capture"),
            ("xa)", "invalid ')'"),
            ("x[a", "unexpected EOS"),
            ("x[^%", "unexpected EOS"),
            ("x%0", "invalid capture index"),
        ] {
            assert_eq!(matched("b", pattern), Err(PatternError::Invalid(want)));
        }
        assert_eq!(
            matched("a", "(%1)"),
            Err(PatternError::Invalid("invalid capture index"))
        );
    }

    #[test]
    fn what_gopher_lua_reads_otherwise_counts() {
        // No frontier: `%f` is the letter.
        assert_eq!(spans("fa", "%f[a]").unwrap().0, 2);
        // A range with a class in it is empty, and a second `*` stands for itself.
        assert!(spans("z", "[%a-z]").is_none());
        assert_eq!(spans("aa*", "a**").unwrap().0, 3);
        // A `$` before a parenthesis is no end, and a `%` at the end matches nothing.
        assert_eq!(spans("a$", "(a$)").unwrap().0, 2);
        assert!(spans("a%", "a%").is_none());
        assert!(spans("(", "%b(").is_none());
    }

    #[test]
    fn steps_and_choices_are_bounded() {
        let text = "a".repeat(60_000);
        let left = std::cell::Cell::new(100);
        let charge = |_| {
            left.set(left.get() - 1);
            left.get() > 0
        };
        let pattern = Pattern::new(b".-.-.-.-b").unwrap();
        let mut matcher = Matcher::new(text.as_bytes(), &pattern, &charge);
        assert_eq!(matcher.match_at(0), Err(PatternError::Exhausted));
        let text = "a".repeat(MAX_CHOICES + 10);
        assert_eq!(matched(&text, "a*"), Err(PatternError::TooComplex));
    }

    proptest! {
        #[test]
        fn no_pattern_panics(text in "[ab(%\\]\\[]{0,12}", pattern in "[ab().%\\[\\]^$*+?\\-dfbwAS019]{0,14}") {
            let left = std::cell::Cell::new(1000);
            let charge = |_| { left.set(left.get() - 1); left.get() > 0 };
            if let Ok(pattern) = Pattern::new(pattern.as_bytes()) {
                let mut matcher = Matcher::new(text.as_bytes(), &pattern, &charge);
                for start in 0..=text.len() {
                    if let Ok(Some(end)) = matcher.match_at(start) {
                        prop_assert!(end <= text.len() && end >= start);
                        let _ = matcher.captures();
                    }
                }
            }
        }

        #[test]
        fn plain_text_is_found_where_it_stands(text in "[ab]{0,30}", wanted in "[ab]{0,4}", start in 0usize..5) {
            let start = start.min(text.len());
            let want = text[start..].find(&wanted).map(|at| at + start);
            prop_assert_eq!(find_plain(text.as_bytes(), wanted.as_bytes(), start), want);
        }
    }
}
