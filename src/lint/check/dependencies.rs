//! Dependencies: what each listens to and lets through.

use std::collections::BTreeSet;

use super::super::site::Site;
use super::data::{self, Condition};
use super::{Check, expressions, groups, parameters, script, short};
use crate::sensor::transform::Transform;

/// Checks all dependencies.
pub(super) fn check(check: &mut Check<'_>, spec: &Site<'_>) {
    let dependencies = spec.list("dependencies");
    let defaults = parameters::with_defaults(spec);
    let mut names = BTreeSet::new();
    for dependency in &dependencies {
        let name = dependency.text("name");
        let optional = defaults.get(name).map_or(&[][..], Vec::as_slice);
        one(check, dependency, optional);
        if !names.insert(name) && !name.is_empty() {
            let site = dependency.get("name").unwrap_or_else(|| dependency.clone());
            let finding = check.report(
                "duplicate-dependency",
                &site,
                format!("two dependencies are named `{name}`, and only the last one counts"),
            );
            finding.meant = Some("a name of its own for each".to_owned());
        }
    }
}

/// A path that is absent in some events, as a parameter has a default for it, under conditions that must all hold.
fn optional_field(check: &mut Check<'_>, site: &Site<'_>, path: &str, optional: &[&str]) {
    if !optional.contains(&path) {
        return;
    }
    let finding = check.report(
        "missing-field",
        site,
        format!(
            "an event without `{}` is dropped with an error before any trigger runs, though a parameter has a default for it",
            short(path)
        ),
    );
    finding.meant = Some(
        "if the field may be absent, let a script decide, or list the condition under `or`; if not, no default"
            .to_owned(),
    );
}

/// The program that counts, which is jq where both are given.
fn transforms(check: &mut Check<'_>, transform: &Site<'_>) {
    let jq = transform.get("jq");
    let Some(jq) = jq.filter(|jq| jq.node.text().is_some_and(|text| !text.is_empty())) else {
        if let Some(lua) = transform.get("script") {
            script::check_transform(check, &lua);
        }
        return;
    };
    let compiled = Transform::compile(Some(&transform.json()));
    let Ok(Some(compiled)) = compiled else { return };
    if let Some(error) = compiled.unreadable() {
        let finding = check.report(
            "bad-transform",
            &jq,
            format!("every event is gone before the filters see it: {error}"),
        );
        finding.meant = Some("try it as `jq PROGRAM` on an event's data".to_owned());
    }
}

fn one(check: &mut Check<'_>, dependency: &Site<'_>, optional: &[&str]) {
    let source = check.world.source_kind(
        check.namespace,
        dependency.text("eventSourceName"),
        dependency.text("eventName"),
    );
    // A transform puts anything anywhere.
    let transformed = dependency.get("transform").is_some();
    let source = if transformed {
        Some("transform")
    } else {
        source
    };
    groups::check(check, dependency);
    if let Some(transform) = dependency.get("transform") {
        transforms(check, &transform);
    }
    let Some(filters) = dependency.get("filters") else {
        return;
    };
    let all_groups = dependency.text("filtersLogicalOperator") != "or";
    let alternatives = filters.text("dataLogicalOperator") == "or";
    let lua = filters.text("script");
    for entry in filters.list("data") {
        let mut condition = Condition::read(entry);
        let last = condition.path.rsplit('.').next().unwrap_or_default();
        condition.scripted = all_groups && speaks_of(lua, last);
        let told = check.found.len();
        data::check(check, &condition, source, alternatives);
        let mut new = check.found[told..].iter();
        if !alternatives && !new.any(|finding| finding.rule == "missing-field") {
            optional_field(check, &condition.part("path"), condition.path, optional);
        }
    }
    let one_of_exprs = filters.text("exprLogicalOperator") == "or";
    for entry in filters.list("exprs") {
        expressions::check(check, &entry, source);
        for path in entry
            .list("fields")
            .iter()
            .filter_map(|field| field.get("path"))
        {
            if !one_of_exprs {
                optional_field(check, &path, path.node.text().unwrap_or_default(), optional);
            }
        }
    }
    if let Some(lua) = filters.get("script") {
        script::check(check, &lua, all_groups);
    }
    context_patterns(check, &filters);
    for ignored in ["id", "specversion", "time"] {
        if let Some(site) = filters
            .get("context")
            .and_then(|context| context.get(ignored))
        {
            let finding = check.report_key(
                "context-ignored",
                &site,
                format!("`{ignored}` is not compared; only type, subject, source and datacontenttype are"),
            );
            finding.meant = Some("leave it out".to_owned());
        }
    }
}

/// Whether a script names a field.
fn speaks_of(script: &str, field: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    if field.chars().all(in_word) {
        let mut words = script.split(|c: char| !in_word(c));
        !field.is_empty() && words.any(|word| word == field)
    } else {
        script.contains(field)
    }
}

/// Attributes of the context that are written as patterns, and compared as texts.
fn context_patterns(check: &mut Check<'_>, filters: &Site<'_>) {
    let Some(context) = filters.get("context") else {
        return;
    };
    for key in ["type", "subject", "source", "datacontenttype"] {
        let Some(site) = context.get(key) else {
            continue;
        };
        let text = context.text(key);
        let pattern = text.contains('*') && key != "datacontenttype"
            || text.starts_with('^')
            || text.ends_with('$');
        if pattern {
            let finding = check.report(
                "context-pattern",
                &site,
                format!(
                    "attributes are compared as texts, so only an event whose {key} is `{}`, sign by sign, passes",
                    short(text)
                ),
            );
            finding.meant = Some(format!(
                "the {key} itself, or no `{key}` here: the dependency's own names tell the source already"
            ));
        }
    }
}
