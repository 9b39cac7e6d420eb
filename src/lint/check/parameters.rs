//! Parameters of triggers: where a value comes from, what stands in for it, where it goes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::site::Site;
use super::{Check, paths, short};
use crate::sensor::number::format_plain;
use crate::sensor::template::Template;
use crate::sensor::trigger::KINDS;

/// What a list of parameters belongs to.
pub(super) struct Owner<'a, 't> {
    /// The Sensor's dependencies.
    pub dependencies: &'a [Site<'t>],
    /// The object that the parameters change, where the Sensor has it.
    pub resource: Option<&'a Site<'t>>,
}

/// Checks a list of parameters.
pub(super) fn check(check: &mut Check<'_>, list: &[Site<'_>], owner: &Owner<'_, '_>) {
    for parameter in list {
        let Some(source) = parameter.get("src") else {
            continue;
        };
        dependency(check, parameter, &source, owner);
        if let Some(key) = source.get("dataKey") {
            let kind = source_kind(check, &source, owner);
            paths::check(check, &key, kind.as_deref());
        }
        if let Some(template) = source.get("dataTemplate") {
            check_template(check, &template);
            number(check, &template, &source, owner);
        }
        if let Some(template) = source.get("contextTemplate") {
            check_template(check, &template);
        }
        default(check, parameter, &source, owner);
        index(check, parameter, owner);
    }
}

fn find<'a, 't>(owner: &Owner<'a, 't>, name: &str) -> Option<&'a Site<'t>> {
    owner
        .dependencies
        .iter()
        .rev()
        .find(|dependency| dependency.text("name") == name)
}

fn source_kind(check: &Check<'_>, source: &Site<'_>, owner: &Owner<'_, '_>) -> Option<String> {
    let dependency = find(owner, source.text("dependencyName"))?;
    if dependency.get("transform").is_some() {
        return Some("transform".to_owned());
    }
    let (name, event) = (
        dependency.text("eventSourceName"),
        dependency.text("eventName"),
    );
    let kind = check.world.source_kind(check.namespace, name, event);
    kind.map(str::to_owned)
}

fn dependency(
    check: &mut Check<'_>,
    parameter: &Site<'_>,
    source: &Site<'_>,
    owner: &Owner<'_, '_>,
) {
    let Some(site) = source.get("dependencyName") else {
        return;
    };
    let name = source.text("dependencyName");
    if name.is_empty() || find(owner, name).is_some() {
        return;
    }
    let then = if source.get("value").is_some() {
        "its default is always used"
    } else if parameter.path.contains(".payload[") && !parameter.text("dest").is_empty() {
        "the payload has no value for it and the Sensor's pod ends with a nil pointer dereference as soon as the trigger acts"
    } else {
        "the parameter is skipped without a word"
    };
    let known: Vec<&str> = owner
        .dependencies
        .iter()
        .map(|dependency| dependency.text("name"))
        .collect();
    let finding = check.report(
        "unknown-dependency",
        &site,
        format!("no dependency is named `{}`, so {then}", short(name)),
    );
    finding.meant = Some(format!("one of {}", known.join(", ")));
}

/// Checks that a template can be read.
pub(super) fn check_template(check: &mut Check<'_>, site: &Site<'_>) {
    let Some(text) = site.node.text().filter(|text| !text.is_empty()) else {
        return;
    };
    // What Argo Events renders and this program does not says nothing against the template.
    if let Err(error) = Template::parse(text)
        && !error.is_own()
    {
        let finding = check.report(
            "bad-template",
            site,
            format!("the template cannot be read: {}", short(&error.to_string())),
        );
        finding.meant = Some("Go's text/template with sprig; the data is `.Input`".to_owned());
        return;
    }
    if let Some(name) = outside_input(text) {
        let finding = check.report(
            "template-data",
            site,
            format!(
                "a template's data has one name, `.Input`; there is no `.{}` in any event's",
                short(name)
            ),
        );
        finding.meant = Some(format!("`.Input.{name}`"));
    }
}

/// A name at the top of a template's data that is not there.
fn outside_input(text: &str) -> Option<&str> {
    let actions: Vec<&str> = text
        .split("{{")
        .skip(1)
        .filter_map(|rest| rest.split("}}").next())
        .filter(|action| !action.contains("/*"))
        .collect();
    // There the dot may be something else.
    let moves = |action: &&str| {
        if action.starts_with(['`', '"']) {
            return true;
        }
        let mut words = action.split(|c: char| !c.is_alphanumeric());
        words.any(|word| matches!(word, "range" | "with" | "define" | "block" | "template"))
    };
    if actions.iter().any(moves) {
        return None;
    }
    actions.into_iter().find_map(|action| {
        let mut before = ' ';
        let mut quote = None;
        for (at, c) in action.char_indices() {
            match quote {
                Some(open) if c == open && (before != '\\' || open == '`') => quote = None,
                Some(_) => {}
                None if matches!(c, '"' | '`' | '\'') => quote = Some(c),
                None if c == '.'
                    && (before.is_whitespace() || matches!(before, '(' | '-' | '|')) =>
                {
                    let name = &action[at + 1..];
                    let end = name
                        .find(|c: char| !c.is_alphanumeric() && c != '_')
                        .unwrap_or(name.len());
                    if end > 0
                        && &name[..end] != "Input"
                        && !name.starts_with(|c: char| c.is_ascii_digit())
                    {
                        return Some(&name[..end]);
                    }
                }
                None => {}
            }
            before = c;
        }
        None
    })
}

/// The one field that a template prints as it is.
fn printed_field(template: &str) -> Option<String> {
    let inner = template.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.trim_start_matches('-').trim_end_matches('-').trim();
    let path = inner.strip_prefix(".Input.")?;
    let plain = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
    plain.then(|| path.to_owned())
}

/// A number that a template prints with an exponent.
fn number(check: &mut Check<'_>, site: &Site<'_>, source: &Site<'_>, owner: &Owner<'_, '_>) {
    const LARGE: f64 = 1_234_567.0;
    let Some(text) = site.node.text() else {
        return;
    };
    let Some(path) = printed_field(text) else {
        return;
    };
    let names: Vec<&str> = path.split('.').collect();
    let data = names
        .iter()
        .rev()
        .fold(json!(LARGE), |inner, name| json!({ *name: inner }));
    let printed = Template::parse(text).and_then(|template| template.render(&data));
    let Ok(printed) = printed else {
        return;
    };
    let last = names.last().copied().unwrap_or_default();
    if printed == format_plain(LARGE) || !(numeric_name(last) || compared(owner, source, &path)) {
        return;
    }
    let fix = site.key_mark.and_then(|key| {
        let rename = check.replaced(key, "dataTemplate", "dataKey")?;
        let value = check.replaced(&site.node.mark, text, &path)?;
        Some(super::super::finding::Fix {
            title: format!("use `dataKey: {path}`"),
            safe: false,
            edits: vec![rename, value],
        })
    });
    let finding = check.report(
        "number-through-template",
        site,
        format!(
            "numbers are floating point in a template: 1234567 is printed as `{}`",
            short(&printed)
        ),
    );
    finding.meant = Some(format!(
        "`dataKey: {path}`, which keeps the digits as they are sent"
    ));
    finding.fix = fix;
}

/// Whether a field's name speaks of a number.
fn numeric_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [
        "amount",
        "count",
        "total",
        "price",
        "quantity",
        "qty",
        "number",
        "size",
        "cents",
        "timestamp",
    ]
    .iter()
    .any(|word| name.ends_with(word))
}

/// Whether a number filter of the dependency looks at the same field.
fn compared(owner: &Owner<'_, '_>, source: &Site<'_>, path: &str) -> bool {
    let data = find(owner, source.text("dependencyName"))
        .and_then(|dependency| dependency.get("filters"))
        .map_or_else(Vec::new, |filters| filters.list("data"));
    data.iter()
        .any(|entry| entry.text("type") == "number" && entry.text("path") == path)
}

/// A default where the value identifies something.
fn default(check: &mut Check<'_>, parameter: &Site<'_>, source: &Site<'_>, owner: &Owner<'_, '_>) {
    let Some(value) = source.get("value") else {
        return;
    };
    let looks = ["dataKey", "dataTemplate", "contextKey", "contextTemplate"]
        .iter()
        .any(|key| source.get(key).is_some());
    let destination = parameter.text("dest");
    let Some(what) = identity(destination, owner).filter(|_| looks) else {
        return;
    };
    let finding = check.report(
        "merging-default",
        &value,
        format!(
            "every event without this field becomes `{}` as {what}, so different ones are taken for the same",
            short(value.node.text().unwrap_or_default())
        ),
    );
    finding.meant = Some(
        "no default: the trigger then fails with an error that names the parameter".to_owned(),
    );
}

/// What a destination identifies, if it does.
fn identity(destination: &str, owner: &Owner<'_, '_>) -> Option<String> {
    let bare = destination
        .strip_prefix("k8s.source.resource.")
        .or_else(|| destination.strip_prefix("argoWorkflow.source.resource."))
        .unwrap_or(destination);
    if bare == "metadata.name" {
        return Some("the object's name".to_owned());
    }
    let rest = bare.strip_prefix("spec.arguments.parameters.")?;
    let index: usize = rest.strip_suffix(".value")?.parse().ok()?;
    let entry = owner
        .resource?
        .follow(&format!("spec.arguments.parameters[{index}]"));
    let name = entry.text("name");
    let lower = name.to_ascii_lowercase();
    let identifies = lower == "id"
        || lower == "key"
        || name.ends_with("Id")
        || name.ends_with("ID")
        || ["-id", "_id", "-key", "_key"]
            .iter()
            .any(|end| lower.ends_with(end));
    identifies.then(|| format!("`{name}`"))
}

/// A destination behind the end of the list in the Sensor.
fn index(check: &mut Check<'_>, parameter: &Site<'_>, owner: &Owner<'_, '_>) {
    let destination = parameter.text("dest");
    let Some(rest) = destination.strip_prefix("spec.arguments.parameters.") else {
        return;
    };
    let Some((index, field)) = rest.split_once('.') else {
        return;
    };
    let (Ok(index), Some(resource)) = (index.parse::<usize>(), owner.resource) else {
        return;
    };
    let entries = resource
        .at(&["spec", "arguments"])
        .map_or(0, |arguments| arguments.list("parameters").len());
    if field != "value" || index < entries {
        return;
    }
    let site = parameter.get("dest").unwrap_or_else(|| parameter.clone());
    let finding = check.report(
        "parameter-index",
        &site,
        format!(
            "the object in the Sensor has {entries} argument{}, so this makes an entry without a name",
            if entries == 1 { "" } else { "s" }
        ),
    );
    finding.meant = Some(
        "list the parameter by name under `spec.arguments.parameters` of the object in the Sensor"
            .to_owned(),
    );
}

/// The data keys that parameters have a default for, by dependency.
pub(super) fn with_defaults<'t>(spec: &Site<'t>) -> BTreeMap<&'t str, Vec<&'t str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for trigger in spec.list("triggers") {
        let mut lists = vec![trigger.list("parameters")];
        let template = trigger.get("template");
        for kind in KINDS {
            let acting = template.as_ref().and_then(|template| template.get(kind));
            lists.extend(acting.iter().map(|acting| acting.list("parameters")));
            lists.extend(acting.iter().map(|acting| acting.list("payload")));
        }
        let sources = lists.iter().flatten().filter_map(|one| one.get("src"));
        for source in sources.filter(|source| source.get("value").is_some()) {
            let key = source.text("dataKey");
            if !key.is_empty() {
                let dependency = source.text("dependencyName");
                found.entry(dependency).or_default().push(key);
            }
        }
    }
    found
}

/// Whether one of the parameters writes to a path of the object.
pub(super) fn writes(list: &[Site<'_>], path: &str) -> bool {
    list.iter().any(|parameter| {
        let destination = parameter.text("dest");
        destination == path || destination.ends_with(&format!("source.resource.{path}"))
    })
}

/// The text of an object's field.
pub(super) fn field<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
