//! Values of expressions, which are those of JSON.

use std::collections::BTreeMap;
use std::fmt;

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
    /// Turns a value of an event into one of an expression; what nests deeper than 100 levels becomes nil.
    pub fn from_path(value: &path::Value<'_>) -> Self {
        Self::convert(value, MAX_DEPTH)
    }

    fn convert(value: &path::Value<'_>, levels: usize) -> Self {
        match value.kind() {
            Kind::True => Self::Bool(true),
            Kind::False => Self::Bool(false),
            Kind::Number => Self::Number(value.number()),
            Kind::String => Self::Text(String::from_utf8_lossy(&value.text()).into_owned()),
            Kind::Json if levels == 0 => Self::Nil,
            Kind::Json if value.is_array() => {
                let items = value
                    .entries()
                    .map(|(_, item)| Self::convert(&item, levels - 1));
                Self::List(items.collect())
            }
            Kind::Json if value.is_object() => {
                let mut members = BTreeMap::new();
                for (key, member) in value.entries() {
                    let key = path::Value::from_raw(key);
                    let key = String::from_utf8_lossy(&key.text()).into_owned();
                    // Of two equal keys the first counts.
                    members
                        .entry(key)
                        .or_insert_with(|| Self::convert(&member, levels - 1));
                }
                Self::Map(members)
            }
            _ => Self::Nil,
        }
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
