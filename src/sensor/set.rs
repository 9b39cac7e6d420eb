//! Writing a value into JSON text at a path (sjson's language), as trigger parameters do.
//!
//! From above: [`set`] and [`Insert`]. The document keeps its layout around the change.

use std::borrow::Cow;

use super::path::{self, LimitExceeded, Value, quote_json};

/// What to write.
#[derive(Debug, Clone, Copy)]
pub enum Insert<'v> {
    /// A text, written as a JSON string.
    Text(&'v [u8]),
    /// JSON, written as it is.
    Raw(&'v [u8]),
}

/// Why a value cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The path is empty.
    #[error("path cannot be empty")]
    EmptyPath,
    /// A name where the document has an array.
    #[error("cannot set array element for non-numeric key '{0}'")]
    NotAnIndex(String),
    /// An index so far behind the end of the array that filling up with nulls would need too much memory.
    #[error(
        "eventlab: array index {0} is too far behind the end of the array; at most {MAX_PADDING} elements are filled in"
    )]
    IndexTooLarge(usize),
    /// The path has too many components or asks for too much work.
    #[error(transparent)]
    TooComplex(#[from] LimitExceeded),
}

impl SetError {
    /// Whether this program stops here, where upstream might go on.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self, Self::IndexTooLarge(_) | Self::TooComplex(_))
    }
}

/// Most nulls that one write fills in.
pub const MAX_PADDING: usize = 1_000_000;
const MAX_COMPONENTS: usize = 1000;

/// Sets the value at a path and gives the new document; missing objects and arrays on the way are made.
///
/// A path with wildcards, `#`, `|` or `@` changes what it finds and leaves the document as it is where it finds nothing.
///
/// # Errors
/// [`SetError`]; the document is then unchanged upstream too.
pub fn set(json: &[u8], path: &[u8], value: Insert<'_>) -> Result<Vec<u8>, SetError> {
    if path.is_empty() {
        return Err(SetError::EmptyPath);
    }
    match split(path)? {
        Some(keys) => set_keys(json, &keys, value),
        None => set_found(json, path, value),
    }
}

impl Insert<'_> {
    fn append(self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(raw) => out.extend_from_slice(raw),
            Self::Text(text) => append_string(out, text),
        }
    }
}

/// Text without anything special is quoted as it is, other text as `encoding/json` does (`<` escaped).
fn append_string(out: &mut Vec<u8>, text: &[u8]) {
    let special = |byte: &u8| *byte < b' ' || *byte > 0x7f || matches!(byte, b'"' | b'\\');
    if text.iter().any(special) {
        quote_json(out, text);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// One component of a path.
#[derive(Debug)]
struct Key<'p> {
    /// The key itself.
    name: Cow<'p, [u8]>,
    /// The component as the path language reads it.
    lookup: &'p [u8],
    /// A leading `:` makes a number a key of an object.
    forced: bool,
}

impl Key<'_> {
    fn index(&self) -> Option<usize> {
        let digits = !self.forced && self.name.iter().all(u8::is_ascii_digit);
        let add = |index: usize, digit: &u8| {
            index
                .saturating_mul(10)
                .saturating_add(usize::from(digit - b'0'))
        };
        digits.then(|| self.name.iter().fold(0, add))
    }

    fn appends(&self) -> bool {
        !self.forced && *self.name == *b"-1"
    }
}

/// Splits a path of plain keys; `None` if a component has a character of the look-up language.
fn split(mut path: &[u8]) -> Result<Option<Vec<Key<'_>>>, SetError> {
    let mut keys = Vec::new();
    loop {
        if keys.len() >= MAX_COMPONENTS {
            return Err(SetError::TooComplex(LimitExceeded));
        }
        let forced = path.first() == Some(&b':');
        let body = if forced { &path[1..] } else { path };
        let Some((name, length)) = key_name(body) else {
            return Ok(None);
        };
        keys.push(Key {
            name,
            lookup: &body[..length],
            forced,
        });
        match body.get(length) {
            Some(_) => path = &body[length + 1..],
            None => return Ok(Some(keys)),
        }
    }
}

/// The first component without its escapes, and how long it is in the path.
fn key_name(path: &[u8]) -> Option<(Cow<'_, [u8]>, usize)> {
    let mut escaped: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        match byte {
            b'.' => break,
            b'|' | b'#' | b'@' | b'*' | b'?' => return None,
            b'\\' => {
                let name = escaped.get_or_insert_with(|| path[..at].to_vec());
                at += 1;
                name.extend(path.get(at));
            }
            _ => {
                if let Some(name) = escaped.as_mut() {
                    name.push(byte);
                }
            }
        }
        at += 1;
    }
    let length = at.min(path.len());
    Some((
        escaped.map_or(Cow::Borrowed(&path[..length]), Cow::Owned),
        length,
    ))
}

/// Goes down as far as the document has the keys, and builds the rest there.
fn set_keys(json: &[u8], keys: &[Key<'_>], value: Insert<'_>) -> Result<Vec<u8>, SetError> {
    let mut out = Vec::with_capacity(json.len() + 64);
    let mut tails: Vec<&[u8]> = Vec::new();
    let mut here = json;
    for (depth, key) in keys.iter().enumerate() {
        let found = path::get(here, key.lookup)?;
        let start = found.index();
        if start == 0 {
            add_member(&mut out, here, &keys[depth..], value)?;
            break;
        }
        let end = (start + found.raw().len()).min(here.len());
        out.extend_from_slice(&here[..start]);
        tails.push(&here[end..]);
        if depth + 1 == keys.len() {
            value.append(&mut out);
        }
        here = &here[start..end];
    }
    tails
        .iter()
        .rev()
        .for_each(|tail| out.extend_from_slice(tail));
    Ok(out)
}

/// Writes a container with a new member; anything else than a container is replaced by one.
fn add_member(
    out: &mut Vec<u8>,
    json: &[u8],
    keys: &[Key<'_>],
    value: Insert<'_>,
) -> Result<(), SetError> {
    let Some(first) = keys.first() else {
        return Ok(());
    };
    let parsed = path::parse(json);
    let fresh: &[u8] = if first.index().is_some() {
        b"[]"
    } else {
        b"{}"
    };
    let container = if matches!(parsed.raw().first(), Some(b'{' | b'[')) {
        parsed
    } else {
        path::parse(fresh)
    };
    let raw = container.raw();
    let has_members = raw[1..]
        .iter()
        .find(|byte| **byte > b' ')
        .is_some_and(|byte| !matches!(byte, b'}' | b']'));
    if raw.first() == Some(&b'{') {
        let end = raw
            .iter()
            .rposition(|byte| *byte == b'}')
            .unwrap_or(raw.len() - 1)
            .max(1);
        out.extend_from_slice(&raw[..end]);
        if has_members {
            out.push(b',');
        }
        return build(out, false, keys, value).map(|()| out.push(b'}'));
    }
    add_element(out, &container, has_members, keys, value)
}

fn add_element(
    out: &mut Vec<u8>,
    array: &Value<'_>,
    has_members: bool,
    keys: &[Key<'_>],
    value: Insert<'_>,
) -> Result<(), SetError> {
    let Some(first) = keys.first() else {
        return Ok(());
    };
    match first.index() {
        None if first.appends() => {
            let open = trim_end(array.raw());
            out.extend_from_slice(open.strip_suffix(b"]").unwrap_or(open));
            if has_members {
                out.push(b',');
            }
        }
        None => {
            return Err(SetError::NotAnIndex(
                String::from_utf8_lossy(&first.name).into_owned(),
            ));
        }
        Some(index) => copy_padded(out, array, index, has_members)?,
    }
    build(out, true, keys, value)?;
    out.push(b']');
    Ok(())
}

/// Copies the elements and fills up with nulls, so that the next element written has the index.
fn copy_padded(
    out: &mut Vec<u8>,
    array: &Value<'_>,
    index: usize,
    has_members: bool,
) -> Result<(), SetError> {
    out.push(b'[');
    let mut count = 0;
    for (_, element) in array.entries() {
        if count > 0 {
            out.push(b',');
        }
        out.extend_from_slice(element.raw());
        count += 1;
    }
    let missing = index.saturating_sub(count);
    if missing > MAX_PADDING {
        return Err(SetError::IndexTooLarge(index));
    }
    let filler: &[u8] = if count == 0 { b"null," } else { b",null" };
    (0..missing).for_each(|_| out.extend_from_slice(filler));
    if count > 0 && has_members {
        out.push(b',');
    }
    Ok(())
}

fn trim_end(raw: &[u8]) -> &[u8] {
    raw.iter()
        .rposition(|byte| *byte > b' ')
        .map_or(&[], |last| &raw[..=last])
}

/// Writes nested new containers for the keys and the value inside them.
fn build(
    out: &mut Vec<u8>,
    in_array: bool,
    keys: &[Key<'_>],
    value: Insert<'_>,
) -> Result<(), SetError> {
    let mut closers = Vec::new();
    let mut in_array = in_array;
    for (place, key) in keys.iter().enumerate() {
        if !in_array {
            append_string(out, &key.name);
            out.push(b':');
        }
        let Some(next) = keys.get(place + 1) else {
            break;
        };
        in_array = next.index().is_some() || next.appends();
        let (open, close) = if in_array { (b'[', b']') } else { (b'{', b'}') };
        out.push(open);
        closers.push(close);
        let missing = next.index().unwrap_or(0);
        if missing > MAX_PADDING {
            return Err(SetError::IndexTooLarge(missing));
        }
        (0..missing).for_each(|_| out.extend_from_slice(b"null,"));
    }
    value.append(out);
    out.extend(closers.iter().rev());
    Ok(())
}

/// Replaces what a path with wildcards, `#`, `|` or `@` finds.
fn set_found(json: &[u8], path: &[u8], value: Insert<'_>) -> Result<Vec<u8>, SetError> {
    let found = path::get(json, path)?;
    let mut out = json.to_vec();
    if !found.exists() {
        return Ok(out);
    }
    if found.index() != 0 {
        replace(&mut out, found.index(), found.raw().len(), value);
    }
    let lengths: Vec<usize> = found
        .entries()
        .map(|(_, value)| value.raw().len())
        .collect();
    if found.indexes().len() == lengths.len() {
        let mut spans: Vec<(usize, usize)> = found.indexes().iter().copied().zip(lengths).collect();
        spans.sort_by_key(|span| std::cmp::Reverse(span.0));
        spans
            .into_iter()
            .for_each(|(start, length)| replace(&mut out, start, length, value));
    }
    Ok(out)
}

fn replace(json: &mut Vec<u8>, start: usize, length: usize, value: Insert<'_>) {
    let end = start.saturating_add(length);
    if end <= json.len() {
        let mut text = Vec::new();
        value.append(&mut text);
        json.splice(start..end, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn golden(name: &str) -> String {
        std::fs::read_to_string(format!(
            "{}/tests/golden/language/{name}",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap()
    }

    #[test]
    fn writes_as_sjson() {
        let cases: Vec<(String, String)> =
            serde_json::from_str(&golden("sjson_cases.json")).unwrap();
        let answers: Vec<serde_json::Value> = golden("sjson.jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(cases.len(), answers.len());
        let mut wrong = Vec::new();
        for ((json, path), want) in cases.iter().zip(answers) {
            let got = match set(json.as_bytes(), path.as_bytes(), Insert::Text(b"v\"1")) {
                Ok(out) => serde_json::json!({"o": String::from_utf8(out).unwrap()}),
                Err(error) => serde_json::json!({"e": error.to_string()}),
            };
            if got != want {
                wrong.push(format!("{path} in {json}\n  want {want}\n  got  {got}"));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {}:\n{}",
            wrong.len(),
            cases.len(),
            wrong.join("\n")
        );
    }

    #[test]
    fn far_indexes_do_not_fill_the_memory() {
        for path in ["a.99999999999", "9999999999", "a.b.18446744073709551616.c"] {
            assert!(matches!(
                set(b"[1]", path.as_bytes(), Insert::Raw(b"1")),
                Err(SetError::IndexTooLarge(_) | SetError::NotAnIndex(_))
            ));
        }
        assert!(set(b"{}", "a.".repeat(5000).as_bytes(), Insert::Raw(b"1")).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_value_set_at_a_plain_path_is_found_there(
            json in proptest::sample::select(vec!["{}", r#"{"a":{"b":[1,{"c":2}]},"x":null}"#, "{\"a\" : [ ] }", r#"{"a":"s"}"#]),
            path in proptest::collection::vec(proptest::sample::select(vec!["a", "b", "x", "new"]), 1..5).prop_map(|keys| keys.join(".")),
        ) {
            if let Ok(out) = set(json.as_bytes(), path.as_bytes(), Insert::Text(b"v<\n")) {
                prop_assert!(crate::sensor::json::is_valid(&out));
                prop_assert_eq!(path::get(&out, path.as_bytes()).unwrap().text().into_owned(), b"v<\n".to_vec());
            }
        }

        #[test]
        fn any_path_and_document_give_an_answer(
            json in "[\\[\\]{}\",:a1 ]{0,12}",
            path in "[a1.:\\\\#*|@\\-\\[{!]{0,10}",
        ) {
            let _ = set(json.as_bytes(), path.as_bytes(), Insert::Text(b"v"));
        }
    }
}
