//! Label and field selectors: grammar and matching as in `k8s.io/apimachinery`.

use std::collections::BTreeMap;

use super::go_text::quote;
use super::registry::{Kind, SelectableField};
use super::status::Failure;

mod labels;

pub use labels::LabelSelector;

/// One `key=value` or `key!=value` of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

/// A parsed field selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Term>);

impl FieldSelector {
    /// Parses `a=b,c!=d` (with `\\`, `\,` and `\=` escaped in values) for one kind.
    ///
    /// # Errors
    /// 400 for a bad term or a field that the kind does not offer.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, Failure> {
        let terms = terms(text).map_err(Failure::bad_request)?;
        for term in &terms {
            let known = match term.field.as_str() {
                "metadata.name" => true,
                "metadata.namespace" => kind.namespaced || !kind.custom,
                field => kind.fields.iter().any(|offered| offered.label == field),
            };
            if !known {
                return Err(Failure::bad_request(unknown_label(&term.field, kind)));
            }
        }
        Ok(FieldSelector(terms))
    }

    /// True if it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares with an object; `fields` are the values of the kind's [`SelectableField`]s in their order.
    #[must_use]
    pub fn matches(
        &self,
        namespace: &str,
        name: &str,
        offered: &[SelectableField],
        fields: &[String],
    ) -> bool {
        self.0.iter().all(|term| {
            let value = match term.field.as_str() {
                "metadata.name" => name,
                "metadata.namespace" => namespace,
                field => {
                    let at = offered.iter().position(|one| one.label == field);
                    at.and_then(|index| fields.get(index))
                        .map_or("", String::as_str)
                }
            };
            (value == term.value) == term.equal
        })
    }
}

/// What is said of a field that a kind does not offer: kinds without a conversion of their own name what there is.
fn unknown_label(field: &str, kind: &Kind) -> String {
    if kind.fields.is_empty() && !kind.custom && kind.plural != "nodes" {
        return format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(field)
        );
    }
    format!("field label not supported: {field}")
}

/// The name that a selector like `metadata.name=X` fixes; authorization uses it.
#[must_use]
pub fn single_name(text: &str) -> Option<String> {
    let terms = terms(text).ok()?;
    let term = terms
        .into_iter()
        .find(|term| term.field == "metadata.name" && term.equal)?;
    let usable = !term.value.is_empty()
        && !term.value.contains(['/', '%'])
        && !matches!(term.value.as_str(), "." | "..");
    usable.then_some(term.value)
}

fn terms(text: &str) -> Result<Vec<Term>, String> {
    let mut found = Vec::new();
    for part in split(text) {
        if part.is_empty() {
            continue;
        }
        let Some((field, equal, value)) = operator(part) else {
            return Err(format!(
                "invalid selector: '{text}'; can't understand '{part}'"
            ));
        };
        if field.is_empty() && value.is_empty() {
            continue;
        }
        found.push(Term {
            field: field.to_owned(),
            equal,
            value: unescape(value)?,
        });
    }
    Ok(found)
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn operator(part: &str) -> Option<(&str, bool, &str)> {
    let at = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        Some((field, false, value))
    } else if let Some(value) = rest.strip_prefix("==") {
        Some((field, true, value))
    } else {
        rest.strip_prefix('=').map(|value| (field, true, value))
    }
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                _ => {
                    return Err(format!(
                        "invalid field selector: invalid escape sequence in value: {value}"
                    ));
                }
            },
            '=' | ',' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {value}"
                ));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Both selectors of a request.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Selector {
    /// True if it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Compares with an object's labels and selectable fields.
    #[must_use]
    pub fn matches(
        &self,
        namespace: &str,
        name: &str,
        labels: &BTreeMap<String, String>,
        offered: &[SelectableField],
        fields: &[String],
    ) -> bool {
        self.labels.matches(labels) && self.fields.matches(namespace, name, offered, fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::api::registry;

    #[test]
    fn field_terms() {
        let pods = registry::find("", "v1", "pods").expect("row");
        let selector =
            FieldSelector::parse("metadata.name=x,status.phase!=Running", pods).expect("selector");
        let fields = |phase: &str| {
            pods.fields
                .iter()
                .map(|f| {
                    if f.label == "status.phase" {
                        phase.to_owned()
                    } else {
                        String::new()
                    }
                })
                .collect::<Vec<_>>()
        };
        assert!(selector.matches("ns", "x", pods.fields, &fields("Pending")));
        assert!(!selector.matches("ns", "x", pods.fields, &fields("Running")));
        assert!(!selector.matches("ns", "y", pods.fields, &fields("Pending")));
        let error = FieldSelector::parse("spec.x=1", pods).expect_err("unknown");
        assert_eq!(error.code(), 400);
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape("a\\,b\\=c\\\\").expect("value"), "a,b=c\\");
        assert!(unescape("a\\x").is_err());
        assert_eq!(split("a=1\\,2,b=3"), ["a=1\\,2", "b=3"]);
    }

    #[test]
    fn a_single_name() {
        assert_eq!(single_name("metadata.name=x"), Some("x".to_owned()));
        assert_eq!(single_name("metadata.name!=x"), None);
        assert_eq!(single_name(""), None);
    }
}
