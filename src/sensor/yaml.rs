//! YAML as Kubernetes and Argo Events read it, to JSON: keys are resolved as values are, so that `on` is `true` and `0x10`
//! is `16`, and only then made texts.
//!
//! From above: [`documents`], [`only`], [`first`], and [`Unreadable`] for what is wrong.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

use super::number::format_general;

/// All documents of a file; a key that stands twice is an error.
///
/// # Errors
/// What is no YAML, or goes beyond the reader's limits.
pub fn documents(text: &str) -> Result<Vec<Value>, Error> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let read: Vec<Document> = serde_saphyr::from_multiple_with_options(text, options)?;
    Ok(read.into_iter().map(|document| document.0).collect())
}

/// The one document of a text; of a key that stands twice the last one counts.
///
/// # Errors
/// As [`documents`], and a second document.
pub fn only(text: &str) -> Result<Value, Error> {
    serde_saphyr::from_str_with_options::<Document>(text, last_wins()).map(|document| document.0)
}

/// The first document of a text, `null` where there is none; of a key that stands twice the last one counts.
///
/// # Errors
/// As [`documents`], of the first one.
pub fn first(text: &str) -> Result<Value, Error> {
    let mut bytes = text.as_bytes();
    let mut documents = serde_saphyr::read_with_options::<_, Document>(&mut bytes, last_wins());
    let first = documents.next().transpose()?;
    Ok(first.map_or(Value::Null, |document| document.0))
}

fn last_wins() -> Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
    }
}

/// Why a text cannot be read, in words that speak of the text and not of its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Line and column, each with its word; empty where they are not known.
    pub place: String,
    /// What is wrong there.
    pub message: String,
    /// It is a limit of this program's.
    pub is_own: bool,
}

const TOO_LARGE: &str =
    "from here on it is larger or deeper than any manifest, once its aliases (`*NAME`) are put in";

impl From<&Error> for Unreadable {
    fn from(error: &Error) -> Self {
        let place = error.location().map_or_else(String::new, |location| {
            format!("line {}, column {}: ", location.line(), location.column())
        });
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        let told = without_place(line);
        let is_own = is_limit(error) || told.contains("recursion limit");
        let message = if is_own {
            TOO_LARGE.to_owned()
        } else {
            twice(error).unwrap_or_else(|| told.to_owned())
        };
        Self {
            place,
            message,
            is_own,
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.place, self.message)
    }
}

/// A line of the parser's without the place, which it says before or behind.
fn without_place(line: &str) -> &str {
    let before = line.strip_prefix("error: line ");
    if let Some((_, message)) = before.and_then(|rest| rest.split_once(": ")) {
        return message;
    }
    match line.rsplit_once(" at line ") {
        Some((message, place)) if place.contains(", column ") => message,
        _ => line,
    }
}

fn is_limit(error: &Error) -> bool {
    match error.without_snippet() {
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => true,
        Error::AliasError { error, .. } => is_limit(error),
        _ => false,
    }
}

/// A key that is there twice; the parser speaks of its own settings.
fn twice(error: &Error) -> Option<String> {
    match error.without_snippet() {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            Some(format!("the key {key} is there twice"))
        }
        Error::DuplicateMappingKey { .. } => Some("a key is there twice".to_owned()),
        Error::AliasError { error, .. } => twice(error),
        _ => None,
    }
}

/// A value of a document.
struct Document(Value);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(Self)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Document(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((Key(key), Document(value))) = members.next_entry()? {
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// A key, resolved as a value and made a text.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor).map(Self)
    }
}

struct KeyVisitor;

const NO_KEY: &str = "a key is a text, a number or a boolean; put anything else in quotes";

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    /// Upstream writes it with the digits that 32 bits need.
    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        let short = (value as f32).to_string();
        Ok(short.parse().map_or(short, format_general))
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }

    fn visit_string<E>(self, value: String) -> Result<String, E> {
        Ok(value)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<String, E> {
        Err(E::custom(NO_KEY))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _items: A) -> Result<String, A::Error> {
        Err(A::Error::custom(NO_KEY))
    }

    fn visit_map<A: MapAccess<'de>>(self, _members: A) -> Result<String, A::Error> {
        Err(A::Error::custom(NO_KEY))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Every key that YAML 1.1 takes for something else than a text becomes the text of that, unless it is in quotes.
    #[test]
    fn keys_are_resolved_as_values_are() {
        for (key, text) in [
            ("y", "true"),
            ("Y", "true"),
            ("yes", "true"),
            ("on", "true"),
            ("True", "true"),
            ("n", "false"),
            ("No", "false"),
            ("off", "false"),
            ("0x10", "16"),
            ("010", "8"),
            ("-3", "-3"),
            ("1.5", "1.5"),
            ("1.50", "1.5"),
            ("0.1", "0.1"),
            ("1e3", "1000"),
            ("1e7", "1e+07"),
            ("a", "a"),
            ("2001-01-01", "2001-01-01"),
            ("'y'", "y"),
            ("\"on\"", "on"),
            ("'0x10'", "0x10"),
            ("!!str no", "no"),
        ] {
            let wanted = json!({ text: {text: 1} });
            let block = format!("{key}:\n  {key}: 1\n");
            let flow = format!("{{{key}: {{{key}: 1}}}}");
            for text in [block, flow] {
                assert_eq!(
                    documents(&text).unwrap(),
                    std::slice::from_ref(&wanted),
                    "{text}"
                );
                assert_eq!(only(&text).unwrap(), wanted, "{text}");
                assert_eq!(first(&text).unwrap(), wanted, "{text}");
            }
        }
    }

    #[test]
    fn a_key_that_is_no_text_is_refused_in_words() {
        for text in ["null: 1\n", "~: 1\n", "? [a]\n: 1\n", "{{ .Name }}: 1\n"] {
            let error = Unreadable::from(&documents(text).unwrap_err()).to_string();
            assert!(error.contains("put anything else in quotes"), "{error}");
            assert!(error.starts_with("line 1, "), "{error}");
        }
    }

    #[test]
    fn merges_and_aliases_are_put_in_and_own_members_count_before_them() {
        let text = "a: &x {q: 1, on: 2}\nb: {<<: *x, q: 3}\n";
        let wanted = json!({"a": {"q": 1, "true": 2}, "b": {"q": 3, "true": 2}});
        assert_eq!(only(text).unwrap(), wanted);
        assert_eq!(first(text).unwrap(), wanted);
    }

    #[test]
    fn of_several_documents_and_keys_one_counts() {
        assert_eq!(first("a: 1\na: 2\n---\nb: [\n").unwrap(), json!({"a": 2}));
        assert_eq!(first("a: 1\n---\nb: 1\n").unwrap(), json!({"a": 1}));
        assert_eq!(first("").unwrap(), Value::Null);
        assert_eq!(only("on: 1\ntrue: 2\n").unwrap(), json!({"true": 2}));
        assert!(documents("a: 1\na: 2\n").is_err());
    }
}
