//! Walking over the members of an object or the elements of an array.

use super::literal;
use super::scan;
use super::{Kind, Value};

/// Members or elements of a value, in document order, duplicates included.
pub struct Entries<'v> {
    json: &'v [u8],
    at: usize,
    object: bool,
    scalar: Option<Value<'v>>,
}

impl<'v> Entries<'v> {
    pub(super) fn new(value: &'v Value<'_>) -> Self {
        let json: &[u8] = if value.kind == Kind::Json {
            &value.raw
        } else {
            &[]
        };
        let open = json
            .iter()
            .position(|byte| *byte > b' ')
            .unwrap_or(json.len());
        let container = matches!(json.get(open), Some(b'{' | b'['));
        let scalar = (value.kind != Kind::Json && value.exists())
            .then(|| Value::new(value.kind, value.raw()));
        Self {
            json: if container { json } else { &[] },
            at: open + 1,
            object: json.get(open) == Some(&b'{'),
            scalar,
        }
    }

    fn key(&mut self) -> Option<&'v [u8]> {
        let rest = self.json.get(self.at..)?;
        let start = self.at + rest.iter().position(|byte| *byte == b'"')?;
        let end = scan::string_end(self.json, start + 1)?;
        self.at = end;
        self.json.get(start..end)
    }
}

impl<'v> Iterator for Entries<'v> {
    /// Raw key with its quotes (empty for elements) and value.
    type Item = (&'v [u8], Value<'v>);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(value) = self.scalar.take() {
            return Some((&[], value));
        }
        let key = if self.object { self.key()? } else { &[] };
        let (end, value) = literal::next_value(self.json, self.at)?;
        self.at = end;
        Some((key, value))
    }
}
