//! Who owns which fields: `metadata.managedFields`.
//!
//! From above: [`apply`] merges a configuration into an object, [`created`] and [`track`] note what another kind of
//! write made or changed.

mod blank;
mod declared;
mod entries;
mod merge;
mod schema;
mod set;

use serde_json::{Map, Value, json};

use super::object;
use super::registry::Kind;
use super::status::Failure;
pub use declared::faults;
use entries::{Entries, Operation};
use set::FieldSet;

/// Who writes, by which means.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub manager: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
}

/// Fields that belong to nobody: the server sets them, or they name the object.
const UNOWNED: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The object without the fields that nobody owns.
fn ownable(object: &Value) -> Value {
    let Value::Object(map) = object else {
        return Value::Null;
    };
    let mut map = map.clone();
    map.retain(|key, _| key != "apiVersion" && key != "kind");
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        metadata.retain(|key, _| !UNOWNED.contains(&key.as_str()));
    }
    map.retain(|key, value| {
        key != "metadata"
            || value
                .as_object()
                .is_none_or(|metadata| !metadata.is_empty())
    });
    Value::Object(map)
}

/// Applies a configuration to an object (`None`: it is new): what the manager applied before and no longer names goes,
/// unless somebody else owns it.
///
/// # Errors
/// 409 when another manager owns a field with another value and `force` is not set.
pub fn apply(
    kind: &Kind,
    live: Option<&Value>,
    configuration: &Value,
    writer: Writer<'_>,
    force: bool,
) -> Result<Value, Failure> {
    let schema = schema::Schema::of(kind);
    let wanted = ownable(configuration);
    let set = FieldSet::describe(&wanted, schema);
    let mut entries = live
        .map(|live| known(kind, live, schema))
        .unwrap_or_default();
    let base = live.cloned().unwrap_or_else(|| identity(configuration));
    let merged = merge::merge(base.clone(), configuration, schema);
    let changed = FieldSet::difference(&ownable(&base), &ownable(&merged), schema);
    // What kubectl applied on the client's side before is its own on the server's side, too.
    let own = if writer.manager == "kubectl" {
        last_applied(&base, schema)
    } else {
        FieldSet::default()
    };
    let conflicts = entries.conflicts(writer, &changed.minus(&own));
    if !conflicts.is_empty() && !force {
        return Err(entries::conflict(&conflicts));
    }
    entries.take_away(writer, Operation::Apply, &changed);
    let before = entries.replace(writer, &kind.api_version(), set);
    let gone = before.minus(&entries.owned());
    let mut result = merge::remove(merged, &gone, &entries.owned(), schema);
    entries.write(&mut result);
    if writer.manager == "kubectl" && writer.subresource.is_empty() {
        keep_last_applied(&mut result, configuration);
    }
    Ok(result)
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Where a client-side apply left its annotation, a server-side one of kubectl keeps it true.
fn keep_last_applied(object: &mut Value, configuration: &Value) {
    let annotations = object.pointer_mut("/metadata/annotations");
    let Some(text) = annotations.and_then(|all| all.get_mut(LAST_APPLIED)) else {
        return;
    };
    let mut applied = configuration.clone();
    if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
        annotations.shift_remove(LAST_APPLIED);
    }
    *text = json!(format!("{}\n", object::sorted(applied)));
}

/// The fields in the annotation of a client-side apply.
fn last_applied(live: &Value, schema: schema::Schema) -> FieldSet {
    let text =
        live.pointer("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration");
    let applied = text
        .and_then(Value::as_str)
        .and_then(|text| serde_json::from_str(text).ok());
    let set = applied.map(|applied: Value| FieldSet::describe(&ownable(&applied), schema));
    set.unwrap_or_default()
}

fn identity(configuration: &Value) -> Value {
    let mut metadata = Map::new();
    for key in ["name", "namespace"] {
        let text = object::meta(configuration, key);
        if !text.is_empty() {
            metadata.insert(key.to_owned(), json!(text));
        }
    }
    let mut base = json!({"metadata": metadata});
    for key in ["apiVersion", "kind"] {
        object::set_field(&mut base, key, configuration.get(key).cloned());
    }
    base
}

/// The owners of a live object; what was written before its first apply belongs to a manager of that name.
fn known(kind: &Kind, live: &Value, schema: schema::Schema) -> Entries {
    let entries = Entries::read(live);
    if !entries.is_empty() {
        return entries;
    }
    let mut entries = Entries::default();
    let set = FieldSet::whole(&ownable(live), schema);
    entries.add_update("before-first-apply", &kind.api_version(), "", &set);
    entries
}

/// Notes who made an object. `authored` is the object before the server decided anything but defaults about it.
pub fn created(kind: &Kind, authored: &Value, object: &mut Value, writer: Writer<'_>) {
    let schema = schema::Schema::of(kind);
    let mut authored = ownable(authored);
    if kind.status {
        object::set_field(&mut authored, "status", None);
    }
    let present = FieldSet::whole(&authored, schema);
    let set = FieldSet::difference(&blank::of(kind), &authored, schema).both(&present);
    let mut entries = Entries::default();
    entries.add_update(writer.manager, &kind.api_version(), "", &set);
    entries.write(object);
}

/// Notes what an update changed, if the object has owners at all. `new` may bring `managedFields` of its own; an empty
/// entry in it resets them.
pub fn track(kind: &Kind, old: &Value, new: &mut Value, writer: Writer<'_>) {
    let brought = new.pointer("/metadata/managedFields").cloned();
    if brought.as_ref().is_some_and(is_reset) {
        object::remove_meta(new, "managedFields");
        return;
    }
    let given = Entries::read(new);
    let mut entries = if writer.subresource.is_empty() && !given.is_empty() {
        given
    } else {
        Entries::read(old)
    };
    if entries.is_empty() {
        object::remove_meta(new, "managedFields");
        return;
    }
    let schema = schema::Schema::of(kind);
    let changed = FieldSet::difference(&ownable(old), &ownable(new), schema);
    if !changed.is_empty() {
        entries.take_away(writer, Operation::Update, &changed);
        let present = FieldSet::whole(&ownable(new), schema);
        entries.forget(&changed.minus(&present));
        let kept = changed.both(&present);
        entries.add_update(
            writer.manager,
            &kind.api_version(),
            writer.subresource,
            &kept,
        );
    }
    entries.write(new);
}

fn is_reset(managed: &Value) -> bool {
    let list = managed.as_array();
    list.is_some_and(|list| list.len() == 1 && list[0].as_object().is_some_and(Map::is_empty))
}

#[cfg(test)]
mod tests;
