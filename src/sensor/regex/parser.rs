//! Go's pattern syntax, read with a stack: an operator applies to the piece on top of it.

use regex_syntax::hir::Look;

use super::ast::{Node, Piece};
use super::class::{ClassReader, class, fold_then_negate};
use super::error::{RegexError, RegexErrorKind as Kind};
use super::scan::{self, Count, CountMax, Flags, Group, consumed, next_char};

/// Levels of the tree that Go allows.
const MAX_HEIGHT: u32 = 1000;
/// Groups that may be open at once. Go has no such limit for groups without capture.
const MAX_OPEN_GROUPS: usize = 1000;
/// Product of nested counts that Go allows.
const MAX_REPEATS: u64 = 1000;
/// Instructions that Go allows: 128 MiB of 40 bytes each.
const MAX_SIZE: u64 = (128 << 20) / 40;
/// Bytes of a pattern. Go has no such limit; a Sensor object as a whole stays below 1.5 MiB.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// A pattern that was read.
pub(super) struct Parsed {
    pub node: Node,
    pub height: u32,
    /// Names of the groups, the whole match first; `None` where a group has no name.
    pub names: Vec<Option<String>>,
}

enum Entry {
    Piece(Piece),
    Bar,
    Paren { flags: Flags, capture: Option<u32> },
}

struct Parser<'p> {
    whole: &'p str,
    rest: &'p str,
    flags: Flags,
    stack: Vec<Entry>,
    open_groups: usize,
    size: u64,
    names: Vec<Option<String>>,
    classes: ClassReader,
}

/// Reads a pattern.
pub(super) fn parse(pattern: &str) -> Result<Parsed, RegexError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(RegexError::limit(pattern));
    }
    let parser = Parser {
        whole: pattern,
        rest: pattern,
        flags: Flags::default(),
        stack: Vec::new(),
        open_groups: 0,
        size: 0,
        names: vec![None],
        classes: ClassReader::default(),
    };
    parser.run()
}

impl<'p> Parser<'p> {
    fn run(mut self) -> Result<Parsed, RegexError> {
        let mut last_repeat = None;
        while let Some((c, after)) = next_char(self.rest) {
            let before = self.rest;
            self.rest = after;
            let mut repeat = None;
            match c {
                '*' => repeat = Some((0, None)),
                '+' => repeat = Some((1, None)),
                '?' => repeat = Some((0, Some(1))),
                '{' => repeat = self.counted(before)?,
                _ => self.atom(c, before)?,
            }
            last_repeat = match repeat {
                None => None,
                Some((min, max)) => {
                    self.repeat(min, max, before, last_repeat)?;
                    Some(before)
                }
            };
        }
        let piece = self.close();
        if !self.stack.is_empty() {
            return Err(RegexError::new(Kind::MissingParen, self.whole));
        }
        self.check(&piece)?;
        Ok(Parsed {
            node: piece.node,
            height: piece.height,
            names: self.names,
        })
    }

    /// Reads what is not a repetition; `before` starts with `c`.
    fn atom(&mut self, c: char, before: &'p str) -> Result<(), RegexError> {
        match c {
            '(' => self.open(before),
            ')' => self.close_group(),
            '|' => {
                self.stack.push(Entry::Bar);
                Ok(())
            }
            '^' if self.flags.multi_line => self.push(Node::Look(Look::StartLF)),
            '^' => self.push(Node::Look(Look::Start)),
            '$' if self.flags.multi_line => self.push(Node::Look(Look::EndLF)),
            '$' => self.push(Node::Look(Look::End)),
            '.' if self.flags.dot_newline => self.push(Node::AnyChar),
            '.' => self.push(Node::AnyCharButNewline),
            '[' => {
                let (class, rest) = self.classes.bracketed(before, self.flags.fold_case)?;
                self.rest = rest;
                self.push_class(class)
            }
            '\\' => self.backslash(before),
            c => self.literal(u32::from(c)),
        }
    }

    fn push(&mut self, node: Node) -> Result<(), RegexError> {
        self.push_piece(Piece::leaf(node))
    }

    fn push_class(&mut self, class: regex_syntax::hir::ClassUnicode) -> Result<(), RegexError> {
        self.classes.charge(class.ranges().len(), self.whole)?;
        self.push(Node::Class(class))
    }

    fn push_piece(&mut self, piece: Piece) -> Result<(), RegexError> {
        self.check(&piece)?;
        self.stack.push(Entry::Piece(piece));
        Ok(())
    }

    fn check(&mut self, piece: &Piece) -> Result<(), RegexError> {
        if piece.height > MAX_HEIGHT {
            return Err(RegexError::new(Kind::NestingDepth, self.whole));
        }
        self.size = self.size.max(piece.size);
        if self.size > MAX_SIZE {
            return Err(RegexError::too_large(self.whole));
        }
        Ok(())
    }

    fn literal(&mut self, value: u32) -> Result<(), RegexError> {
        let fold = self.flags.fold_case;
        match char::from_u32(value) {
            Some(c) if !fold => self.push(Node::Literal(c)),
            _ => self.push_class(fold_then_negate(class(&[(value, value)]), fold, false)),
        }
    }

    fn backslash(&mut self, before: &'p str) -> Result<(), RegexError> {
        let Some((c, after)) = next_char(self.rest) else {
            return Err(RegexError::new(Kind::TrailingBackslash, ""));
        };
        let look = match c {
            'A' => Look::Start,
            'z' => Look::End,
            'b' => Look::WordAscii,
            'B' => Look::WordAsciiNegate,
            'C' => {
                let escape = consumed(before, after);
                return Err(RegexError::new(Kind::InvalidEscape, escape));
            }
            'Q' => return self.quoted(after),
            _ => return self.escaped(before),
        };
        self.rest = after;
        self.push(Node::Look(look))
    }

    /// Reads `\Q…\E`, all of it literal; without `\E` it goes on to the end.
    fn quoted(&mut self, after: &'p str) -> Result<(), RegexError> {
        let (quoted, rest) = after.split_once("\\E").unwrap_or((after, ""));
        self.rest = rest;
        quoted.chars().try_for_each(|c| self.literal(u32::from(c)))
    }

    fn escaped(&mut self, before: &'p str) -> Result<(), RegexError> {
        if let Some((class, rest)) = self.classes.escaped(before, self.flags.fold_case)? {
            self.rest = rest;
            return self.push_class(class);
        }
        let (value, rest) = scan::escape(before)?;
        self.rest = rest;
        self.literal(value)
    }

    fn open(&mut self, before: &'p str) -> Result<(), RegexError> {
        if !before.starts_with("(?") {
            return self.open_capture(None);
        }
        let (group, rest) = scan::group(before, self.flags)?;
        self.rest = rest;
        match group {
            Group::Named(name) => self.open_capture(Some(name.to_string())),
            Group::SetFlags(flags) => {
                self.flags = flags;
                Ok(())
            }
            Group::Flagged(flags) => {
                self.open_paren(None)?;
                self.flags = flags;
                Ok(())
            }
        }
    }

    fn open_capture(&mut self, name: Option<String>) -> Result<(), RegexError> {
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name);
        self.open_paren(Some(index))
    }

    fn open_paren(&mut self, capture: Option<u32>) -> Result<(), RegexError> {
        self.open_groups += 1;
        if self.open_groups > MAX_OPEN_GROUPS {
            return Err(match capture {
                Some(_) => RegexError::new(Kind::NestingDepth, self.whole),
                None => RegexError::limit(self.whole),
            });
        }
        let flags = self.flags;
        self.stack.push(Entry::Paren { flags, capture });
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), RegexError> {
        let piece = self.close();
        let Some(Entry::Paren { flags, capture }) = self.stack.pop() else {
            return Err(RegexError::new(Kind::UnexpectedParen, self.whole));
        };
        self.open_groups -= 1;
        self.flags = flags;
        self.push_piece(match capture {
            Some(index) => piece.capture(index),
            None => piece,
        })
    }

    /// Takes everything down to the last open group and joins it to one piece.
    fn close(&mut self) -> Piece {
        let start = self
            .stack
            .iter()
            .rposition(|entry| matches!(entry, Entry::Paren { .. }))
            .map_or(0, |paren| paren + 1);
        let mut branches = Vec::new();
        let mut branch = Vec::new();
        for entry in self.stack.drain(start..) {
            match entry {
                Entry::Piece(piece) => branch.push(piece),
                Entry::Bar | Entry::Paren { .. } => {
                    branches.push(Piece::concat(std::mem::take(&mut branch)));
                }
            }
        }
        branches.push(Piece::concat(branch));
        Piece::alternate(branches)
    }

    /// Reads `{n,m}`; `None` where the brace is an ordinary character, which is then pushed.
    fn counted(&mut self, before: &'p str) -> Result<Option<(u32, Option<u32>)>, RegexError> {
        let Some(Count { min, max, rest }) = scan::count(before) else {
            self.literal(u32::from('{'))?;
            return Ok(None);
        };
        self.rest = rest;
        let limit = |n: u32| u64::from(n) <= MAX_REPEATS;
        match (min, max) {
            (Some(min), CountMax::Unbounded) if limit(min) => Ok(Some((min, None))),
            (Some(min), CountMax::Number(max)) if limit(max) && min <= max => {
                Ok(Some((min, Some(max))))
            }
            _ => Err(RegexError::new(
                Kind::InvalidRepeatCount,
                consumed(before, rest),
            )),
        }
    }

    /// Repeats the piece on top of the stack; `before` starts with the operator.
    fn repeat(
        &mut self,
        min: u32,
        max: Option<u32>,
        before: &'p str,
        last_repeat: Option<&'p str>,
    ) -> Result<(), RegexError> {
        let mut greedy = !self.flags.ungreedy;
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
            greedy = !greedy;
        }
        let error = |kind, from| RegexError::new(kind, consumed(from, self.rest));
        if let Some(last) = last_repeat {
            return Err(error(Kind::InvalidRepeatOperator, last));
        }
        let Some(Entry::Piece(piece)) = self.stack.pop_if(|e| matches!(e, Entry::Piece(_))) else {
            return Err(error(Kind::MissingRepeatArgument, before));
        };
        let counted = min >= 2 || max.is_some_and(|max| max >= 2);
        let piece = piece.repeat(min, max, greedy);
        if counted && piece.repeats > MAX_REPEATS {
            return Err(error(Kind::InvalidRepeatCount, before));
        }
        self.push_piece(piece)
    }
}
