//! The events of a file: one document or several, one after another or in a list.

use serde_json::value::RawValue;

use super::super::exit::Failure;
use crate::report::explain::walk::{Input, is_cloud_event, members};

/// Most events of one file.
const MAX_EVENTS: usize = 10_000;

/// Reads the events of a file of that name; a file that is no JSON at all is one event with such data.
///
/// # Errors
/// No event, too many, or one among several that cannot be read.
pub(super) fn read(name: &str, bytes: &[u8]) -> Result<Vec<Input>, Failure> {
    let wrong = |why: String| Failure::usage(format!("{name}: {why}"));
    if bytes.trim_ascii().is_empty() {
        let text =
            "it holds no event; write event data ({\"header\": …, \"body\": …}) or a CloudEvent";
        return Err(wrong(text.to_owned()));
    }
    let documents = documents(bytes).map_err(wrong)?;
    let documents = match documents.as_slice() {
        [only] => items(only).map_err(wrong)?.unwrap_or(documents),
        _ => documents,
    };
    if documents.len() > MAX_EVENTS {
        return Err(wrong(format!(
            "it holds more than {MAX_EVENTS} events; split it"
        )));
    }
    let several = documents.len() > 1;
    let event = |(place, document): (usize, &&[u8])| {
        Input::event(document).map_err(|why| {
            wrong(if several {
                format!("event {}: {why}", place + 1)
            } else {
                why
            })
        })
    };
    documents.iter().enumerate().map(event).collect()
}

/// The documents of a file, one more than are taken at most.
fn documents(bytes: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>();
    let (mut found, mut end) = (Vec::new(), 0);
    while let Some(document) = stream.next() {
        match document {
            Ok(document) => found.push(document.get().as_bytes()),
            Err(error) => return broken(bytes, &found, end, &error),
        }
        end = stream.byte_offset();
        if found.len() > MAX_EVENTS {
            break;
        }
    }
    Ok(found)
}

/// A document that does not parse: data of one event, unless the file is plainly made of several.
fn broken<'b>(
    bytes: &'b [u8],
    found: &[&[u8]],
    end: usize,
    error: &serde_json::Error,
) -> Result<Vec<&'b [u8]>, String> {
    let rest = bytes.get(end..).unwrap_or_default();
    let start = end + (rest.len() - rest.trim_ascii_start().len());
    let before = bytes.get(..start).unwrap_or_default();
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let on_lines = || {
        bytes
            .split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(b"{") && serde_json::from_slice::<&RawValue>(line).is_ok())
    };
    let several =
        (line > 1 && !found.is_empty()) || (bytes.trim_ascii().contains(&b'\n') && on_lines());
    if !several {
        return Ok(vec![bytes]);
    }
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    Err(format!(
        "line {line}: the event that begins here is no JSON ({why}); correct it, the file is read as one event after another"
    ))
}

/// The items of a list of events; `None` for a document that is no such list.
fn items(document: &[u8]) -> Result<Option<Vec<&[u8]>>, String> {
    let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(document) else {
        return Ok(None);
    };
    let is_event = |item: &&RawValue| {
        let item = item.get().as_bytes();
        is_cloud_event(item) || members(item).is_some_and(|members| members.contains_key("body"))
    };
    let Some(other) = items.iter().position(|item| !is_event(item)) else {
        let items: Vec<&[u8]> = items.iter().map(|item| item.get().as_bytes()).collect();
        return if items.is_empty() {
            Err("the list holds no event".to_owned())
        } else {
            Ok(Some(items))
        };
    };
    if items.iter().any(is_event) {
        return Err(format!(
            "item {} of the list is neither a CloudEvent nor event data with a `body`",
            other + 1
        ));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Result<usize, String> {
        read("f", text.as_bytes())
            .map(|events| events.len())
            .map_err(|failure| failure.message)
    }

    #[test]
    fn a_file_holds_one_event_or_several() {
        let cloud = r#"{"specversion":"1.0","id":"a","source":"s","subject":"e","type":"t"}"#;
        for (text, events) in [
            (r#"{"body":1}"#.to_owned(), 1),
            ("no json".to_owned(), 1),
            ("{\n  \"body\": {\n  \"a\": 1,\n}}".to_owned(), 1),
            (r#"{"body":1}}"#.to_owned(), 1),
            ("[1, 2]".to_owned(), 1),
            ("{\"body\":1}\n\n{\"body\":2}\n".to_owned(), 2),
            ("{\"body\":1} {\n\"body\":2}".to_owned(), 2),
            (format!("[{cloud},\n{cloud}]"), 2),
            (r#"[{"body":1},{"body":2},{"body":3}]"#.to_owned(), 3),
            ("{}\n".repeat(MAX_EVENTS), MAX_EVENTS),
        ] {
            assert_eq!(count(&text), Ok(events), "{:.80}", text);
        }
    }

    #[test]
    fn what_would_be_lost_is_an_error() {
        for (text, said) in [
            ("", "holds no event"),
            (" \n ", "holds no event"),
            ("[]", "holds no event"),
            ("{\"body\":1}\n{\"body\":\n{\"body\":3}\n", "line 2: "),
            ("{\"body\":1}\nnothing\n{\"body\":3}\n", "line 2: "),
            ("{\"body\":1\n{\"body\":2}\n{\"body\":3}\n", "line 1: "),
            ("{\"body\":1}\n\n{\"body\":2", "line 3: "),
            (r#"[{"body":1},7]"#, "item 2 of the list"),
            (
                r#"{"specversion":"1.0","source":"s","time":"soon"}"#,
                "no CloudEvent",
            ),
        ] {
            let error = count(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let many = count(&"{}\n".repeat(MAX_EVENTS + 1)).unwrap_err();
        assert!(many.contains("more than 10000 events"), "{many}");
    }
}
