//! From manifest texts to the objects of an attempt: dependencies are renamed, so that each attempt starts fresh; and what
//! was changed in the texts.
//!
//! Buckets and consumers outlive Sensors. A new dependency name makes Argo itself start with a new consumer, on both
//! clusters alike.

use std::collections::BTreeMap;

use serde_json::Value;
use similar::TextDiff;

use crate::cluster::Manifest;

/// Longest diff of a file that goes into the journal, in bytes: manifests are pages, not books.
const LONGEST_CHANGE: usize = 16 * 1024;
/// Unchanged lines around a change.
const AROUND: usize = 2;

/// What was changed in a file before it was applied, as a unified diff; empty where nothing was.
#[must_use]
pub fn change(file: &str, original: &str, text: &str) -> String {
    if original == text {
        return String::new();
    }
    let mut diff = TextDiff::from_lines(original, text)
        .unified_diff()
        .context_radius(AROUND)
        .header(file, &format!("{file} (applied)"))
        .to_string();
    if diff.len() > LONGEST_CHANGE {
        let end = (0..=LONGEST_CHANGE)
            .rev()
            .find(|end| diff.is_char_boundary(*end));
        diff.truncate(end.unwrap_or_default());
        diff.push_str("\n… the rest is left out\n");
    }
    diff
}

/// Kinds that take part in what becomes of an order: one more of them would act beside the lab's own.
const ACTING: [&str; 11] = [
    "CronWorkflow",
    "DaemonSet",
    "Deployment",
    "EventBus",
    "EventSource",
    "Job",
    "Pod",
    "ReplicaSet",
    "Sensor",
    "StatefulSet",
    "Workflow",
];

/// Titles that an error lists.
const LISTED: usize = 4;

/// Why an edited file cannot be judged as an edit of the lab's own: an object of that is not in it, so that what was
/// applied before would be judged, one is in it twice, or one more takes part.
#[must_use]
pub fn misfit(file: &str, original: &[Manifest], edited: &[Manifest]) -> Option<String> {
    let titles: Vec<String> = edited.iter().map(Manifest::title).collect();
    let missing = original
        .iter()
        .map(Manifest::title)
        .find(|title| !titles.contains(title));
    if let Some(title) = missing {
        return Some(format!(
            "{file} does not hold {title} (it holds {}): what is on the cluster of it is older than this edit and would be judged in its place. Put it back, under this kind and name",
            listed(&titles)
        ));
    }
    let twice = |(at, title): (usize, &String)| titles.iter().take(at).any(|one| one == title);
    if let Some(title) = titles.iter().enumerate().find(|one| twice(*one)) {
        return Some(format!(
            "{file} holds {} twice: the last one would be live; leave one of them",
            title.1
        ));
    }
    let known: Vec<String> = original.iter().map(Manifest::title).collect();
    let more = edited.iter().find(|one| {
        let kind = one.object.get("kind").and_then(Value::as_str);
        ACTING.contains(&kind.unwrap_or_default()) && !known.contains(&one.title())
    })?;
    Some(format!(
        "{file} holds {}, which the lab's file does not: it would act on the same orders beside the lab's own, and what is seen could not be told apart. Take it out, or try it on a cluster of its own (`eventlab --session NAME cluster start`)",
        more.title()
    ))
}

/// The first few of them.
fn listed(titles: &[String]) -> String {
    match titles {
        [] => "nothing".to_owned(),
        [first @ .., _] if first.len() >= LISTED => format!("{}, …", first[..LISTED].join(", ")),
        all => all.join(", "),
    }
}

/// Renames every dependency `NAME` of a Sensor to `NAME-SUFFIX` (the suffix is the attempt's, such as `filter-path-a3`), wherever the
/// Sensor names it.
pub fn rename_dependencies(manifest: &mut Manifest, suffix: &str) {
    if manifest.object.get("kind").and_then(Value::as_str) != Some("Sensor") {
        return;
    }
    let mut names = BTreeMap::new();
    if let Some(Value::Array(dependencies)) = manifest.object.pointer_mut("/spec/dependencies") {
        for dependency in dependencies {
            if let Some(Value::String(name)) = dependency.get_mut("name") {
                let renamed = format!("{name}-{suffix}");
                names.insert(std::mem::replace(name, renamed.clone()), renamed);
            }
        }
    }
    if let Some(triggers) = manifest.object.pointer_mut("/spec/triggers") {
        rename_in(triggers, &names);
    }
}

/// `dependencyName` and `conditions` anywhere below the triggers.
fn rename_in(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rename_in(item, names)),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match (key.as_str(), &mut *value) {
                    ("dependencyName", Value::String(name)) => {
                        if let Some(renamed) = names.get(name) {
                            renamed.clone_into(name);
                        }
                    }
                    ("conditions", Value::String(expression)) => {
                        *expression = rename_words(expression, names)
                    }
                    // A trigger's own source object is the user's: nothing in it names a dependency.
                    ("source", _) => {}
                    _ => rename_in(value, names),
                }
            }
        }
        _ => {}
    }
}

fn rename_words(expression: &str, names: &BTreeMap<String, String>) -> String {
    let mut result = String::with_capacity(expression.len());
    let mut word = String::new();
    let flush = |word: &mut String, result: &mut String| {
        result.push_str(
            names
                .get(word.as_str())
                .map_or(word.as_str(), String::as_str),
        );
        word.clear();
    };
    for character in expression.chars() {
        if character.is_alphanumeric() || matches!(character, '-' | '_' | '.') {
            word.push(character);
        } else {
            flush(&mut word, &mut result);
            result.push(character);
        }
    }
    flush(&mut word, &mut result);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_line_by_line_and_never_without_end() {
        assert_eq!(change("a.yaml", "x: 1\n", "x: 1\n"), "");
        let diff = change("a.yaml", "x: 1\ny: 2\n", "x: 3\ny: 2\n");
        for line in [
            "--- a.yaml",
            "+++ a.yaml (applied)",
            "-x: 1",
            "+x: 3",
            " y: 2",
        ] {
            assert!(diff.lines().any(|one| one == line), "{line}: {diff}");
        }
        let long = change("a.yaml", "", &"ä".repeat(LONGEST_CHANGE));
        assert!(long.len() < LONGEST_CHANGE + 100 && long.ends_with("left out\n"));
    }

    use serde_json::json;

    #[test]
    fn dependencies_are_renamed_wherever_the_sensor_names_them() {
        let mut manifest = Manifest {
            file: "f".into(),
            object: json!({"kind": "Sensor", "spec": {
                "dependencies": [{"name": "order", "eventName": "e"}, {"name": "order-b"}],
                "triggers": [{"template": {"conditions": "order && (order-b||other)", "k8s": {"source": {"resource": {"dependencyName": "order"}},
                    "parameters": [{"src": {"dependencyName": "order"}}, {"src": {"dependencyName": "order-b"}}]}},
                    "parameters": [{"src": {"dependencyName": "order"}}]}]}}),
        };
        rename_dependencies(&mut manifest, "a3");
        assert_eq!(
            manifest.object,
            json!({"kind": "Sensor", "spec": {
                "dependencies": [{"name": "order-a3", "eventName": "e"}, {"name": "order-b-a3"}],
                "triggers": [{"template": {"conditions": "order-a3 && (order-b-a3||other)", "k8s": {"source": {"resource": {"dependencyName": "order"}},
                    "parameters": [{"src": {"dependencyName": "order-a3"}}, {"src": {"dependencyName": "order-b-a3"}}]}},
                    "parameters": [{"src": {"dependencyName": "order-a3"}}]}]}})
        );
    }

    #[test]
    fn any_shape_is_left_standing() {
        for object in [
            json!({"kind": "Sensor"}),
            json!({"kind": "Sensor", "spec": {"dependencies": 5, "triggers": "x"}}),
            json!({"kind": "Role"}),
        ] {
            let mut manifest = Manifest {
                file: "f".into(),
                object: object.clone(),
            };
            rename_dependencies(&mut manifest, "a1");
            assert_eq!(manifest.object, object);
        }
    }
}
