//! Sets of fields, as trees with the keys of `FieldsV1`: `f:name`, `k:{"name":"x"}`, `v:"x"`, and `.` for the place itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::schema::{Schema, Shape};
use crate::embedded::api::object::is_filled;

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// The place itself belongs to the set.
    pub(super) member: bool,
    pub(super) children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    fn leaf() -> Self {
        FieldSet {
            member: true,
            children: BTreeMap::new(),
        }
    }

    /// From `fieldsV1`.
    pub(super) fn from_json(value: &Value) -> Self {
        let mut set = FieldSet::default();
        for (key, value) in value.as_object().into_iter().flatten() {
            if key == "." {
                set.member = true;
                continue;
            }
            let mut child = FieldSet::from_json(value);
            child.member |= child.children.is_empty();
            set.children.insert(key.clone(), child);
        }
        set
    }

    /// As `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (key, child) in &self.children {
            map.insert(key.clone(), child.to_json());
        }
        Value::Object(map)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(FieldSet::is_empty)
    }

    /// The fields that a configuration names: its values, and the elements of its lists.
    pub(super) fn describe(value: &Value, schema: Schema) -> Self {
        let mut set = FieldSet::default();
        describe_into(value, schema, &mut set, Maps::Pass);
        set.of_object()
    }

    /// Every field of a value, its maps and lists themselves among them.
    pub(super) fn whole(value: &Value, schema: Schema) -> Self {
        let mut set = FieldSet::default();
        describe_into(value, schema, &mut set, Maps::Belong);
        set.of_object()
    }

    /// The fields that differ between two values, or are in one of them alone.
    pub(super) fn difference(old: &Value, new: &Value, schema: Schema) -> Self {
        compare(Some(old), Some(new), schema).of_object()
    }

    /// The object as a whole and its metadata are nobody's field.
    fn of_object(mut self) -> Self {
        self.member = false;
        if let Some(metadata) = self.children.get_mut("f:metadata") {
            metadata.member = false;
        }
        self
    }

    pub(super) fn union(&mut self, other: &FieldSet) {
        self.member |= other.member;
        for (key, child) in &other.children {
            self.children.entry(key.clone()).or_default().union(child);
        }
    }

    pub(super) fn minus(&self, other: &FieldSet) -> FieldSet {
        let children = self.children.iter().map(|(key, child)| {
            let rest = other
                .children
                .get(key)
                .map_or_else(|| child.clone(), |other| child.minus(other));
            (key.clone(), rest)
        });
        FieldSet {
            member: self.member && !other.member,
            children: children.filter(|(_, child)| !child.is_empty()).collect(),
        }
    }

    /// The fields that are in both.
    pub(super) fn both(&self, other: &FieldSet) -> FieldSet {
        let children = self.children.iter().filter_map(|(key, child)| {
            let both = child.both(other.children.get(key)?);
            (!both.is_empty()).then(|| (key.clone(), both))
        });
        FieldSet {
            member: self.member && other.member,
            children: children.collect(),
        }
    }

    /// The paths of all fields, as conflicts name them.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect(&mut String::new(), &mut found);
        found
    }

    /// The members of one level before anything deeper.
    fn collect(&self, path: &mut String, found: &mut Vec<String>) {
        let members = self.children.iter().filter(|(_, child)| child.member);
        found.extend(members.map(|(key, _)| format!("{path}{}", shown(key))));
        for (key, child) in &self.children {
            let length = path.len();
            path.push_str(&shown(key));
            child.collect(path, found);
            path.truncate(length);
        }
    }
}

/// Whether the place of a map or list is a field of its own, beside what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maps {
    Belong,
    Pass,
}

/// An element as paths name it.
pub(super) fn shown(element: &str) -> String {
    match element.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("v:", value)) => format!("[={value}]"),
        Some(("k:", keys)) => {
            let keys: Value = serde_json::from_str(keys).unwrap_or_default();
            let pairs = keys
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| format!("{key}={value}"));
            format!("[{}]", pairs.collect::<Vec<_>>().join(","))
        }
        _ => format!(".{element}"),
    }
}

fn describe_into(value: &Value, schema: Schema, set: &mut FieldSet, maps: Maps) {
    match (schema.shape(), value) {
        (Shape::Map, Value::Object(map)) if !map.is_empty() => {
            for (key, value) in map {
                let child = set.children.entry(format!("f:{key}")).or_default();
                describe_into(value, schema.field(key), child, maps);
            }
        }
        (Shape::Keyed(keys), Value::Array(items)) if !items.is_empty() => {
            for (element, items) in grouped(keys, items) {
                let child = set.children.entry(element).or_default();
                // Of elements with the same key nobody owns a part.
                if let [item] = items.as_slice() {
                    describe_into(item, schema.item(), child, maps);
                }
                child.member = true;
            }
        }
        (Shape::Set, Value::Array(items)) if !items.is_empty() => {
            for item in items {
                set.children.insert(format!("v:{item}"), FieldSet::leaf());
            }
        }
        _ => set.member = true,
    }
    set.member |= maps == Maps::Belong;
}

/// The elements of a list by their keys.
fn grouped<'a>(keys: &[&str], items: &'a [Value]) -> BTreeMap<String, Vec<&'a Value>> {
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Some(element) = key_element(keys, item) {
            groups.entry(element).or_default().push(item);
        }
    }
    groups
}

/// The element of a list that is a map in disguise. A key that is not given is the zero value of its type, as the schemas of
/// the built-in kinds say, and a port's protocol is TCP.
pub(super) fn key_element(keys: &[&str], item: &Value) -> Option<String> {
    let item = item.as_object()?;
    let pairs = keys.iter().map(|key| {
        let value = match (item.get(*key).filter(|value| !value.is_null()), *key) {
            (Some(value), _) => value.clone(),
            (None, "protocol") => Value::from("TCP"),
            (None, "port" | "containerPort") => Value::from(0),
            (None, _) => Value::from(""),
        };
        ((*key).to_owned(), value)
    });
    Some(format!("k:{}", Value::Object(pairs.collect())))
}

fn compare(old: Option<&Value>, new: Option<&Value>, schema: Schema) -> FieldSet {
    if old == new {
        return FieldSet::default();
    }
    match (schema.shape(), old, new) {
        (Shape::Map, Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys = old
                .keys()
                .chain(new.keys().filter(|key| !old.contains_key(*key)));
            let children = keys.map(|key| {
                (
                    format!("f:{key}"),
                    compare(old.get(key), new.get(key), schema.field(key)),
                )
            });
            gather(children)
        }
        (Shape::Keyed(keys), Some(Value::Array(old)), Some(Value::Array(new))) => {
            let (old, new) = (grouped(keys, old), grouped(keys, new));
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            gather(names.into_iter().map(|name| {
                let (was, is) = (old.get(name), new.get(name));
                (name.clone(), compare_elements(was, is, schema.item()))
            }))
        }
        (Shape::Set, Some(Value::Array(old)), Some(Value::Array(new))) => {
            let index = |list| elements(list, |item| Some(format!("v:{item}")));
            let (old, new) = (index(old), index(new));
            let lone = old.keys().filter(|name| !new.contains_key(*name));
            let lone = lone.chain(new.keys().filter(|name| !old.contains_key(*name)));
            gather(lone.map(|name| (name.clone(), FieldSet::leaf())))
        }
        (_, Some(one), None) | (_, None, Some(one)) => all_of(one, schema),
        // The place was there already, and empty.
        (Shape::Map | Shape::Keyed(_) | Shape::Set, Some(Value::Null), Some(one)) => FieldSet {
            member: !is_filled(one),
            ..all_of(one, schema)
        },
        (_, Some(old), Some(new)) if is_filled(old) || is_filled(new) => {
            let mut set = all_of(old, schema);
            set.union(&all_of(new, schema));
            set
        }
        _ => FieldSet::leaf(),
    }
}

/// Elements with the same key in two lists; where there are several in one of them, they count as one value.
fn compare_elements(
    old: Option<&Vec<&Value>>,
    new: Option<&Vec<&Value>>,
    schema: Schema,
) -> FieldSet {
    let several = |items: Option<&Vec<&Value>>| items.is_some_and(|items| items.len() > 1);
    if several(old) || several(new) {
        return if old == new {
            FieldSet::default()
        } else {
            FieldSet::leaf()
        };
    }
    let mut set = compare(
        old.and_then(|items| items.first().copied()),
        new.and_then(|items| items.first().copied()),
        schema,
    );
    set.member |= old.is_some() != new.is_some();
    set
}

/// Everything in a value.
fn all_of(value: &Value, schema: Schema) -> FieldSet {
    let mut set = FieldSet::default();
    describe_into(value, schema, &mut set, Maps::Belong);
    set
}

fn elements(list: &[Value], name: impl Fn(&Value) -> Option<String>) -> BTreeMap<String, &Value> {
    list.iter()
        .filter_map(|item| Some((name(item)?, item)))
        .collect()
}

fn gather(children: impl Iterator<Item = (String, FieldSet)>) -> FieldSet {
    FieldSet {
        member: false,
        children: children.filter(|(_, child)| !child.is_empty()).collect(),
    }
}
