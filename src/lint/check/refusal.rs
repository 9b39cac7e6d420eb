//! What the controller refuses or cannot decode, at the place that it is about.

use serde_json::{Value, json};

use super::super::finding::Fix;
use super::super::site::Site;
use super::super::tree::Kind;
use super::Check;
use crate::sensor::validate::{Condition, Invalid, validate};

/// Rules whose findings say already why the controller refuses.
const SAY_SO: [&str; 2] = ["unknown-comparator", "unknown-operator"];

/// Asks the controller's own checks.
pub(super) fn check(check: &mut Check<'_>, root: &Site<'_>) {
    let object = root.json();
    match validate(&object, &Value::Null, check.now) {
        Ok(()) => {}
        Err(Invalid::Decode(error)) => {
            let site = root.follow(&error.path);
            let fix = quoted(check, root, &site);
            let finding = check.report(
                "wrong-type",
                &site,
                format!(
                    "{} wants {}, and here is {}: the controller cannot decode the Sensor, so nothing of this edit goes live",
                    error.path, error.wanted, error.found
                ),
            );
            finding.meant = fix.as_ref().map(|fix| fix.title.clone());
            finding.fix = fix;
        }
        Err(Invalid::Refused {
            condition, message, ..
        }) => {
            if check
                .found
                .iter()
                .any(|finding| SAY_SO.contains(&finding.rule))
            {
                return;
            }
            let site = place(root, &object, condition, check.now);
            check.report(
                "refused",
                &site,
                format!(
                    "the controller refuses the Sensor ({}: {message}); its old Deployment goes on with the old filters",
                    condition.as_str()
                ),
            );
        }
    }
}

/// A fix that makes a text of a boolean or number: what its author wrote, which for `NO` and `y` is not what it was read as.
fn quoted(check: &Check<'_>, root: &Site<'_>, site: &Site<'_>) -> Option<Fix> {
    let Kind::Scalar(value @ (Value::Bool(_) | Value::Number(_))) = &site.node.kind else {
        return None;
    };
    let bytes = site.node.mark.bytes.clone();
    let shown = check.source.get(bytes.clone())?;
    let plain = shown
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_'));
    // A tag before it would make the same of the text again.
    let before = check
        .source
        .get(..bytes.start)?
        .split_whitespace()
        .next_back();
    let tagged = before.is_some_and(|word| word.contains("!!"));
    // Where a boolean is compared it is meant, and not every word for it is read there.
    let compared = site.path.rsplit_once(".value[");
    let text = match (value, compared) {
        (Value::Bool(truth), Some((condition, _)))
            if root.follow(condition).text("type") == "bool" =>
        {
            format!("\"{truth}\"")
        }
        _ => format!("\"{shown}\""),
    };
    (plain && !shown.is_empty() && !tagged).then(|| Fix {
        title: text.clone(),
        safe: true,
        edits: vec![super::Edit { bytes, text }],
    })
}

/// The smallest part that is refused when it is alone.
fn place<'t>(
    root: &Site<'t>,
    object: &Value,
    condition: Condition,
    now: jiff::Timestamp,
) -> Site<'t> {
    let list = match condition {
        Condition::DependenciesProvided => "dependencies",
        Condition::TriggersProvided => "triggers",
    };
    let spec = root.get("spec").unwrap_or_else(|| root.clone());
    let items = spec.list(list);
    let refused = |item: &Value| {
        let mut trial = object.clone();
        trial["spec"][list] = json!([item]);
        matches!(validate(&trial, &Value::Null, now), Err(Invalid::Refused { condition: found, .. }) if found == condition)
    };
    let Some(item) = items.iter().find(|item| refused(&item.json())) else {
        // Each is fine alone: it is the list, or the last one that repeats a name.
        return items
            .last()
            .filter(|_| items.len() > 1)
            .cloned()
            .or_else(|| spec.get(list))
            .unwrap_or(spec);
    };
    let Some(filters) = item.get("filters") else {
        return item.clone();
    };
    let with = |filters: Value| {
        let mut trial = item.json();
        trial["filters"] = filters;
        refused(&trial)
    };
    for group in ["exprs", "data"] {
        for entry in filters.list(group) {
            if with(json!({ group: [entry.json()] })) {
                return entry;
            }
        }
    }
    for group in ["context", "time"] {
        if let Some(site) = filters.get(group)
            && with(json!({ group: site.json() }))
        {
            return site;
        }
    }
    item.clone()
}
