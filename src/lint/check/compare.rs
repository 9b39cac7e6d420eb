//! Type, comparator and values of a data filter.

use serde_json::{Value, json};

use super::data::Condition;
use super::patterns::position;
use super::trial::{self, MOST_TRIALS, passes};
use super::{Check, short};
use crate::sensor::number::{format_plain, parse_bool, parse_float};

/// Checks how an entry compares; with `alternatives` one entry of the list is enough.
pub(super) fn check(check: &mut Check<'_>, condition: &Condition<'_>, alternatives: bool) {
    if !matches!(
        condition.comparator,
        "" | ">=" | ">" | "=" | "!=" | "<" | "<="
    ) {
        return unknown_comparator(check, condition);
    }
    match condition.kind {
        "" => {}
        "bool" => boolean(check, condition),
        "number" => number(check, condition),
        "string" => string(check, condition),
        _ => return unknown_type(check, condition),
    }
    if condition.kind != "bool" && condition.comparator == "!=" && condition.values.len() > 1 {
        not_equal_list(check, condition);
    }
    if !alternatives {
        missing(check, condition);
    }
}

fn unknown_comparator(check: &mut Check<'_>, condition: &Condition<'_>) {
    let site = condition.part("comparator");
    let written = condition.comparator.trim();
    let meant = match written.to_ascii_lowercase().as_str() {
        "=" | "==" | "===" | "eq" | "is" | "equals" => Some("="),
        "!=" | "<>" | "!==" | "ne" | "neq" | "not" => Some("!="),
        ">" | "gt" => Some(">"),
        "<" | "lt" => Some("<"),
        ">=" | "=>" | "ge" | "gte" | "≥" => Some(">="),
        "<=" | "=<" | "le" | "lte" | "≤" => Some("<="),
        _ => None,
    };
    let fix =
        meant.and_then(|meant| check.text_fix(&site, meant, format!("write `{meant}`"), true));
    let finding = check.report(
        "unknown-comparator",
        &site,
        format!(
            "the controller refuses comparator `{}`, so the Sensor never goes live with this edit: its old filters go on",
            short(condition.comparator)
        ),
    );
    finding.meant = Some(meant.map_or_else(
        || "one of =, !=, <, <=, >, >=".to_owned(),
        |meant| format!("`{meant}`"),
    ));
    finding.fix = fix;
}

fn unknown_type(check: &mut Check<'_>, condition: &Condition<'_>) {
    let site = condition.part("type");
    let meant = match condition.kind.trim().to_ascii_lowercase().as_str() {
        "bool" | "boolean" => Some("bool"),
        "number" | "int" | "integer" | "float" | "float64" | "double" | "numeric" | "num"
        | "long" => Some("number"),
        "string" | "str" | "text" | "regex" => Some("string"),
        _ => None,
    };
    let fix =
        meant.and_then(|meant| check.text_fix(&site, meant, format!("write `{meant}`"), true));
    let finding = check.report(
        "unknown-type",
        &site,
        format!(
            "the Sensor goes live, and every event that has `{}` is dropped with an error: type `{}` does not exist",
            short(condition.path),
            short(condition.kind)
        ),
    );
    finding.meant = Some(meant.map_or_else(
        || "one of bool, number, string".to_owned(),
        |meant| format!("`{meant}`"),
    ));
    finding.fix = fix;
}

/// Values that cannot be read, with their place in the list.
fn unparsable(
    check: &mut Check<'_>,
    condition: &Condition<'_>,
    reads: impl Fn(&str) -> bool,
    better: impl Fn(&str) -> Option<(&'static str, bool)>,
) -> bool {
    let mut all = true;
    for (place, (text, site)) in condition.values.iter().enumerate() {
        if text.is_empty() || reads(text) {
            continue;
        }
        all = false;
        let better = better(text);
        let fix = better
            .and_then(|(text, safe)| check.text_fix(site, text, format!("write \"{text}\""), safe));
        let before = if place > 0 {
            "; an event that matches a value before it passes"
        } else {
            ""
        };
        let finding = check.report(
            "unparsable-value",
            site,
            format!(
                "{} `{}` is no {}: every event that reaches it is dropped with an error{before}",
                position(place, condition.values.len()),
                short(text),
                condition.kind
            ),
        );
        finding.meant = better.map(|(text, _)| format!("\"{text}\""));
        finding.fix = fix;
    }
    all
}

fn boolean(check: &mut Check<'_>, condition: &Condition<'_>) {
    let reads = |text: &str| parse_bool(text.as_bytes()).is_ok();
    let better = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
        "true" => Some(("true", true)),
        "false" => Some(("false", true)),
        "yes" | "on" | "y" => Some(("true", false)),
        "no" | "off" | "n" => Some(("false", false)),
        _ => None,
    };
    if !unparsable(check, condition, reads, better) || condition.values.is_empty() {
        return;
    }
    if !matches!(condition.comparator, "" | "=") {
        let site = condition.part("comparator");
        let finding = check.report(
            "comparator-ignored",
            &site,
            format!(
                "comparator `{}` does nothing for `type: bool`: a value that equals `{}` passes",
                condition.comparator,
                condition.texts().join("` or `")
            ),
        );
        finding.meant = Some("the other value, without a comparator".to_owned());
    }
    if condition.scripted {
        return;
    }
    let made_up = [
        json!("true"),
        json!("1"),
        json!(2),
        json!(null),
        json!("yes"),
        json!("n/a"),
        json!({}),
        json!([true]),
    ];
    let accepted = accepted(condition, &made_up);
    let site = condition.part("value");
    if accepted.iter().any(|value| value == "null") {
        let finding = check.report(
            "bool-false-accepts-anything",
            &site,
            format!(
                "everything that does not read as true counts as false, so these pass, too: {}",
                accepted.join(", ")
            ),
        );
        finding.meant = Some(
            "compare the original value in a script: `return event.body.x == false`".to_owned(),
        );
    } else if !accepted.is_empty() {
        let finding = check.report(
            "bool-accepts-text",
            &site,
            format!(
                "the event's value is converted first, so these pass as true, too: {}",
                accepted.join(", ")
            ),
        );
        finding.meant = Some(
            "if only the boolean counts, compare it in a script: `return event.body.x == true`"
                .to_owned(),
        );
    }
}

/// The values that a condition lets through, as JSON.
fn accepted(condition: &Condition<'_>, values: &[Value]) -> Vec<String> {
    let texts = condition.texts();
    values
        .iter()
        .filter(|value| passes(condition.kind, condition.comparator, &texts, value))
        .map(Value::to_string)
        .collect()
}

fn number(check: &mut Check<'_>, condition: &Condition<'_>) {
    let reads = |text: &str| parse_float(text.as_bytes()).is_ok();
    let readable = unparsable(check, condition, reads, |_| None);
    if !readable || condition.values.is_empty() || condition.scripted {
        return;
    }
    let accepted = accepted(
        condition,
        &[
            json!("n/a"),
            json!(null),
            json!("150 EUR"),
            json!(""),
            json!({}),
        ],
    );
    if !accepted.is_empty() {
        let finding = check.report(
            "number-accepts-text",
            &condition.part("value"),
            format!(
                "what is no number counts as 0, and 0 passes here, so these pass, too: {}",
                accepted.join(", ")
            ),
        );
        finding.meant = Some(
            "check the type in a script (`type(event.body.x) == \"number\"`), or add a lower bound above 0"
                .to_owned(),
        );
    } else if !condition.templated {
        converts(check, condition);
    }
}

/// Texts that read as numbers, and `true`, which counts as 1.
fn converts(check: &mut Check<'_>, condition: &Condition<'_>) {
    let numbers = condition
        .texts()
        .into_iter()
        .filter_map(|text| parse_float(text.as_bytes()).ok())
        .flat_map(|number| [number, number + 1.0, number - 1.0]);
    let texts = numbers.map(|number| json!(format_plain(number))).take(3);
    let mut made_up: Vec<Value> = texts.collect();
    made_up.push(json!(true));
    let mut accepted = accepted(condition, &made_up);
    // One text is example enough.
    let text = accepted.iter().find(|value| *value != "true").cloned();
    accepted.retain(|value| value == "true" || Some(value) == text.as_ref());
    if accepted.is_empty() {
        return;
    }
    let finding = check.report(
        "number-converts",
        &condition.part("value"),
        format!(
            "the event's value is converted first, so these pass, too: {}",
            accepted.join(", ")
        ),
    );
    finding.meant = Some(
        "if only a number counts, ask for the type in a script: `type(event.body.x) == \"number\"`"
            .to_owned(),
    );
}

fn string(check: &mut Check<'_>, condition: &Condition<'_>) {
    if matches!(condition.comparator, "" | "=" | "!=") {
        return;
    }
    let site = condition.part("comparator");
    let numbers = condition
        .values
        .iter()
        .all(|(text, _)| parse_float(text.as_bytes()).is_ok());
    let kind = condition.part("type");
    let fix = numbers
        .then(|| check.text_fix(&kind, "number", "write `type: number`", true))
        .flatten();
    let finding = check.report(
        "comparator-never-true",
        &site,
        format!(
            "comparator `{}` never holds for `type: string`, so no event passes",
            condition.comparator
        ),
    );
    finding.meant = Some(if numbers {
        "`type: number`".to_owned()
    } else {
        "`=` or `!=`; text has no order here".to_owned()
    });
    finding.fix = fix;
}

fn not_equal_list(check: &mut Check<'_>, condition: &Condition<'_>) {
    let texts = condition.texts();
    let value_of = |text: &str| match condition.kind {
        "number" => parse_float(text.as_bytes())
            .ok()
            .map(|number| json!(number)),
        _ => {
            let bare = text.trim_start_matches('^').trim_end_matches('$');
            Some(json!(bare.replace('\\', "")))
        }
    };
    let listed = texts.iter().take(MOST_TRIALS).find_map(|text| {
        let value = value_of(text)?;
        passes(condition.kind, "!=", &texts, &value).then_some(value)
    });
    let Some(listed) = listed else {
        return;
    };
    let finding = check.report(
        "not-equal-list",
        &condition.part("value"),
        format!(
            "`!=` holds as soon as one of the values differs, so {listed} passes though it is listed"
        ),
    );
    finding.meant = Some(if condition.kind == "string" {
        let bare: Vec<&str> = texts
            .iter()
            .map(|text| text.trim_start_matches('^').trim_end_matches('$'))
            .collect();
        format!("one pattern: `^({})$`", bare.join("|"))
    } else {
        "one condition for each value".to_owned()
    });
}

/// Conditions that read as if a missing field met them.
fn missing(check: &mut Check<'_>, condition: &Condition<'_>) {
    let says = match condition.kind {
        "bool"
            if condition
                .texts()
                .iter()
                .all(|text| parse_bool(text.as_bytes()) == Ok(false)) =>
        {
            "is not false"
        }
        "string" | "number" if condition.comparator == "!=" => "does not count as different",
        "string" if condition.texts().contains(&"^$") => "is not empty",
        _ => return,
    };
    if condition.values.is_empty() || condition.templated {
        return;
    }
    let filters = json!({ "data": [condition.site.json()] });
    let dropped = trial::explain(&filters, "", r#"{"header":{},"body":{}}"#).is_some_and(|why| {
        why.error
            .is_some_and(|error| error.contains("does not exist"))
    });
    if dropped {
        let finding = check.report(
            "missing-field",
            &condition.part("path"),
            format!(
                "an event without `{}` is dropped with an error: a field that is not there {says}",
                short(condition.path)
            ),
        );
        finding.meant = Some(
            "if the field may be absent, let a script decide, or list the condition under `or`"
                .to_owned(),
        );
    }
}
