//! What can be wrong with a pattern, in the words that Go's `regexp` uses.

use std::fmt;

/// The kind of mistake in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegexErrorKind {
    InvalidClassRange,
    InvalidEscape,
    InvalidNamedCapture,
    InvalidPerlSyntax,
    InvalidRepeatOperator,
    InvalidRepeatCount,
    /// Go takes it, and it is too much for this program.
    Limit,
    MissingBracket,
    MissingParen,
    MissingRepeatArgument,
    NestingDepth,
    TooLarge,
    TrailingBackslash,
    UnexpectedParen,
}

impl RegexErrorKind {
    fn text(self) -> &'static str {
        match self {
            Self::InvalidClassRange => "invalid character class range",
            Self::InvalidEscape => "invalid escape sequence",
            Self::InvalidNamedCapture => "invalid named capture",
            Self::InvalidPerlSyntax => "invalid or unsupported Perl syntax",
            Self::InvalidRepeatOperator => "invalid nested repetition operator",
            Self::InvalidRepeatCount => "invalid repeat count",
            Self::Limit => "eventlab: the pattern is too large to be run here, write a smaller one",
            Self::MissingBracket => "missing closing ]",
            Self::MissingParen => "missing closing )",
            Self::MissingRepeatArgument => "missing argument to repetition operator",
            Self::NestingDepth => "expression nests too deeply",
            Self::TooLarge => "expression too large",
            Self::TrailingBackslash => "trailing backslash at end of expression",
            Self::UnexpectedParen => "unexpected )",
        }
    }
}

/// A pattern that Go's `regexp` would refuse; `Display` is Go's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexError {
    kind: RegexErrorKind,
    expression: String,
}

/// Where a pattern is too big to be quoted whole, this much of it is.
const QUOTED_CHARS: usize = 120;

impl RegexError {
    pub(super) fn new(kind: RegexErrorKind, expression: &str) -> Self {
        Self {
            kind,
            expression: expression.to_string(),
        }
    }

    /// Go refuses it, too.
    pub(super) fn too_large(pattern: &str) -> Self {
        Self::shortened(RegexErrorKind::TooLarge, pattern)
    }

    /// It is too much for this program.
    pub(super) fn limit(pattern: &str) -> Self {
        Self::shortened(RegexErrorKind::Limit, pattern)
    }

    fn shortened(kind: RegexErrorKind, pattern: &str) -> Self {
        let mut expression: String = pattern.chars().take(QUOTED_CHARS).collect();
        if expression.len() < pattern.len() {
            expression.push('…');
        }
        Self { kind, expression }
    }

    /// Says whether this program stops here, where Go might go on.
    pub fn is_own(&self) -> bool {
        self.kind == RegexErrorKind::Limit
    }

    /// Returns the kind of mistake.
    pub fn kind(&self) -> RegexErrorKind {
        self.kind
    }

    /// Returns the part of the pattern that Go quotes.
    pub fn expression(&self) -> &str {
        &self.expression
    }
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, expression) = (self.kind.text(), &self.expression);
        if self.is_own() {
            return write!(f, "{kind}: `{expression}`");
        }
        write!(f, "error parsing regexp: {kind}: `{expression}`")
    }
}

impl std::error::Error for RegexError {}
