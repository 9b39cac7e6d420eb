//! Values of templates: whole numbers and floats stay apart, as they do in Go.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::rc::Rc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::limits::{Failure, TooLarge, too_deep};
use super::map::{Map, Members};
use super::semver::Version;
use crate::sensor::layout::Moment;
use crate::sensor::number::{format_general, format_json};
use crate::sensor::printf::Argument;

/// A value; copies share what is long, and an object that one of them changes is changed for all.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    /// What arithmetic gives: it is not equal to an `Int` in a list, and no count.
    Int64(i64),
    Float(f64),
    Text(Rc<str>),
    List(Rc<List>),
    Map(Rc<Map>),
    Time(Box<Moment>),
    Version(Rc<Version>),
}

/// What Go declares the parts of a list or object to be; with other parts it is another type, and never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    Any,
    Int,
    Lists,
    Text,
}

impl Parts {
    fn list_name(self) -> &'static str {
        match self {
            Self::Any => "[]interface {}",
            Self::Int => "[]int",
            Self::Lists => "[][]interface {}",
            Self::Text => "[]string",
        }
    }
}

/// A list that knows how much it holds.
#[derive(Debug)]
pub(super) struct List {
    pub items: Vec<Value>,
    pub parts: Parts,
    /// Go's nil slice: it has no elements, is not equal to an empty list, and is `null` in JSON.
    absent: bool,
    weight: usize,
    depth: usize,
}

/// JSON as [`Value::parse_json`] reads it.
struct Document(Value);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor).map(Self)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Float(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Float(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Document(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::List(Rc::new(List::new(items, Parts::Any))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((key, Document(value))) = access.next_entry::<String, _>()? {
            members.entry(key).or_insert(value);
        }
        Ok(Value::root(members))
    }
}

/// Parts of one value that a template may make.
pub(super) const MAX_WEIGHT: usize = 1 << 20;
/// Lists and objects inside one another.
const MAX_DEPTH: usize = 100;
/// The same for a value that is looked through, which data may have brought.
const MAX_LEVELS: usize = 200;
/// Parts that are looked through at one time.
const MAX_WALK: usize = 4 << 20;

impl Value {
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Rc::from(text.as_ref()))
    }

    /// Makes a list; refused when it or what it holds grows too large.
    pub fn list(items: Vec<Value>, parts: Parts) -> Result<Self, TooLarge> {
        let list = List::new(items, parts);
        if list.weight > MAX_WEIGHT || list.depth > MAX_DEPTH {
            Err(TooLarge)
        } else {
            Ok(Self::List(Rc::new(list)))
        }
    }

    /// Go's nil slice.
    pub fn absent_list(parts: Parts) -> Self {
        let list = List {
            absent: true,
            ..List::new(Vec::new(), parts)
        };
        Self::List(Rc::new(list))
    }

    /// Makes an object; refused when it or what it holds grows too large.
    pub fn map(members: BTreeMap<String, Value>, texts: bool) -> Result<Self, TooLarge> {
        let members = Members::new(members);
        if members.weight > MAX_WEIGHT || members.depth > MAX_DEPTH {
            Err(TooLarge)
        } else {
            Ok(Self::Map(Rc::new(Map::new(members, texts))))
        }
    }

    /// Makes the object that a template starts from, however large the data is.
    pub fn root(members: BTreeMap<String, Value>) -> Self {
        Self::Map(Rc::new(Map::new(Members::new(members), false)))
    }

    /// Reads JSON text as gjson does: numbers are floats, and of members with one name the first counts.
    ///
    /// # Errors
    /// Text that is not JSON, or nests deeper than 128 levels.
    pub fn parse_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Document>(text).map(|document| document.0)
    }

    /// Turns JSON into a value, whose numbers are floats; refused where it nests deeper than 100 levels.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, Failure> {
        Self::convert(json, MAX_DEPTH)
    }

    fn convert(json: &serde_json::Value, levels: usize) -> Result<Self, Failure> {
        Ok(match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => Self::Float(number.as_f64().unwrap_or(0.0)),
            serde_json::Value::String(text) => Self::text(text),
            _ if levels == 0 => return Err(too_deep()),
            serde_json::Value::Array(items) => {
                let items = items.iter().map(|item| Self::convert(item, levels - 1));
                Self::List(Rc::new(List::new(
                    items.collect::<Result<_, _>>()?,
                    Parts::Any,
                )))
            }
            serde_json::Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), Self::convert(value, levels - 1)?)));
                Self::root(members.collect::<Result<_, Failure>>()?)
            }
        })
    }

    /// How much there is to walk over.
    pub fn weight(&self) -> usize {
        match self {
            Self::Text(text) => 1 + text.len() / 16,
            Self::List(list) => list.weight,
            Self::Map(map) => map.now().weight,
            _ => 1,
        }
    }

    pub(super) fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.depth,
            Self::Map(map) => map.now().depth,
            _ => 0,
        }
    }

    /// How much there is to walk over where objects were changed after others took them up; refused when that is too
    /// much, too deep, or comes back to `never`.
    pub fn measure(&self, never: Option<&Map>) -> Result<usize, TooLarge> {
        let mut weight = 0;
        self.walk(never, MAX_LEVELS, &mut weight)?;
        Ok(weight)
    }

    fn walk(&self, never: Option<&Map>, levels: usize, sum: &mut usize) -> Result<(), TooLarge> {
        *sum += 1;
        let deeper = levels.checked_sub(1).filter(|_| *sum <= MAX_WALK);
        match self {
            Self::Text(text) => *sum += text.len() / 16,
            Self::List(list) => {
                let deeper = deeper.ok_or(TooLarge)?;
                for item in &list.items {
                    item.walk(never, deeper, sum)?;
                }
            }
            Self::Map(map) => {
                if never.is_some_and(|never| std::ptr::eq(never, &raw const **map)) {
                    return Err(TooLarge);
                }
                let deeper = deeper.ok_or(TooLarge)?;
                for (key, value) in &map.now().members {
                    *sum += key.len() / 16;
                    value.walk(never, deeper, sum)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Says whether `if` takes the value for true; sprig's `empty` is the opposite.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) | Self::Int64(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => !map.now().members.is_empty(),
            Self::Time(_) | Self::Version(_) => true,
        }
    }

    /// Go's name of the type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(list) => list.parts.list_name(),
            Self::Map(map) if map.texts => "map[string]string",
            Self::Map(_) => "map[string]interface {}",
            Self::Time(_) => "time.Time",
            Self::Version(_) => "*semver.Version",
        }
    }

    /// Go's name of the kind.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Nil => "invalid",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Time(_) => "struct",
            Self::Version(_) => "ptr",
            other => other.type_name(),
        }
    }

    /// Writes the value as Go's `%v`.
    pub fn display(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Nil => out.push_str("<nil>"),
            Self::Bool(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Int(value) | Self::Int64(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Float(value) => out.push_str(&format_general(*value)),
            Self::Text(text) => out.push_str(text),
            Self::Time(moment) => out.push_str(&moment.to_go_string()),
            Self::Version(version) => {
                let _ = write!(out, "{version}");
            }
            Self::List(list) => {
                out.push('[');
                for (place, item) in list.items.iter().enumerate() {
                    out.push_str(if place > 0 { " " } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Map(map) => {
                out.push_str("map[");
                for (place, (key, value)) in map.now().members.iter().enumerate() {
                    out.push_str(if place > 0 { " " } else { "" });
                    let _ = write!(out, "{key}:");
                    value.write(out);
                }
                out.push(']');
            }
        }
    }

    /// The value for a format verb.
    pub fn argument(&self) -> Argument<'_> {
        match self {
            Self::Nil => Argument::Nil,
            Self::Bool(value) => Argument::Bool(*value),
            Self::Int(value) => Argument::Int(*value, "int"),
            Self::Int64(value) => Argument::Int(*value, "int64"),
            Self::Float(value) => Argument::Float(*value),
            Self::Text(text) => Argument::Text(text.as_bytes().into()),
            Self::List(list) => Argument::List(
                list.parts.list_name(),
                list.items.iter().map(Self::argument).collect(),
            ),
            Self::Map(map) => {
                let now = map.now();
                let members = now.members.iter().map(|(key, value)| {
                    let key = Argument::Text(key.clone().into_bytes().into());
                    (key, value.argument().into_owned())
                });
                Argument::Map(self.type_name(), members.collect())
            }
            Self::Time(moment) => Argument::Other("time.Time", moment.to_go_string()),
            Self::Version(version) => Argument::Other("*semver.Version", version.to_string()),
        }
    }

    /// The first number in it that JSON does not have.
    pub fn beyond_json(&self) -> Option<f64> {
        match self {
            Self::Float(value) if !value.is_finite() => Some(*value),
            Self::List(list) => list.items.iter().find_map(Self::beyond_json),
            Self::Map(map) => map.now().members.values().find_map(Self::beyond_json),
            _ => None,
        }
    }

    /// Writes the value as `encoding/json` does; `indent` is the text of one level, empty for one line.
    pub fn write_json(&self, out: &mut String, escape_html: bool, indent: &str, level: usize) {
        match self {
            Self::Nil => out.push_str("null"),
            Self::Bool(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Int(value) | Self::Int64(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Float(value) => out.push_str(&format_json(*value)),
            Self::Text(text) => write_json_text(out, text, escape_html),
            Self::Time(moment) => {
                let text =
                    crate::sensor::layout::format("2006-01-02T15:04:05.999999999Z07:00", moment);
                write_json_text(out, &text, escape_html);
            }
            Self::Version(version) => write_json_text(out, &version.to_string(), escape_html),
            Self::List(list) if list.absent => out.push_str("null"),
            Self::List(list) => {
                let items = list.items.iter().map(|item| (None, item));
                write_container(out, ('[', ']'), items, escape_html, (indent, level));
            }
            Self::Map(map) => {
                let now = map.now();
                let members = now.members.iter();
                let members = members.map(|(key, value)| (Some(key.as_str()), value));
                write_container(out, ('{', '}'), members, escape_html, (indent, level));
            }
        }
    }
}

fn write_container<'v>(
    out: &mut String,
    (open, close): (char, char),
    members: impl Iterator<Item = (Option<&'v str>, &'v Value)>,
    escape_html: bool,
    (indent, level): (&str, usize),
) {
    out.push(open);
    let mut any = false;
    for (key, value) in members {
        out.push_str(if any { "," } else { "" });
        any = true;
        new_line(out, indent, level + 1);
        if let Some(key) = key {
            write_json_text(out, key, escape_html);
            out.push_str(if indent.is_empty() { ":" } else { ": " });
        }
        value.write_json(out, escape_html, indent, level + 1);
    }
    if any {
        new_line(out, indent, level);
    }
    out.push(close);
}

fn new_line(out: &mut String, indent: &str, level: usize) {
    if !indent.is_empty() {
        out.push('\n');
        (0..level).for_each(|_| out.push_str(indent));
    }
}

fn write_json_text(out: &mut String, text: &str, escape_html: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' if escape_html => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c if c < ' ' || matches!(c, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        (self.parts, self.absent) == (other.parts, other.absent) && self.items == other.items
    }
}

impl List {
    fn new(items: Vec<Value>, parts: Parts) -> Self {
        let weight = items
            .iter()
            .fold(1usize, |sum, item| sum.saturating_add(item.weight()));
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        Self {
            items,
            parts,
            absent: false,
            weight,
            depth,
        }
    }
}
