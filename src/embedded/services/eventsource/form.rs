//! URL-encoded text as Go reads it: query strings and form bodies.

use std::collections::BTreeMap;

/// Values by name, in order of appearance.
pub(super) type Values = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Reads `a=1&b=2`; what cannot be read is left out and the error named, as Go does both.
pub(super) fn parse(text: &[u8]) -> (Values, Option<String>) {
    let mut values = Values::new();
    let mut error = None;
    for part in text.split(|byte| *byte == b'&') {
        if part.contains(&b';') {
            error = Some("invalid semicolon separator in query".to_owned());
            continue;
        }
        if part.is_empty() {
            continue;
        }
        let split = part.iter().position(|byte| *byte == b'=');
        let (name, value) = match split {
            Some(at) => (&part[..at], &part[at + 1..]),
            None => (part, &part[part.len()..]),
        };
        match (unescape(name, true), unescape(value, true)) {
            (Ok(name), Ok(value)) => values.entry(name).or_default().push(value),
            (Err(first), _) | (_, Err(first)) => {
                error.get_or_insert(first);
            }
        }
    }
    (values, error)
}

/// Undoes percent escapes, and `+` for a blank in a query.
pub(super) fn unescape(text: &[u8], query: bool) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'%' => {
                let digits = text.get(at + 1..at + 3).and_then(hexadecimal);
                let Some(decoded) = digits else {
                    let shown = text.get(at..text.len().min(at + 3)).unwrap_or_default();
                    return Err(format!(
                        "invalid URL escape \"{}\"",
                        String::from_utf8_lossy(shown)
                    ));
                };
                out.push(decoded);
                at += 3;
            }
            b'+' if query => {
                out.push(b' ');
                at += 1;
            }
            byte => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    Ok(out)
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| {
        char::from(*byte)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    match digits {
        [high, low] => Some(digit(high)? * 16 + digit(low)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<(String, Vec<String>)>, Option<String>) {
        let (values, error) = parse(text.as_bytes());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            values
                .into_iter()
                .map(|(name, values)| (text(name), values.into_iter().map(text).collect()))
                .collect(),
            error,
        )
    }

    #[test]
    fn names_may_repeat_and_miss_their_value() {
        let (values, error) = read("b=1&a&b=%2B+&&=x");
        let wanted = [("", vec!["x"]), ("a", vec![""]), ("b", vec!["1", "+ "])];
        assert_eq!(
            values,
            wanted.map(|(name, values)| (
                name.to_owned(),
                values.iter().map(ToString::to_string).collect()
            ))
        );
        assert_eq!(error, None);
    }

    #[test]
    fn a_bad_part_is_named_and_left_out() {
        assert_eq!(read("a=%zz&b=1").1.unwrap(), "invalid URL escape \"%zz\"");
        assert_eq!(read("a=%2").1.unwrap(), "invalid URL escape \"%2\"");
        assert_eq!(
            read("a=1;b=2&c=3"),
            (
                vec![("c".to_owned(), vec!["3".to_owned()])],
                Some("invalid semicolon separator in query".to_owned())
            )
        );
    }
}
