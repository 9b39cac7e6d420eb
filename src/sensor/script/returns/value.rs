//! What may be known of a value: its kinds, and of a text, a function or a table a little more.

use super::super::known::{self, Known};
use super::super::syntax::Id;

pub const NIL: u8 = 1;
pub const FALSE: u8 = 1 << 1;
pub const TRUE: u8 = 1 << 2;
pub const NUMBER: u8 = 1 << 3;
pub const TEXT: u8 = 1 << 4;
/// Tables, functions, coroutines.
pub const OTHER: u8 = 1 << 5;
const ANY: u8 = (1 << 6) - 1;

/// What is known of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'s> {
    /// It is none.
    No,
    Is(&'s str),
    Lower,
    Upper,
    /// What `type` says.
    Type,
    Any,
}

impl Text<'_> {
    /// Whether it cannot be the other one.
    pub fn never_is(self, other: Self) -> bool {
        match (self, other) {
            (Text::Is(one), Text::Is(other)) => one != other,
            (Text::Lower, Text::Is(text)) => text.bytes().any(|c| c.is_ascii_uppercase()),
            (Text::Upper, Text::Is(text)) => text.bytes().any(|c| c.is_ascii_lowercase()),
            (Text::Type, Text::Is(text)) => !known::TYPES.contains(&text),
            (Text::Is(_), Text::Lower | Text::Upper | Text::Type) => other.never_is(self),
            _ => false,
        }
    }
}

/// What a call of a value runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callee {
    /// It cannot be called.
    No,
    Own(Id),
    Library(Known),
    Any,
}

/// What may be known of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value<'s> {
    pub kinds: u8,
    pub text: Text<'s>,
    pub calls: Callee,
    /// It holds no function.
    pub data: bool,
}

impl<'s> Value<'s> {
    pub const NEVER: Self = Self::of(0);
    pub const ANY: Self = Self {
        kinds: ANY,
        text: Text::Any,
        calls: Callee::Any,
        data: false,
    };
    pub const DATA: Self = Self {
        data: true,
        ..Self::ANY
    };

    pub const fn of(kinds: u8) -> Self {
        let text = match kinds & TEXT {
            0 => Text::No,
            _ => Text::Any,
        };
        Self {
            kinds,
            text,
            calls: Callee::No,
            data: true,
        }
    }

    pub fn function(calls: Callee) -> Self {
        Self {
            calls,
            data: false,
            ..Self::of(OTHER)
        }
    }

    pub fn join(self, other: Self) -> Self {
        Self {
            kinds: self.kinds | other.kinds,
            text: match (self.text, other.text) {
                (one, Text::No) => one,
                (Text::No, other) => other,
                (one, other) if one == other => one,
                _ => Text::Any,
            },
            calls: match (self.calls, other.calls) {
                (one, Callee::No) => one,
                (Callee::No, other) => other,
                (one, other) if one == other => one,
                _ => Callee::Any,
            },
            data: self.data && other.data,
        }
    }

    /// The value where only some kinds are left of it.
    pub fn only(self, kinds: u8) -> Self {
        let left = self.kinds & kinds;
        Self {
            kinds: left,
            text: if left & TEXT == 0 {
                Text::No
            } else {
                self.text
            },
            calls: if left & OTHER == 0 {
                Callee::No
            } else {
                self.calls
            },
            data: self.data || left & OTHER == 0,
        }
    }

    pub fn may_be(self, kinds: u8) -> bool {
        self.kinds & kinds != 0
    }
}
