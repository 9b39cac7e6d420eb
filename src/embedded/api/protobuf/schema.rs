//! The table of messages, read once from `messages.txt`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// How a field's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Integer,
    Bool,
    Double,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Json,
    Strings,
    /// Name of another message.
    Message(&'static str),
}

/// How often a field stands in its message, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    /// From strings.
    Map,
    /// A message whose fields belong to the outer object.
    Inline,
}

/// One field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub number: u64,
    pub name: &'static str,
    pub kind: Type,
    pub shape: Shape,
    pub zero_is_absent: bool,
}

impl Field {
    /// The fields of the message that this field holds.
    pub(super) fn message(&self) -> &'static [Field] {
        match self.kind {
            Type::Message(name) => SCHEMA.messages.get(name).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }
}

struct Schema {
    /// By apiVersion and kind.
    roots: HashMap<(&'static str, &'static str), &'static str>,
    messages: HashMap<&'static str, Vec<Field>>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("messages.txt")));

/// The fields of a kind's message.
pub(super) fn root(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    let roots = &SCHEMA.roots;
    let message = roots
        .get(&(api_version, kind))
        .or_else(|| roots.get(&("meta", kind)))?;
    SCHEMA.messages.get(message).map(Vec::as_slice)
}

impl Schema {
    /// Lines that do not parse are left out; a test sees to it that there are none.
    fn parse(text: &'static str) -> Schema {
        let mut schema = Schema {
            roots: HashMap::new(),
            messages: HashMap::new(),
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["kind", api_version, kind, message] => {
                    schema.roots.insert((api_version, kind), message);
                }
                [message, fields @ ..] => {
                    schema.messages.insert(
                        message,
                        fields.iter().filter_map(|text| field(text)).collect(),
                    );
                }
                [] => {}
            }
        }
        schema
    }
}

/// `NUMBER=NAME:TYPE` or `NUMBER=>MESSAGE`.
fn field(text: &'static str) -> Option<Field> {
    let (number, rest) = text.split_once('=')?;
    let number = number.parse().ok()?;
    if let Some(message) = rest.strip_prefix('>') {
        let kind = Type::Message(message);
        return Some(Field {
            number,
            name: "",
            kind,
            shape: Shape::Inline,
            zero_is_absent: false,
        });
    }
    let (name, kind) = rest.split_once(':')?;
    let (shape, kind) = match (kind.strip_prefix('*'), kind.strip_prefix('%')) {
        (Some(kind), _) => (Shape::List, kind),
        (_, Some(kind)) => (Shape::Map, kind),
        _ => (Shape::One, kind),
    };
    let zero_is_absent = kind.ends_with('-');
    let kind = kind_of(kind.trim_end_matches('-'))?;
    Some(Field {
        number,
        name,
        kind,
        shape,
        zero_is_absent,
    })
}

fn kind_of(text: &'static str) -> Option<Type> {
    Some(match text {
        "s" => Type::Text,
        "i" => Type::Integer,
        "b" => Type::Bool,
        "d" => Type::Double,
        "y" => Type::Bytes,
        "T" => Type::Time,
        "U" => Type::MicroTime,
        "Q" => Type::Quantity,
        "I" => Type::IntOrString,
        "R" => Type::Json,
        "L" => Type::Strings,
        _ => Type::Message(text.strip_prefix('@')?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_every_name_leads_somewhere() {
        let text = include_str!("messages.txt");
        let lines = || {
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
        };
        let mut fields = 0;
        for line in lines().filter(|line| !line.starts_with("kind ")) {
            let (message, rest) = line.split_once(' ').unwrap_or((line, ""));
            let read = &SCHEMA.messages[message];
            assert_eq!(read.len(), rest.split_whitespace().count(), "{message}");
            fields += read.len();
            for field in read {
                if let Type::Message(inner) = field.kind {
                    assert!(
                        SCHEMA.messages.contains_key(inner),
                        "{message} names {inner}"
                    );
                }
            }
        }
        assert!(fields > 1000);
        for message in SCHEMA.roots.values() {
            assert!(SCHEMA.messages.contains_key(message), "{message}");
        }
    }
}
