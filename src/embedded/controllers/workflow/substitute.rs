//! Puts values into `{{name}}` tags of a spec.
//!
//! Upstream does this in the JSON text; here it is done in each string and key, with the same result for
//! valid templates. A tag that has no value stays as it is, unless its prefix is strict.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Variables and their values.
pub(super) type Scope = BTreeMap<String, String>;

/// Why a value could not be put in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SubstituteError {
    /// A tag of a strict prefix has no value (yet).
    #[error("failed to resolve {{{{{0}}}}}")]
    Missing(String),
    /// A tag without its end.
    #[error("unable to parse argo variable: Cannot find end tag=\"}}}}\" in {0:?}")]
    NoEnd(String),
    /// The expression language.
    #[error(
        "eventlab: the expression {{{{{0}}}}} is not evaluated on the embedded cluster; use a plain {{{{variable}}}}, or a real cluster (--context)"
    )]
    Expression(String),
}

/// Puts values in; tags whose name starts with one of `strict` must have one.
pub(super) fn replace(
    value: &Value,
    scope: &Scope,
    strict: &[&str],
) -> Result<Value, SubstituteError> {
    Ok(match value {
        Value::String(text) => Value::String(replace_text(text, scope, strict)?),
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| replace(item, scope, strict))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(fields) => {
            let mut replaced = Map::new();
            for (key, value) in fields {
                replaced.insert(
                    replace_text(key, scope, strict)?,
                    replace(value, scope, strict)?,
                );
            }
            Value::Object(replaced)
        }
        other => other.clone(),
    })
}

/// Puts values into one text.
pub(super) fn replace_text(
    text: &str,
    scope: &Scope,
    strict: &[&str],
) -> Result<String, SubstituteError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        out.push_str(&rest[..start]);
        let inner = &rest[start + 2..];
        let Some(end) = inner.find("}}") else {
            return Err(SubstituteError::NoEnd(text.to_owned()));
        };
        out.push_str(&tag(&inner[..end], scope, strict)?);
        rest = &inner[end + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

fn tag(tag: &str, scope: &Scope, strict: &[&str]) -> Result<String, SubstituteError> {
    let name = tag.trim();
    if name.starts_with('=') {
        return Err(SubstituteError::Expression(name.to_owned()));
    }
    if let Some(value) = scope.get(name) {
        return Ok(value.clone());
    }
    // `{{inputs.parameters.{{item}}}}`: the inner one first, the outer one next time.
    if let Some(at) = tag.rfind("{{")
        && let Some(value) = scope.get(&tag[at + 2..])
    {
        return Ok(format!("{{{{{}{value}", &tag[..at]));
    }
    if strict.iter().any(|prefix| is_below(name, prefix)) {
        return Err(SubstituteError::Missing(tag.to_owned()));
    }
    Ok(format!("{{{{{tag}}}}}"))
}

fn is_below(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// The names of the tags in a value, in order.
pub(super) fn tags(value: &Value) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![value]);
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => text_tags(text, &mut found),
            Value::Array(items) => open.extend(items.iter().rev()),
            Value::Object(fields) => {
                fields.keys().for_each(|key| text_tags(key, &mut found));
                open.extend(fields.values().rev());
            }
            _ => {}
        }
    }
    found
}

fn text_tags(text: &str, found: &mut Vec<String>) {
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let inner = &rest[start + 2..];
        let Some(end) = inner.find("}}") else { return };
        found.push(inner[..end].to_owned());
        rest = &inner[end + 2..];
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        Scope::from([
            ("workflow.name".to_owned(), "order-1".to_owned()),
            ("item".to_owned(), "a".to_owned()),
            (
                "inputs.parameters.quote".to_owned(),
                "\"x\" {{item}}".to_owned(),
            ),
        ])
    }

    #[test]
    fn tags_are_replaced_everywhere_and_once() {
        let value = json!({"a": ["{{workflow.name}}-{{ item }}"], "{{item}}": 7, "b": "{{inputs.parameters.quote}}"});
        let replaced = replace(&value, &scope(), &[]).expect("replaced");
        assert_eq!(
            replaced,
            json!({"a": ["order-1-a"], "a": 7, "b": "\"x\" {{item}}"})
        );
    }

    #[test]
    fn unknown_tags_stay_unless_strict() {
        assert_eq!(
            replace_text("{{steps.a.outputs.result}}", &scope(), &[]),
            Ok("{{steps.a.outputs.result}}".into())
        );
        assert_eq!(
            replace_text("x{{steps.a.id}}", &scope(), &["steps"])
                .map_err(|error| error.to_string()),
            Err("failed to resolve {{steps.a.id}}".into())
        );
        assert_eq!(
            replace_text("{{stepsy.id}}", &scope(), &["steps"]),
            Ok("{{stepsy.id}}".into())
        );
    }

    #[test]
    fn nested_tags_resolve_from_the_inside() {
        assert_eq!(
            replace_text("{{inputs.parameters.{{item}}}}", &scope(), &[]),
            Ok("{{inputs.parameters.a}}".into())
        );
    }

    #[test]
    fn a_tag_without_end_and_an_expression_are_errors() {
        assert!(matches!(
            replace_text("{{workflow.name", &scope(), &[]),
            Err(SubstituteError::NoEnd(_))
        ));
        let error = replace_text("{{=1+1}}", &scope(), &[]).expect_err("expression");
        assert!(
            error
                .to_string()
                .starts_with("eventlab: the expression {{=1+1}}"),
            "{error}"
        );
    }

    #[test]
    fn tags_are_listed_in_order() {
        assert_eq!(
            tags(&json!(["{{a}} {{b}}", {"{{c}}": "{{d}}"}])),
            ["a", "b", "c", "d"]
        );
    }
}
