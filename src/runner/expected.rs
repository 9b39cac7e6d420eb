//! Which consumers a Sensor must have: one durable per trigger and distinct subject.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// One subscription that a Sensor's spec asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subscription {
    pub trigger: String,
    pub subject: String,
    pub durable: String,
}

/// The subscriptions of a Sensor object. Two dependencies on one event share a consumer, which is named after the last
/// of them in the trigger's expression (`pkg/eventbus/jetstream/sensor/trigger_conn.go`).
#[must_use]
pub fn subscriptions(sensor: &Value) -> Vec<Subscription> {
    let name = text(sensor, "/metadata/name");
    let dependencies = dependencies(sensor);
    let mut result = Vec::new();
    for trigger in triggers(sensor) {
        let trigger_name = text(trigger, "/template/name");
        let mut durables: BTreeMap<&str, String> = BTreeMap::new();
        for (dependency, subject) in listened(trigger, &dependencies) {
            durables.insert(subject, durable(name, trigger_name, dependency));
        }
        result.extend(durables.into_iter().map(|(subject, durable)| Subscription {
            trigger: trigger_name.to_owned(),
            subject: subject.to_owned(),
            durable,
        }));
    }
    result
}

/// How many dependencies of a trigger are on one subject: each judges a message by itself.
#[must_use]
pub fn judges(sensor: &Value, trigger: &str, subject: &str) -> usize {
    let dependencies = dependencies(sensor);
    let of_name = triggers(sensor).filter(|one| text(one, "/template/name") == trigger);
    let names: BTreeSet<&str> = of_name
        .flat_map(|trigger| listened(trigger, &dependencies))
        .filter(|(_, on)| *on == subject)
        .map(|(dependency, _)| dependency)
        .collect();
    names.len()
}

fn triggers(sensor: &Value) -> impl Iterator<Item = &Value> {
    let list = sensor.pointer("/spec/triggers").and_then(Value::as_array);
    list.into_iter().flatten()
}

fn text<'v>(value: &'v Value, place: &str) -> &'v str {
    let found = value.pointer(place).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// Dependencies that a trigger listens to, in the order of its expression, each with its subject.
fn listened<'a>(
    trigger: &'a Value,
    dependencies: &'a [(String, String)],
) -> Vec<(&'a str, &'a str)> {
    wanted(text(trigger, "/template/conditions"), dependencies)
        .into_iter()
        .filter_map(|name| {
            let known = dependencies.iter().find(|(known, _)| known == name)?;
            Some((name, known.1.as_str()))
        })
        .collect()
}

/// Name and subject of each dependency.
fn dependencies(sensor: &Value) -> Vec<(String, String)> {
    let list = sensor.pointer("/spec/dependencies");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.map(|dependency| {
        let (source, event) = (
            text(dependency, "/eventSourceName"),
            text(dependency, "/eventName"),
        );
        let name = text(dependency, "/name").to_owned();
        (name, format!("default.{source}.{event}"))
    })
    .collect()
}

/// Dependency names in the order of the expression; without conditions all of them.
fn wanted<'a>(conditions: &'a str, dependencies: &'a [(String, String)]) -> Vec<&'a str> {
    if conditions.trim().is_empty() {
        return dependencies.iter().map(|(name, _)| name.as_str()).collect();
    }
    conditions
        .split(|character: char| {
            !(character.is_alphanumeric() || matches!(character, '-' | '_' | '.'))
        })
        .filter(|name| !name.is_empty())
        .collect()
}

/// `group-` and FNV-1a (32 bit, decimal) of `sensor-trigger-dependency`.
fn durable(sensor: &str, trigger: &str, dependency: &str) -> String {
    let hash = format!("{sensor}-{trigger}-{dependency}")
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
    format!("group-{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_dependencies_on_one_event_share_a_consumer() {
        let sensor = json!({"metadata": {"name": "s"}, "spec": {
            "dependencies": [
                {"name": "a", "eventSourceName": "o", "eventName": "e"},
                {"name": "b", "eventSourceName": "o", "eventName": "e"},
                {"name": "c", "eventSourceName": "o", "eventName": "f"}],
            "triggers": [{"template": {"name": "t", "conditions": "(b || a) && c"}}, {"template": {"name": "u", "conditions": "c"}}]}});
        let all = subscriptions(&sensor);
        assert_eq!(
            all.iter()
                .map(|one| (one.trigger.as_str(), one.subject.as_str()))
                .collect::<Vec<_>>(),
            [
                ("t", "default.o.e"),
                ("t", "default.o.f"),
                ("u", "default.o.f")
            ]
        );
        assert_eq!(all[0].durable, durable("s", "t", "a"));
        let on_e = |trigger| judges(&sensor, trigger, "default.o.e");
        assert_eq!((on_e("t"), on_e("u"), on_e("none")), (2, 0, 0));
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // The FNV vector of `order-1001.charge` (reference: Argo's node ids use the same hash).
        let hash = "order-1001.charge"
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            });
        assert_eq!(hash, 2_403_314_230);
    }
}
