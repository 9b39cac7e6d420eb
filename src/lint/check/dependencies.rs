//! Dependencies: what each listens to and lets through.

use super::super::site::Site;
use super::data::{self, Condition};
use super::{Check, expressions, groups, script};

/// Checks all dependencies.
pub(super) fn check(check: &mut Check<'_>, spec: &Site<'_>) {
    let dependencies = spec.list("dependencies");
    for (place, dependency) in dependencies.iter().enumerate() {
        one(check, dependency);
        let name = dependency.text("name");
        let again = dependencies[..place]
            .iter()
            .any(|earlier| earlier.text("name") == name);
        if again && !name.is_empty() {
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

fn one(check: &mut Check<'_>, dependency: &Site<'_>) {
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
    if let Some(transform) = dependency.get("transform")
        && let Some(lua) = transform.get("script")
    {
        script::check_transform(check, &lua);
    }
    let Some(filters) = dependency.get("filters") else {
        return;
    };
    let all_groups = dependency.text("filtersLogicalOperator") != "or";
    let alternatives = filters.text("dataLogicalOperator") == "or";
    for entry in filters.list("data") {
        let mut condition = Condition::read(entry);
        let last = condition.path.rsplit('.').next().unwrap_or_default();
        condition.scripted =
            all_groups && !last.is_empty() && filters.text("script").contains(last);
        data::check(check, &condition, source, alternatives);
    }
    for entry in filters.list("exprs") {
        expressions::check(check, &entry, source);
    }
    if let Some(lua) = filters.get("script") {
        script::check(check, &lua);
    }
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
