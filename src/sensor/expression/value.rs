//! Values of expressions, which are those of JSON.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use super::ExprError;
use crate::sensor::number::format_general;
use crate::sensor::path::{self, Kind};

/// A value; `Display` writes it as Go's `%v`.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprValue {
    /// JSON's null, or nothing at all.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<ExprValue>),
    /// An object.
    Map(BTreeMap<String, ExprValue>),
}

/// Containers inside one another that a field's value may have.
const MAX_DEPTH: usize = 100;

impl ExprValue {
    /// Turns a value of an event into one of an expression.
    ///
    /// # Errors
    /// [`ExprError::Limit`] where it nests deeper than 100 levels.
    pub fn from_path(value: &path::Value<'_>) -> Result<Self, ExprError> {
        Self::convert(value, MAX_DEPTH)
    }

    fn convert(value: &path::Value<'_>, levels: usize) -> Result<Self, ExprError> {
        Ok(match value.kind() {
            Kind::True => Self::Bool(true),
            Kind::False => Self::Bool(false),
            Kind::Number => Self::Number(value.number()),
            Kind::String => Self::Text(text_of(value)),
            Kind::Json if levels == 0 => {
                return Err(ExprError::Limit(format!(
                    "eventlab: a field's value is nested more than {MAX_DEPTH} levels deep; take a part of it"
                )));
            }
            Kind::Json if value.is_array() => {
                let items = value
                    .entries()
                    .map(|(_, item)| Self::convert(&item, levels - 1));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Kind::Json if value.is_object() => {
                let mut members = BTreeMap::new();
                for (key, member) in value.entries() {
                    let key = path::Value::from_raw(key);
                    let key = String::from_utf8_lossy(&key.text()).into_owned();
                    // Of two equal keys the first counts.
                    if let Entry::Vacant(place) = members.entry(key) {
                        place.insert(Self::convert(&member, levels - 1)?);
                    }
                }
                Self::Map(members)
            }
            _ => Self::Nil,
        })
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    pub(super) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// The text of a value, with U+FFFD for what is not UTF-8.
fn text_of(value: &path::Value<'_>) -> String {
    match String::from_utf8(value.text().into_owned()) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

impl fmt::Display for ExprValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("<nil>"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => f.write_str(&format_general(*value)),
            Self::Text(text) => f.write_str(text),
            Self::List(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    let space = if place > 0 { " " } else { "" };
                    write!(f, "{space}{item}")?;
                }
                f.write_str("]")
            }
            Self::Map(members) => {
                f.write_str("map[")?;
                for (place, (key, value)) in members.iter().enumerate() {
                    let space = if place > 0 { " " } else { "" };
                    write!(f, "{space}{key}:{value}")?;
                }
                f.write_str("]")
            }
        }
    }
}
