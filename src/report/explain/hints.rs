//! What to change, in short: one sentence for each reason.

use serde_json::Value;

use super::{near, pattern};
use crate::sensor::parameters::{Events, ParameterError};
use crate::sensor::regex::Regex;
use crate::sensor::trigger::{KINDS, TriggerError};
use crate::sensor::{
    ConditionReport, Explanation, Group, GroupReport, Operator, Outcome, Reason, path,
};

/// Longest value that a hint quotes, in characters.
const QUOTED: usize = 60;

/// Hints for a filter that drops the event.
pub(super) fn rejecting(why: &Explanation, data: &[u8]) -> Vec<String> {
    let mut hints: Vec<String> = sent_as_form(data).into_iter().collect();
    let deciding = why.deciding_group();
    let groups: Vec<&GroupReport> = match deciding {
        Some(group) => vec![group],
        None => why.groups.iter().collect(),
    };
    for group in groups {
        hints.extend(group_hint(group));
        for condition in &group.conditions {
            if condition.decided || group.operator == Operator::Or || deciding.is_none() {
                hints.extend(condition_hints(condition, data));
            }
        }
    }
    let another_passed = why
        .groups
        .iter()
        .any(|group| group.outcome == Outcome::Passed);
    if why.operator == Operator::Or && why.error.is_some() && another_passed {
        let text = "with `filtersLogicalOperator: or` an error in any group drops the event, though another group holds; take out what errs";
        hints.push(text.to_owned());
    }
    hints.dedup();
    hints
}

fn group_hint(group: &GroupReport) -> Option<String> {
    let text = match group.reason {
        Reason::InvalidJson => "the event's data is not valid JSON; correct what is sent",
        Reason::ScriptFalse => {
            "only the boolean `true` as the returned value passes; end the script with `return` and compare, as in `return event.body.kind == \"…\"`"
        }
        Reason::ScriptError => {
            "correct the script; it is Lua 5.1, the event data is the global `event`, and a field of a missing one is an error (`event.body and event.body.kind`)"
        }
        Reason::BadTime if group.group == Group::Time => {
            "write `start` and `stop` as hh:mm:ss and `timezone` as an IANA name such as Europe/Berlin"
        }
        Reason::OutsideWindow => {
            "the event came outside of the window; start is included, stop is not, and without `timezone` both are UTC"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

fn condition_hints(condition: &ConditionReport, data: &[u8]) -> Vec<String> {
    if condition.outcome == Outcome::Passed {
        return Vec::new();
    }
    match condition.reason {
        Reason::MissingPath => missing(condition, data),
        Reason::Mismatch if condition.outcome == Outcome::Failed => mismatch(condition, data),
        reason => other(condition, reason).into_iter().collect(),
    }
}

fn other(condition: &ConditionReport, reason: Reason) -> Option<String> {
    let path = &condition.path;
    let text = match reason {
        Reason::NoValues => format!("{path}: list at least one `value`"),
        Reason::BadRegex => format!(
            "{path}: correct the pattern {}; it is RE2, which has no look-around and no back-references, and every value is a pattern",
            deciding_value(condition)
        ),
        Reason::BadValue => format!(
            "{path}: {} is no {}; an unreadable value drops every event that reaches it, so correct it or take it out",
            deciding_value(condition),
            condition.r#type
        ),
        Reason::BadType => format!("{path}: `type` is one of bool, number, string"),
        Reason::BadTemplate => format!(
            "{path}: correct the template; it is Go's text/template with sprig, the value is `.Input`, and an empty result is an error"
        ),
        Reason::BadExpression => format!(
            "correct the expression {}; text stands in single quotes, and both sides of a comparison need one type",
            deciding_value(condition)
        ),
        Reason::TooComplex => format!(
            "{path}: eventlab stops here where upstream may go on; make the path, pattern, template or expression smaller"
        ),
        _ => return None,
    };
    Some(text)
}

/// Hints for a value that no event path leads to.
fn missing(condition: &ConditionReport, data: &[u8]) -> Vec<String> {
    condition
        .path
        .split(", ")
        .filter(|path| !near::exists(data, path))
        .map(|path| {
            let optional = near::paths(path, data).is_empty() && sent_as_form(data).is_none();
            let way_out = if optional {
                " If the field is optional, `or` or a script can allow for its absence"
            } else {
                ""
            };
            missing_path(path, data) + way_out
        })
        .collect()
}

/// JSON that came as a form: its text is the name of a field without a value, cut at every `&` and `=`.
fn sent_as_form(data: &[u8]) -> Option<String> {
    let body = path::get(data, b"body").ok()?;
    if !body.is_object() {
        return None;
    }
    let json_name = body.entries().any(|(key, value)| {
        let key = path::Value::from_raw(key).text().into_owned();
        let key = key.trim_ascii_start();
        key.starts_with(b"{") && value.is_array()
    });
    json_name.then(|| {
        "the body was sent as a form; send `Content-Type: application/json` (curl -d says form unless -H says otherwise).".to_owned()
    })
}

/// What is known of a path that leads nowhere, in whole sentences.
fn missing_path(wanted: &str, data: &[u8]) -> String {
    let near = near::paths(wanted, data);
    if near.is_empty() {
        let keys = top_keys(data);
        return format!("{wanted} is not in the event and nothing like it is; body has {keys}.");
    }
    let shown: Vec<String> = near
        .iter()
        .map(|path| format!("{path} ({})", value_at(data, path)))
        .collect();
    format!(
        "{wanted} is not in the event; did you mean {}?",
        shown.join(" or ")
    )
}

fn top_keys(data: &[u8]) -> String {
    let found = path::get(data, b"body").ok();
    let keys: Vec<String> = found
        .iter()
        .filter(|body| body.is_object())
        .flat_map(path::Value::entries)
        .take(8)
        .map(|(key, _)| short(&String::from_utf8_lossy(&path::Value::from_raw(key).text())))
        .collect();
    if keys.is_empty() {
        "no keys".to_owned()
    } else {
        keys.join(", ")
    }
}

fn value_at(data: &[u8], path: &str) -> String {
    path::get(data, path.as_bytes()).map_or_else(
        |_| "?".to_owned(),
        |value| short(&String::from_utf8_lossy(value.raw())),
    )
}

/// Hints for a value that is there and differs.
fn mismatch(condition: &ConditionReport, data: &[u8]) -> Vec<String> {
    let path = &condition.path;
    let Some(found) = &condition.found else {
        return Vec::new();
    };
    let hint = match condition.r#type.as_str() {
        "string" => string_mismatch(condition, &found.coerced, data),
        "bool" => Some(format!(
            "{path}: {} counts as {}; true are `true`, \"true\", \"1\", \"t\" and numbers other than 0, everything else is false",
            short(&found.raw),
            found.coerced
        )),
        "number" if !matches!(found.kind, "Number") => Some(format!(
            "{path}: {} counts as {}; send a number",
            short(&found.raw),
            found.coerced
        )),
        "context" => Some(format!(
            "the event's {path} is {}; it is compared as a whole, not as a pattern",
            short(&found.raw)
        )),
        "expr" => Some(format!(
            "the expression is {} for {}; only `true` passes",
            found.coerced,
            short(&found.raw)
        )),
        _ => None,
    };
    let values: Vec<&str> = condition
        .values
        .iter()
        .map(|value| value.value.as_str())
        .collect();
    hint.or_else(|| {
        (condition.r#type != "expr").then(|| {
            format!(
                "{path} is {}, wanted {} {}; send that, or widen the filter",
                short(&found.raw),
                condition.comparator,
                short(&values.join(" or "))
            )
        })
    })
    .into_iter()
    .collect()
}

fn string_mismatch(condition: &ConditionReport, found: &str, data: &[u8]) -> Option<String> {
    let path = &condition.path;
    if !matches!(condition.comparator.as_str(), "=" | "!=") {
        return Some(format!(
            "{path}: comparator {} never passes for `type: string`; use = or !=, or `type: number`",
            condition.comparator
        ));
    }
    if condition.comparator == "!=" {
        return Some(format!(
            "{path}: {} matches every listed pattern, so != does not hold; mind that a pattern without ^ and $ matches anywhere inside",
            short(found)
        ));
    }
    let first = path::get(data, format!("{path}.0").as_bytes()).ok();
    let first = first
        .filter(path::Value::exists)
        .map(|value| String::from_utf8_lossy(&value.text()).into_owned());
    condition.values.iter().find_map(|value| {
        let pattern = value.value.as_str();
        let matches = |pattern: &str, text: &str| {
            Regex::new(pattern).is_ok_and(|regex| regex.is_match(text.as_bytes()))
        };
        let (start, bare, end) = pattern::untied(pattern);
        if first
            .as_deref()
            .is_some_and(|first| matches(pattern, first))
        {
            Some(format!("{path} is a list; use {path}.0, its first element"))
        } else if matches(&format!("(?i){pattern}"), found) {
            Some(format!(
                "{path} differs in case only; to allow that write (?i){pattern}"
            ))
        } else if pattern == found {
            Some(format!(
                "{path}: a value is a pattern; to mean this text write {}",
                pattern::quoted(pattern)
            ))
        } else if matches(pattern, found.trim()) {
            Some(format!("{path} has blanks around it; send it without"))
        } else if bare != pattern && matches(bare, found) {
            let found = short(found);
            Some(match (start, end) {
                (true, false) => {
                    format!("{path}: ^ wants the text to begin with {bare}, and {found} does not")
                }
                (false, _) => {
                    format!("{path}: $ wants the text to end with {bare}, and {found} does not")
                }
                (true, true) => format!(
                    "{path}: ^ and $ want the whole text to be {bare}, and {found} is longer"
                ),
            })
        } else {
            None
        }
    })
}

/// Notes on conditions that pass, and would pass for more than they say.
pub(super) fn passing(why: &Explanation) -> Vec<String> {
    let conditions = why.groups.iter().flat_map(|group| &group.conditions);
    conditions
        .filter(|condition| condition.outcome == Outcome::Passed)
        .filter_map(passing_note)
        .collect()
}

fn passing_note(condition: &ConditionReport) -> Option<String> {
    let (path, found) = (&condition.path, condition.found.as_ref()?);
    let wanted = deciding_value(condition);
    match condition.r#type.as_str() {
        "string" if condition.comparator == "!=" && condition.values.len() > 1 => Some(format!(
            "{path}: != holds as soon as one of its values does not match; to exclude all of them list one condition for each"
        )),
        "string" if condition.comparator == "=" => {
            let (open, whole) = (pattern::open(&wanted)?, pattern::whole(&wanted)?);
            Some(format!(
                "{path}: {wanted} {open}; to mean all of a text write {whole}"
            ))
        }
        "bool" if condition.comparator_ignored => Some(format!(
            "{path}: comparator {} does nothing for `type: bool`",
            condition.comparator
        )),
        "bool" if !matches!(found.kind, "True" | "False") => Some(format!(
            "{path}: {} is no boolean and counts as {}; a script can compare the original value",
            short(&found.raw),
            found.coerced
        )),
        "number" if found.kind != "Number" => Some(format!(
            "{path}: {} is no number and counts as {}",
            short(&found.raw),
            found.coerced
        )),
        _ => None,
    }
}

/// The listed value that settled a condition.
fn deciding_value(condition: &ConditionReport) -> String {
    let tried = condition
        .values
        .iter()
        .rev()
        .find(|value| value.outcome != Outcome::NotReached);
    tried.map_or_else(String::new, |value| value.value.clone())
}

/// Hints for an object or a call that cannot be built.
pub(super) fn building(error: &TriggerError, trigger: &Value, events: &Events) -> Vec<String> {
    match error {
        TriggerError::Parameter(error) | TriggerError::Call { error, .. } => match error {
            ParameterError::Unresolved(_) | ParameterError::Payload(_) => {
                vec![unresolved(trigger, events)]
            }
            ParameterError::Set(_) | ParameterError::Result(_) => {
                vec![
                    "correct the parameter's `dest`: it is a path into the object as sjson writes it"
                        .to_owned(),
                ]
            }
            _ => Vec::new(),
        },
        TriggerError::Crash(dependency) => {
            vec![format!(
                "give the `src` of dependency {dependency} a default `value`, or have `conditions` wait for {dependency}: without its event there is no value, and the whole Sensor ends where a payload or header needs one"
            )]
        }
        TriggerError::Operation(_) => {
            vec!["`operation` is one of create, update, patch, delete".to_owned()]
        }
        TriggerError::NoType(_) => {
            let kinds = KINDS.join(", ");
            vec![format!(
                "give the trigger's template one of {kinds}, in this spelling"
            )]
        }
        TriggerError::Name(_) => {
            vec![
                "give the object a `metadata.name`, and correct its `kind` where that is named"
                    .to_owned(),
            ]
        }
        _ => Vec::new(),
    }
}

/// The first parameter that has neither a value in its event nor a default.
fn unresolved(trigger: &Value, events: &Events) -> String {
    let of_kind = KINDS.iter().flat_map(|kind| {
        ["parameters", "payload", "dynamicHeaders"].map(|list| format!("/template/{kind}/{list}"))
    });
    let missing = std::iter::once("/parameters".to_owned())
        .chain(of_kind)
        .filter_map(|pointer| trigger.pointer(&pointer)?.as_array())
        .flatten()
        .filter_map(|parameter| parameter.get("src"))
        .filter(|source| source.get("value").is_none_or(Value::is_null))
        .find_map(|source| {
            let key = source
                .get("dataKey")?
                .as_str()
                .filter(|key| !key.is_empty())?;
            let event = events.get(source.get("dependencyName")?.as_str()?)?;
            let data = event.data.as_deref().unwrap_or_default();
            let hint = sent_as_form(data).unwrap_or_else(|| missing_path(key, data));
            (!near::exists(data, key)).then_some((key, hint))
        });
    match missing {
        Some((key, hint)) => format!(
            "parameter with dataKey {key}: {hint} If it is optional, give its `src` a default `value`"
        ),
        None => "correct the parameter's key or template, or give its `src` a default `value`"
            .to_owned(),
    }
}

/// A value for one line.
pub(super) fn short(text: &str) -> String {
    super::text::one_line(text, QUOTED)
}
