//! How conditions and groups are put together: operators, OR, errors across groups, groups that are empty.

use serde_json::{Value, json};

use super::super::site::Site;
use super::super::tree::Kind;
use super::data::Condition;
use super::trial::{self, MOST_TRIALS, document, passes};
use super::{Check, short};
use crate::sensor::number::{parse_bool, parse_float};
use crate::sensor::{Group, Outcome};

/// Checks the groups of a dependency.
pub(super) fn check(check: &mut Check<'_>, dependency: &Site<'_>) {
    operator(check, dependency, "filtersLogicalOperator");
    empty(check, dependency);
    let Some(filters) = dependency.get("filters") else {
        return;
    };
    operator(check, &filters, "dataLogicalOperator");
    operator(check, &filters, "exprLogicalOperator");
    empty_lists(check, dependency, &filters);
    if filters.text("dataLogicalOperator") == "or" {
        widens(check, &filters);
    }
    if dependency.text("filtersLogicalOperator") == "or" {
        errors_across(check, dependency, &filters);
    }
}

fn operator(check: &mut Check<'_>, owner: &Site<'_>, key: &str) {
    let Some(site) = owner.get(key) else {
        return;
    };
    let Some(text) = site
        .node
        .text()
        .filter(|text| !matches!(*text, "" | "and" | "or"))
    else {
        return;
    };
    let meant = match text.trim().to_ascii_lowercase().as_str() {
        "or" | "||" | "any" => Some("or"),
        "and" | "&&" | "all" => Some("and"),
        _ => None,
    };
    let fix =
        meant.and_then(|meant| check.text_fix(&site, meant, format!("write `{meant}`"), true));
    let finding = check.report(
        "unknown-operator",
        &site,
        format!(
            "the controller refuses `{}`, so the Sensor never goes live with this edit: its old filters go on",
            short(text)
        ),
    );
    finding.meant = Some(format!(
        "`{}`, in lower case",
        meant.unwrap_or("and` or `or")
    ));
    finding.fix = fix;
}

/// `filters` that are written and hold nothing.
fn empty(check: &mut Check<'_>, dependency: &Site<'_>) {
    let Kind::Map(entries) = &dependency.node.kind else {
        return;
    };
    let Some(entry) = entries.iter().rev().find(|entry| entry.key == "filters") else {
        return;
    };
    let is_or = dependency.text("filtersLogicalOperator") == "or";
    let nothing = match &entry.value.kind {
        Kind::Scalar(Value::Null) => Some(true),
        // With OR a group has to hold, and there is none.
        Kind::Map(members) => members
            .iter()
            .all(|member| member.value.is_null())
            .then_some(!is_or),
        _ => None,
    };
    if let Some(passes) = nothing {
        let site = Site {
            node: &entry.value,
            path: format!("{}.filters", dependency.path),
            key_mark: Some(&entry.key_mark),
        };
        let finding = check.report_key(
            "empty-filters",
            &site,
            if passes {
                "`filters` is empty, so every event passes"
            } else {
                "`filters` is empty and `filtersLogicalOperator` is `or`: no group holds, so every event is dropped"
            },
        );
        finding.meant = Some("a filter in it; without one, leave `filters` out".to_owned());
    }
}

/// Lists with nothing in them, which the controller leaves out when it makes the Sensor's pod.
fn empty_lists(check: &mut Check<'_>, dependency: &Site<'_>, filters: &Site<'_>) {
    let is_empty =
        |site: &Site<'_>| matches!(&site.node.kind, Kind::List(items) if items.is_empty());
    let groups = ["data", "exprs", "context", "time"].into_iter();
    let others = groups
        .filter_map(|key| filters.get(key))
        .any(|site| !is_empty(&site))
        || !filters.text("script").is_empty();
    let is_or = dependency.text("filtersLogicalOperator") == "or";
    let so = match (others, is_or) {
        (true, _) => "the other groups decide as if it were not there",
        (false, false) => "nothing else is asked, so every event passes",
        (false, true) => {
            "with `filtersLogicalOperator: or` no group holds, so every event is dropped"
        }
    };
    for key in ["data", "exprs"] {
        if let Some(site) = filters.get(key)
            && is_empty(&site)
        {
            let finding = check.report_key(
                "empty-filters",
                &site,
                format!(
                    "`{key}` is empty, and the controller hands no empty list to the Sensor's pod: {so}"
                ),
            );
            finding.meant = Some("a condition in it; without one, leave it out".to_owned());
        }
    }
}

/// With OR, a condition that says nothing of the event's kind is enough by itself.
fn widens(check: &mut Check<'_>, filters: &Site<'_>) {
    let conditions: Vec<Condition<'_>> = filters
        .list("data")
        .into_iter()
        .map(Condition::read)
        .collect();
    let kind = conditions
        .iter()
        .find(|condition| condition.kind == "string" && matches!(condition.comparator, "" | "="));
    let Some(kind) = kind else {
        return;
    };
    if conditions.len() > MOST_TRIALS {
        return;
    }
    for condition in &conditions {
        if !matches!(condition.kind, "bool" | "number") || condition.path == kind.path {
            continue;
        }
        let alone = satisfying(condition)
            .and_then(|value| document(condition.path, &value))
            .and_then(|data| trial::explain(&group(filters, "data"), "", &data))
            .is_some_and(|why| why.passed);
        if alone {
            let finding = check.report(
                "or-widens",
                &condition.part("path"),
                format!(
                    "with `dataLogicalOperator: or`, `{}` alone lets an event through, whatever `{}` is",
                    short(condition.path),
                    short(kind.path)
                ),
            );
            finding.meant =
                Some("`and`; several values of one field are already alternatives".to_owned());
        }
    }
}

/// The filters with one group only.
fn group(filters: &Site<'_>, key: &str) -> Value {
    let all = filters.json();
    let operator = format!(
        "{}LogicalOperator",
        if key == "data" { "data" } else { "expr" }
    );
    json!({ key: all[key], operator.as_str(): all[operator.as_str()] })
}

/// A value that a condition lets through.
fn satisfying(condition: &Condition<'_>) -> Option<Value> {
    let texts = condition.texts();
    let listed = texts.iter().flat_map(|text| {
        let number = parse_float(text.as_bytes()).ok();
        let numbers = number.map(|number| [number, number + 1.0, number - 1.0]);
        let numbers = numbers.into_iter().flatten().map(|number| json!(number));
        let flag = parse_bool(text.as_bytes()).ok().map(|flag| json!(flag));
        if condition.kind == "bool" {
            flag.into_iter().collect::<Vec<_>>()
        } else {
            numbers.collect()
        }
    });
    let mut listed = listed.take(MOST_TRIALS);
    listed.find(|value| passes(condition.kind, condition.comparator, &texts, value))
}

/// With OR between the groups, an error in one drops the event though another holds.
fn errors_across(check: &mut Check<'_>, dependency: &Site<'_>, filters: &Site<'_>) {
    let Some(why) = trial::explain(&filters.json(), "or", r#"{"header":{},"body":{}}"#) else {
        return;
    };
    if why.groups.len() < 2 {
        return;
    }
    let erring: Vec<&str> = why
        .groups
        .iter()
        .filter(|group| group.outcome == Outcome::Error)
        .map(|group| match group.group {
            Group::Exprs => "exprs",
            Group::Data => "data",
            Group::Context => "context",
            Group::Time => "time",
            Group::Script => "script",
        })
        .collect();
    if erring.is_empty() {
        return;
    }
    let site = dependency
        .get("filtersLogicalOperator")
        .unwrap_or_else(|| dependency.clone());
    let finding = check.report(
        "error-across-groups",
        &site,
        format!(
            "an error in one group drops the event though another group holds; a missing field is such an error in {}",
            erring.join(" and ")
        ),
    );
    finding.meant = Some(
        "one group: conditions under `dataLogicalOperator: or` survive each other's errors; or a script that allows for absent fields".to_owned(),
    );
}
