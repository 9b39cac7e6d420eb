//! The event's data while one filter judges it: validated once, plain paths found in the same pass.

use super::json::{self, MAX_PREFIX_DEPTH, PrefixSet, Spans};
use super::path::{self, LimitExceeded, Value};

/// A path of a filter, made ready.
#[derive(Debug, Clone)]
pub(super) struct Place {
    path: String,
    /// Slot of the path's plain beginning in the filter's [`PrefixSet`].
    slot: Option<usize>,
    /// What follows the plain beginning; `None` where the whole path is plain.
    rest: Option<usize>,
}

impl Place {
    pub(super) fn new(path: &str, prefixes: &mut PrefixSet) -> Self {
        let mut keys: Vec<&[u8]> = Vec::new();
        let mut rest = Some(0);
        let mut from = 0;
        for component in path.split('.') {
            if !is_plain(component) || keys.len() == MAX_PREFIX_DEPTH {
                break;
            }
            keys.push(component.as_bytes());
            from += component.len() + 1;
            rest = (from <= path.len()).then_some(from);
        }
        // At the start of a path these mean a literal or JSON lines; in its middle they are keys.
        let odd_rest = rest.is_some_and(|rest| path[rest..].starts_with(['!', '.']));
        let slot = (!keys.is_empty() && !odd_rest).then(|| prefixes.insert(keys));
        Self {
            path: path.to_owned(),
            slot,
            rest,
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Finds the path's value; the same answer as [`path::get`], without looking at the whole document again.
    pub(super) fn find<'d>(&self, data: &Valid<'d, '_>) -> Result<Value<'d>, LimitExceeded> {
        let span = self
            .slot
            .and_then(|slot| data.spans.get(slot))
            .and_then(|(start, end)| data.json.get(start..end));
        match (span, self.rest) {
            _ if self.slot.is_none() || !data.is_container() => {
                path::get(data.json, self.path.as_bytes())
            }
            (Some(span), None) => Ok(Value::from_raw(span)),
            (None, None) => Ok(Value::from_raw(&[])),
            // The rest may need the second of two equal keys, or the quirks of a path that goes on in a scalar.
            (Some(span @ [b'{' | b'[', ..]), Some(rest)) if !data.spans.repeated() => {
                path::get(span, self.path.as_bytes().get(rest..).unwrap_or_default())
            }
            _ => path::get(data.json, self.path.as_bytes()),
        }
    }
}

/// A key or index without anything that the path language reads as more.
fn is_plain(component: &str) -> bool {
    let number = component.bytes().all(|byte| byte.is_ascii_digit());
    let odd_number =
        number && (component.len() > 18 || (component.len() > 1 && component.starts_with('0')));
    !component.is_empty()
        && !odd_number
        && !component
            .bytes()
            .any(|byte| b"*?|#@[]{}!\\".contains(&byte))
}

/// Data that is valid JSON.
pub(super) struct Valid<'d, 's> {
    json: &'d [u8],
    spans: &'s Spans,
}

impl Valid<'_, '_> {
    fn is_container(&self) -> bool {
        let first = self
            .json
            .iter()
            .find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        matches!(first, Some(b'{' | b'['))
    }
}

/// What the data turned out to be.
pub(super) enum Content<'d, 's> {
    Absent,
    Invalid,
    Json(Valid<'d, 's>),
}

/// The data of one event for one evaluation.
pub(super) struct Payload<'d> {
    data: Option<&'d [u8]>,
    /// Where the paths lead; `None` if the data is not valid JSON.
    spans: Option<Spans>,
}

impl<'d> Payload<'d> {
    /// Validates the data and looks for the paths.
    pub(super) fn new(data: Option<&'d [u8]>, prefixes: &PrefixSet) -> Self {
        Self {
            data,
            spans: data.and_then(|json| json::scan(json, prefixes)),
        }
    }

    /// The raw data, empty if there is none.
    pub(super) fn bytes(&self) -> &'d [u8] {
        self.data.unwrap_or_default()
    }

    /// Go's text for data that its decoder does not take.
    pub(super) fn invalid_text(&self) -> String {
        if self.bytes().is_empty() {
            "unexpected end of JSON input".to_owned()
        } else {
            "invalid character in event data, which is not valid JSON".to_owned()
        }
    }

    pub(super) fn content(&self) -> Content<'d, '_> {
        let Some(json) = self.data else {
            return Content::Absent;
        };
        match &self.spans {
            Some(spans) => Content::Json(Valid { json, spans }),
            None => Content::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn both(json: &str, path: &str) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let mut prefixes = PrefixSet::default();
        Place::new("other.path", &mut prefixes);
        let place = Place::new(path, &mut prefixes);
        let payload = Payload::new(Some(json.as_bytes()), &prefixes);
        let Content::Json(valid) = payload.content() else {
            return (None, None);
        };
        let raw = |value: Value<'_>| value.exists().then(|| value.raw().to_vec());
        (
            raw(place.find(&valid).unwrap()),
            raw(path::get(json.as_bytes(), path.as_bytes()).unwrap()),
        )
    }

    fn document() -> impl Strategy<Value = String> {
        let scalar = proptest::sample::select(vec![
            "1",
            "null",
            "\"x\"",
            "\"{\\\"a\\\":1}\"",
            "true",
            "[]",
            "{}",
            "-2.5",
        ])
        .prop_map(str::to_owned);
        scalar.prop_recursive(4, 24, 4, |inner| {
            let key = proptest::sample::select(vec!["a", "b", "0", "1", "\\u0061", "a.b", ""]);
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4)
                    .prop_map(|items| format!("[{}]", items.join(", "))),
                proptest::collection::vec((key, inner), 0..4).prop_map(|members| {
                    let members: Vec<_> = members
                        .iter()
                        .map(|(key, value)| format!("\"{key}\" :{value}"))
                        .collect();
                    format!(" {{{}}}", members.join(","))
                }),
            ]
        })
    }

    fn path() -> impl Strategy<Value = String> {
        let part = proptest::sample::select(vec![
            "a", "b", "0", "1", "01", "", "#", "#(a==1)", "#(a)#", "*", "a*", "a\\.b", "@this",
            "@keys", "@tostr", "a|@this", "[a,b]", "{a}", "!1",
        ]);
        proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join("."))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn a_place_finds_what_the_path_language_finds(json in document(), path in path(), padding in 0usize..130) {
            let (found, wanted) = both(&(" ".repeat(padding) + &json), &path);
            prop_assert_eq!(found, wanted);
        }
    }
}
