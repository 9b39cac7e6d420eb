//! The path language of data filters and parameters (gjson's), over raw JSON text.
//!
//! From above: [`get`], [`parse`] and [`Value`]. Values are slices of the document where that is possible, so numbers keep
//! their digits and of two equal keys the first counts. Any path and any bytes are safe: recursion is limited to
//! [`MAX_DEPTH`] and the work of one look-up to a budget.

mod entries;
mod glob;
mod literal;
mod modifiers;
mod multipath;
mod parts;
mod pretty;
mod query;
mod scan;
mod search;
mod text;

use std::borrow::Cow;
use std::cell::Cell;

use super::number;
pub use entries::Entries;
pub use text::{quote_json, unescape};

/// Most nested steps (keys, pipes, queries) that one look-up takes.
pub const MAX_DEPTH: u32 = 1000;

/// JSON type of a value, as upstream names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`, or nothing at all.
    Null,
    /// `false`.
    False,
    /// A number.
    Number,
    /// A string.
    String,
    /// `true`.
    True,
    /// An object or an array.
    Json,
}

impl Kind {
    /// Upstream's name of the type.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Null => "Null",
            Self::False => "False",
            Self::Number => "Number",
            Self::String => "String",
            Self::True => "True",
            Self::Json => "JSON",
        }
    }
}

/// What a path leads to; it may be nothing ([`Value::exists`]).
#[derive(Debug, Clone)]
pub struct Value<'a> {
    kind: Kind,
    raw: Cow<'a, [u8]>,
    index: usize,
    indexes: Vec<usize>,
}

/// A look-up was stopped: the path asks for too much work on this document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "eventlab: the path takes too many steps or too much memory on this document; use a simpler path"
)]
pub struct LimitExceeded;

/// Finds the value of a path in a JSON text.
///
/// The text should be valid JSON ([`super::json::is_valid`]); on other bytes the answer is of no use, but safe.
///
/// # Errors
/// [`LimitExceeded`] if the look-up needs more than [`MAX_DEPTH`] nested steps or more work than its budget.
pub fn get<'a>(json: &'a [u8], path: &[u8]) -> Result<Value<'a>, LimitExceeded> {
    search::get(json, path, &Budget::for_document(json), 0)
}

/// Reads the first value of a text without checking the rest of it.
#[must_use]
pub fn parse(json: &[u8]) -> Value<'_> {
    literal::parse(json)
}

impl<'a> Value<'a> {
    fn new(kind: Kind, raw: impl Into<Cow<'a, [u8]>>) -> Self {
        Self {
            kind,
            raw: raw.into(),
            index: 0,
            indexes: Vec::new(),
        }
    }

    fn missing() -> Self {
        Self::new(Kind::Null, Cow::Borrowed([].as_slice()))
    }

    /// A value whose text is already known to be one JSON value.
    #[must_use]
    pub fn from_raw(raw: &'a [u8]) -> Self {
        let kind = match raw.first() {
            None | Some(b'n') => Kind::Null,
            Some(b'f') => Kind::False,
            Some(b't') => Kind::True,
            Some(b'"') => Kind::String,
            Some(b'{' | b'[') => Kind::Json,
            Some(_) => Kind::Number,
        };
        Self::new(kind, raw)
    }

    /// Text in quotes, read as a value: what a template made of a value takes its place.
    pub(super) fn from_quoted(quoted: &str) -> Value<'static> {
        literal::parse(quoted.as_bytes()).into_owned()
    }

    /// The type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the path led to a value; an explicit `null` is one.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.kind != Kind::Null || !self.raw.is_empty()
    }

    /// The value as it stands in the document.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Offset of the value in the document, 0 if it was computed.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Offsets of the elements that `#` collected.
    pub(super) fn indexes(&self) -> &[usize] {
        &self.indexes
    }

    /// The value as text: a string without quotes and escapes, `null` as nothing, a plain integer as written and any
    /// other number in plain notation, objects and arrays as JSON.
    #[must_use]
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self.kind {
            Kind::Null => Cow::Borrowed(b""),
            Kind::False => Cow::Borrowed(b"false"),
            Kind::True => Cow::Borrowed(b"true"),
            Kind::Json => Cow::Borrowed(&self.raw),
            Kind::String => text::string_value(&self.raw),
            Kind::Number if is_plain_integer(&self.raw) => Cow::Borrowed(&self.raw),
            Kind::Number => Cow::Owned(number::format_plain(self.number()).into_bytes()),
        }
    }

    /// The value as a number: text that does not parse, `null`, `false`, objects and arrays are 0, `true` is 1.
    #[must_use]
    pub fn number(&self) -> f64 {
        match self.kind {
            Kind::True => 1.0,
            Kind::Number => number::parse_float_or_zero(&self.raw),
            Kind::String => number::parse_float_or_zero(&text::string_value(&self.raw)),
            Kind::Null | Kind::False | Kind::Json => 0.0,
        }
    }

    /// The value as a boolean: `true`, numbers other than 0 and text such as `"True"`, `"1"` or `"t"` are true.
    #[must_use]
    pub fn boolean(&self) -> bool {
        match self.kind {
            Kind::True => true,
            Kind::Number => self.number() != 0.0,
            Kind::String => text::text_bool(&text::string_value(&self.raw)) == Some(true),
            Kind::Null | Kind::False | Kind::Json => false,
        }
    }

    /// Whether the value is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.kind == Kind::Json && self.raw.first() == Some(&b'[')
    }

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.kind == Kind::Json && self.raw.first() == Some(&b'{')
    }

    /// The members of an object or elements of an array; of any other value that exists, the value itself.
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        Entries::new(self)
    }

    fn into_owned<'b>(self) -> Value<'b> {
        Value {
            kind: self.kind,
            raw: Cow::Owned(self.raw.into_owned()),
            index: self.index,
            indexes: self.indexes,
        }
    }

    /// Text to stand for the value in a computed document.
    fn raw_or_text(&self) -> Cow<'_, [u8]> {
        if self.raw.is_empty() {
            self.text()
        } else {
            Cow::Borrowed(&self.raw)
        }
    }
}

fn is_plain_integer(raw: &[u8]) -> bool {
    let digits = raw.strip_prefix(b"-").unwrap_or(raw);
    !raw.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Work that is left for one look-up, in bytes read and written.
struct Budget {
    left: Cell<u64>,
}

impl Budget {
    fn for_document(json: &[u8]) -> Self {
        const BASE: u64 = 64 << 20;
        Self {
            left: Cell::new(BASE.saturating_add((json.len() as u64).saturating_mul(64))),
        }
    }

    fn charge(&self, bytes: usize) -> Result<(), LimitExceeded> {
        let left = self
            .left
            .get()
            .checked_sub(bytes as u64 + 1)
            .ok_or(LimitExceeded)?;
        self.left.set(left);
        Ok(())
    }
}

fn deeper(depth: u32) -> Result<u32, LimitExceeded> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(LimitExceeded)
    }
}

/// Where `inner` lies in `outer`, 0 if it is not a part of it (a computed value).
fn offset_in(outer: &[u8], inner: &[u8]) -> usize {
    let offset = (inner.as_ptr() as usize).wrapping_sub(outer.as_ptr() as usize);
    if inner.is_empty() || offset >= outer.len() {
        0
    } else {
        offset
    }
}

#[cfg(test)]
mod tests;
