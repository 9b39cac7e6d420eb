//! What the real controller checks of an EventSource's webhooks; other kinds of sources do not run here.

use std::collections::BTreeSet;

use serde_json::Value;

use super::expression_objection;
use crate::kinds;

/// Checks the spec of the EventSource of that name.
///
/// # Errors
/// What its controller says against it.
pub fn validate(name: &str, spec: &Value) -> Result<(), String> {
    let sources = spec
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| kinds::EVENT_TYPES.contains(&field.as_str()));
    let mut names = BTreeSet::new();
    for (kind, events) in sources {
        for (event, source) in events.as_object().into_iter().flatten() {
            if !names.insert(event) {
                return Err(format!("more than one \"{event}\" found"));
            }
            if kind != "webhook" {
                return Err(format!(
                    "eventlab: spec.{kind} does not run on the embedded cluster; use a webhook, or a real cluster (--context)"
                ));
            }
            let filled = |field: &str| source[field].as_str().is_some_and(|text| !text.is_empty());
            let port = source["port"]
                .as_str()
                .is_some_and(|port| port.parse::<i64>().is_ok());
            if !filled("endpoint") || !port {
                return Err(format!("Invalid spec: {name} - {event}"));
            }
            // Said here rather than by a pod that does not start.
            if let Some(why) = source["filter"]["expression"]
                .as_str()
                .and_then(expression_objection)
            {
                return Err(why);
            }
        }
    }
    Ok(())
}
