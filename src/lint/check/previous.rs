//! What an edit leaves behind: triggers and dependencies that were there before.

use super::super::site::Site;
use super::Check;

fn names(spec: &Site<'_>) -> Vec<String> {
    let triggers = spec.list("triggers");
    triggers
        .iter()
        .filter_map(|trigger| Some(trigger.get("template")?.text("name").to_owned()))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Compares with the Sensor as it was.
pub(super) fn check(check: &mut Check<'_>, spec: &Site<'_>, before: &Site<'_>) {
    let Some(before) = before.get("spec") else {
        return;
    };
    let now = names(spec);
    for name in names(&before) {
        if now.contains(&name) {
            continue;
        }
        let site = spec.get("triggers").unwrap_or_else(|| spec.clone());
        let finding = check.report_key(
            "removed-trigger",
            &site,
            format!(
                "trigger `{name}` is gone, and its place on the bus stays: if it comes back with the same dependencies, it gets every event since then"
            ),
        );
        finding.meant = Some(
            "delete its consumers on the bus (`nats consumer rm default group-…`), or give it a new name when it comes back".to_owned(),
        );
    }
}
