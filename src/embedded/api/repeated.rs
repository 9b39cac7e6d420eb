//! Keys that stand twice in a body, and fields that its kind does not have, as the API tells of them.
//!
//! The last value of a key wins. Which one was meant is for the author to say, so it is never passed over in silence
//! unless that is asked for.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use super::go_text::quote;

/// Most findings that are told.
const MAX_TOLD: usize = 50;

/// What is to be told of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Keys of a YAML document that stand twice, by their lines.
    pub lines: Vec<String>,
    /// Fields that stand twice or are unknown.
    pub fields: Vec<String>,
}

impl Findings {
    /// Unknown fields alone.
    #[must_use]
    pub fn unknown(paths: &[String]) -> Self {
        let fields = paths.iter().map(|path| unknown(path)).collect();
        Findings {
            lines: Vec::new(),
            fields,
        }
    }

    /// True if there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.fields.is_empty()
    }

    /// One text for a request that wants none of it.
    #[must_use]
    pub fn refusal(&self) -> String {
        let lines = (!self.lines.is_empty()).then(|| in_yaml(&self.lines));
        let texts: Vec<String> = lines.into_iter().chain(self.fields.clone()).collect();
        format!("strict decoding error: {}", texts.join(", "))
    }

    /// A text each, for warnings.
    pub fn texts(self) -> impl Iterator<Item = String> {
        self.lines.into_iter().chain(self.fields)
    }
}

/// Upstream's frame around the lines.
#[must_use]
pub fn in_yaml(lines: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))
}

fn unknown(path: &str) -> String {
    format!("unknown field {}", quote(path))
}

/// Fields that stand twice in a JSON body, and those of `unknown` paths, in the order of the body.
#[must_use]
pub fn json(bytes: &[u8], unknown: &[String]) -> Vec<String> {
    let mut scan = Scan {
        path: String::new(),
        unknown,
        told: Vec::new(),
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // A body that cannot be read is refused elsewhere.
    let _ = Walk(&mut scan).deserialize(&mut reader);
    scan.told
}

struct Scan<'a> {
    /// Of the value that is read.
    path: String,
    unknown: &'a [String],
    told: Vec<String>,
}

impl Scan<'_> {
    fn tell(&mut self, text: impl Fn(&str) -> String) {
        if self.told.len() >= MAX_TOLD {
            return;
        }
        let text = text(&self.path);
        if !self.told.contains(&text) {
            self.told.push(text);
        }
    }
}

struct Walk<'a, 'b>(&'a mut Scan<'b>);

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

/// Values without anything inside.
macro_rules! leaves {
    ($value:expr => $($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, _: $type) -> Result<Self::Value, E> {
            Ok($value)
        })*
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    leaves!(() => visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128, visit_f64: f64, visit_str: &str);

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let scan = self.0;
        let above = scan.path.len();
        for index in 0_usize.. {
            let _ = write!(scan.path, "[{index}]");
            let more = list.next_element_seed(Walk(&mut *scan))?;
            scan.path.truncate(above);
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let scan = self.0;
        let above = scan.path.len();
        // Whether a key was told already.
        let mut seen: HashMap<String, bool> = HashMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if above > 0 {
                scan.path.push('.');
            }
            scan.path.push_str(&key);
            if scan.unknown.contains(&scan.path) {
                scan.tell(unknown);
                map.next_value::<IgnoredAny>()?;
            } else {
                match seen.get_mut(&key) {
                    None => {
                        seen.insert(key, false);
                    }
                    Some(told) if !*told => {
                        *told = true;
                        scan.tell(|path| format!("duplicate field {}", quote(path)));
                    }
                    Some(_) => {}
                }
                map.next_value_seed(Walk(&mut *scan))?;
            }
            scan.path.truncate(above);
        }
        Ok(())
    }
}

/// Keys that stand twice in a YAML document, by their lines.
#[must_use]
pub fn yaml(bytes: &[u8]) -> Vec<String> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Vec::new();
    };
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
    };
    let read: Result<Lines, _> = serde_saphyr::from_str_with_options(text, options);
    let mut lines = read.map(|lines| lines.0).unwrap_or_default();
    lines.truncate(MAX_TOLD);
    lines
}

/// What is to be told of a YAML value.
#[derive(Default)]
struct Lines(Vec<String>);

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(LinesVisitor)
    }
}

struct LinesVisitor;

impl<'de> Visitor<'de> for LinesVisitor {
    type Value = Lines;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    leaves!(Lines::default() => visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128, visit_f64: f64, visit_str: &str);

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Lines, A::Error> {
        let mut found = Vec::new();
        while let Some(Lines(inner)) = list.next_element()? {
            found.extend(inner);
        }
        Ok(Lines(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lines, A::Error> {
        let mut found = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let (line, key) = (key.referenced.line(), key.value);
            if seen.contains(&key) {
                let shown = quote(&key);
                found.push(format!("line {line}: key {shown} already set in map"));
            } else {
                seen.insert(key);
            }
            let Lines(inner) = map.next_value()?;
            found.extend(inner);
        }
        Ok(Lines(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_once_and_in_the_order_of_the_body() {
        let body = r#"{"kind": "Pod", "kind": "Pod", "zz": {"a": 1, "a": 2}, "spec": {"containers": [{"name": "c", "bogus": 1,
            "env": [{"value": "1", "value": "2", "value": "3"}]}], "containers": [{"name": "d", "name": "e"}]}, "zz": 1}"#;
        let unknown = ["spec.containers[0].bogus", "zz"].map(str::to_owned);
        let want = [
            "duplicate field \"kind\"",
            "unknown field \"zz\"",
            "unknown field \"spec.containers[0].bogus\"",
            "duplicate field \"spec.containers[0].env[0].value\"",
            "duplicate field \"spec.containers\"",
            "duplicate field \"spec.containers[0].name\"",
        ];
        assert_eq!(json(body.as_bytes(), &unknown), want);
        assert!(json(b"{\"a\": ", &[]).is_empty());
        let patch = br#"[{"op": "add", "op": "add", "value": null}]"#;
        assert_eq!(json(patch, &[]), ["duplicate field \"[0].op\""]);
    }

    #[test]
    fn what_is_told_is_bounded() {
        let twice = r#"{"a": 1, "a": 2}"#;
        let many = format!("[{}]", vec![twice; 200].join(","));
        assert_eq!(json(many.as_bytes(), &[]).len(), MAX_TOLD);
        assert_eq!(yaml(many.as_bytes()).len(), MAX_TOLD);
    }

    #[test]
    fn yaml_keys_are_told_by_their_lines() {
        let text = "kind: X\nlabels: {l: \"1\", l: \"2\"}\nmore:\n  a: 1\n  b:\n  - c: 1\n    c: ~\n  a: 2\n  a: 3.5\n";
        let want = [
            "line 2: key \"l\" already set in map",
            "line 7: key \"c\" already set in map",
            "line 8: key \"a\" already set in map",
            "line 9: key \"a\" already set in map",
        ];
        assert_eq!(yaml(text.as_bytes()), want);
        let one_line = br#"{"data": {"a": "1", "a": "2"}}"#;
        assert_eq!(yaml(one_line), ["line 1: key \"a\" already set in map"]);
        assert!(yaml(b"a: b: c").is_empty());
        assert!(yaml(b"\xff").is_empty());
    }
}
