//! A YAML file as a tree in which everything knows its place: what findings point at and fixes replace.

use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

/// A file may be this long.
const LIMIT: usize = 4 << 20;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub line: usize,
    pub column: usize,
    /// Bytes of the file; empty where they are not known.
    pub bytes: Range<usize>,
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub kind: Kind,
    pub mark: Mark,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A member of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub key_mark: Mark,
    pub value: Node,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl Node {
    /// A member of a mapping; the last of several with one key, and none that is null.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        let Kind::Map(entries) = &self.kind else {
            return None;
        };
        let named = entries.iter().rev().find(|entry| entry.key == key);
        named.filter(|entry| !entry.value.is_null())
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Scalar(Value::Null))
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The value as Kubernetes sees it.
    pub(super) fn json(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::List(items) => items.iter().map(Node::json).collect(),
            Kind::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.json()))
                .collect::<Map<_, _>>()
                .into(),
        }
    }
}

/// Reads all documents of a file; empty ones are passed over.
///
/// A key that is there twice is read as Kubernetes reads it: the last one counts. The second value says where.
pub(super) fn read(text: &str) -> Result<(Vec<Node>, Option<Unreadable>), Unreadable> {
    if text.len() > LIMIT {
        return Err(Unreadable {
            line: 1,
            column: 1,
            message: format!("it has more than {LIMIT} bytes; split it"),
        });
    }
    let strict = serde_saphyr::options! { legacy_octal_numbers: true };
    let first = match parse(text, strict) {
        Ok(documents) => return Ok((documents, None)),
        Err(first) => first,
    };
    let lenient = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
    };
    match parse(text, lenient) {
        Ok(documents) => Ok((documents, Some(first))),
        Err(error) => Err(error),
    }
}

/// The objects of a document: the items of a list, such as `kubectl get -o yaml` gives, else itself.
pub(super) fn items(document: Node) -> Vec<Node> {
    let text = |key| document.get(key).and_then(|entry| entry.value.text());
    let Some(kind) = text("kind").and_then(|kind| kind.strip_suffix("List")) else {
        return vec![document];
    };
    let (kind, version) = (kind.to_owned(), text("apiVersion").map(str::to_owned));
    let items = match document.get("items").map(|entry| &entry.value.kind) {
        Some(Kind::List(items)) => items.clone(),
        _ => return vec![document],
    };
    // The items of a list of one kind need not repeat it.
    let inherits = !kind.is_empty();
    let item = |mut item: Node| {
        let lacking = item.get("kind").is_none() && inherits;
        if let (true, Some(version), Kind::Map(entries)) = (lacking, &version, &mut item.kind) {
            let mark = item.mark.clone();
            entries.push(unwritten("kind", &kind, &mark));
            entries.push(unwritten("apiVersion", version, &mark));
        }
        item
    };
    items.into_iter().map(item).collect()
}

/// A member that the file does not show.
fn unwritten(key: &str, value: &str, mark: &Mark) -> Entry {
    let mark = Mark {
        bytes: 0..0,
        ..mark.clone()
    };
    Entry {
        key: key.to_owned(),
        key_mark: mark.clone(),
        value: Node {
            kind: Kind::Scalar(Value::String(value.to_owned())),
            mark,
        },
    }
}

fn parse(text: &str, options: serde_saphyr::Options) -> Result<Vec<Node>, Unreadable> {
    let read: Vec<Spanned<Content>> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| unreadable(&error))?;
    Ok(read.into_iter().map(node).collect())
}

fn unreadable(error: &serde_saphyr::Error) -> Unreadable {
    let message = error.to_string();
    let message = message.lines().next().unwrap_or_default();
    // The place is told apart.
    let message = match message.strip_prefix("error: line ") {
        Some(rest) => rest.split_once(": ").map_or(message, |(_, rest)| rest),
        None => message,
    };
    let message = message.to_owned();
    let (line, column) = error
        .location()
        .map_or((1, 1), |place| (whole(place.line()), whole(place.column())));
    Unreadable {
        line: line.max(1),
        column: column.max(1),
        message,
    }
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn mark(place: &serde_saphyr::Location) -> Mark {
    let span = place.span();
    let bytes = span.byte_offset().zip(span.byte_len()).map(|(from, len)| {
        let from = whole(from);
        from..from.saturating_add(whole(len))
    });
    Mark {
        line: whole(place.line()).max(1),
        column: whole(place.column()).max(1),
        bytes: bytes.unwrap_or(0..0),
    }
}

fn node(read: Spanned<Content>) -> Node {
    let mark_of = mark(&read.referenced);
    let kind = match read.value {
        Content::Scalar(value) => Kind::Scalar(value),
        Content::List(items) => Kind::List(items.into_iter().map(node).collect()),
        Content::Map(entries) => Kind::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry {
                    key_mark: mark(&key.referenced),
                    key: key.value,
                    value: node(value),
                })
                .collect(),
        ),
    };
    Node {
        kind,
        mark: mark_of,
    }
}

/// What the deserializer hands over.
enum Content {
    Scalar(Value),
    List(Vec<Spanned<Content>>),
    Map(Vec<(Spanned<String>, Spanned<Content>)>),
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Content, E> {
        Ok(Content::Scalar(wide(value.to_string())))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Content, E> {
        Ok(Content::Scalar(wide(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Scalar(
            Number::from_f64(value).map_or(Value::Null, Value::Number),
        ))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(Value::String(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Content::Scalar(Value::String(value)))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Content, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Content, A::Error> {
        let mut map = Vec::new();
        while let Some(member) = members.next_entry()? {
            map.push(member);
        }
        Ok(Content::Map(map))
    }
}

/// A number that no 64 bits hold is floating point, as in Kubernetes.
fn wide(digits: String) -> Value {
    let number = digits.parse::<f64>().ok().and_then(Number::from_f64);
    number.map_or(Value::String(digits), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        read(text).unwrap().0.remove(0)
    }

    #[test]
    fn everything_knows_its_bytes() {
        let text = "a: 'one'\nb:\n  - \"two\" # why\n  - {c: three, 'd': 4}\n";
        let root = one(text);
        let at = |mark: &Mark| &text[mark.bytes.clone()];
        let a = root.get("a").unwrap();
        assert_eq!((at(&a.key_mark), at(&a.value.mark)), ("a", "'one'"));
        let Kind::List(items) = &root.get("b").unwrap().value.kind else {
            panic!("no list");
        };
        assert_eq!(at(&items[0].mark), "\"two\"");
        assert_eq!((items[0].mark.line, items[0].mark.column), (3, 5));
        let c = items[1].get("c").unwrap();
        assert_eq!((at(&c.key_mark), at(&c.value.mark)), ("c", "three"));
        let d = items[1].get("d").unwrap();
        assert_eq!((at(&d.key_mark), at(&d.value.mark)), ("'d'", "4"));
    }

    #[test]
    fn values_are_those_of_kubernetes() {
        let root =
            one("a: on\nb: 0755\nc: 1e3\nd: null\ne: '1'\nf: 123456789012345678901234567890\n");
        let json = root.json();
        assert_eq!(json["a"], true);
        assert_eq!(json["b"], 493);
        assert_eq!(json["e"], "1");
        assert!(json["f"].is_f64());
        assert!(root.get("d").is_none());
    }

    #[test]
    fn a_key_that_is_there_twice_counts_once_and_is_told() {
        let (documents, twice) = read("a: 1\na: 2\n").unwrap();
        assert_eq!(documents[0].json(), serde_json::json!({"a": 2}));
        assert_eq!(twice.unwrap().line, 2);
    }

    #[test]
    fn what_is_no_yaml_has_a_place() {
        let error = read("a: [1\nb: 2\n").unwrap_err();
        assert!(error.line >= 1 && !error.message.is_empty());
    }
}
