//! Merging a configuration into an object, and taking fields out of one.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::schema::{Schema, Shape};
use super::set::{FieldSet, key_element};

/// `configuration` laid over `live`.
pub(super) fn merge(live: Value, configuration: &Value, schema: Schema) -> Value {
    match (schema.shape(), live, configuration) {
        (Shape::Map, Value::Object(mut live), Value::Object(wanted)) => {
            for (key, value) in wanted {
                let before = live.get_mut(key).map(Value::take).unwrap_or_default();
                let merged = merge(before, value, schema.field(key));
                live.insert(key.clone(), merged);
            }
            Value::Object(live)
        }
        (Shape::Keyed(keys), Value::Array(live), Value::Array(wanted)) => merge_lists(
            live,
            wanted,
            |item| key_element(keys, item),
            |live, wanted| merge(live, wanted, schema.item()),
        ),
        (Shape::Set, Value::Array(live), Value::Array(wanted)) => {
            merge_lists(live, wanted, |item| Some(item.to_string()), |live, _| live)
        }
        (_, _, wanted) => wanted.clone(),
    }
}

/// Elements of both lists, those of the configuration in its order, the others where they stood between them.
fn merge_lists(
    live: Vec<Value>,
    wanted: &[Value],
    key: impl Fn(&Value) -> Option<String>,
    join: impl Fn(Value, &Value) -> Value,
) -> Value {
    let places: HashMap<String, usize> = wanted
        .iter()
        .enumerate()
        .filter_map(|(at, item)| Some((key(item)?, at)))
        .collect();
    let mut out = Vec::with_capacity(live.len() + wanted.len());
    let mut next = 0;
    let mut matched: Vec<Option<Value>> = vec![None; wanted.len()];
    let mut order: Vec<Result<Value, usize>> = Vec::new();
    for item in live {
        match key(&item).and_then(|key| places.get(&key)) {
            Some(&at) => {
                matched[at] = Some(item);
                order.push(Err(at));
            }
            None => order.push(Ok(item)),
        }
    }
    let mut take = |at: usize, out: &mut Vec<Value>| {
        let before = matched[at].take();
        out.push(before.map_or_else(|| wanted[at].clone(), |before| join(before, &wanted[at])));
    };
    for place in order {
        match place {
            Ok(item) => out.push(item),
            // Everything that the configuration names before this element comes before it.
            Err(at) => {
                while next <= at {
                    take(next, &mut out);
                    next += 1;
                }
            }
        }
    }
    for at in next..wanted.len() {
        take(at, &mut out);
    }
    Value::Array(out)
}

/// The object without the fields of `gone`; a list element stays while somebody owns something in it.
pub(super) fn remove(value: Value, gone: &FieldSet, owned: &FieldSet, schema: Schema) -> Value {
    without(value, gone, owned, schema).unwrap_or(Value::Null)
}

/// `None` if nothing is left.
fn without(value: Value, gone: &FieldSet, owned: &FieldSet, schema: Schema) -> Option<Value> {
    if gone.is_empty() {
        return Some(value);
    }
    match (schema.shape(), value) {
        (Shape::Map, Value::Object(map)) => map_without(map, gone, owned, schema),
        (Shape::Keyed(keys), Value::Array(items)) => {
            let kept = items.into_iter().filter_map(|item| {
                let element = key_element(keys, &item)?;
                match gone.children.get(&element) {
                    None => Some(item),
                    Some(gone) => {
                        part_without(item, gone, owned.children.get(&element), schema.item())
                    }
                }
            });
            let kept: Vec<Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        (Shape::Set, Value::Array(items)) => {
            let kept = items
                .into_iter()
                .filter(|item| !gone.children.contains_key(&format!("v:{item}")));
            let kept: Vec<Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        (_, value) => (!gone.member).then_some(value),
    }
}

fn part_without(
    value: Value,
    gone: &FieldSet,
    owned: Option<&FieldSet>,
    schema: Schema,
) -> Option<Value> {
    let nobody = FieldSet::default();
    let owned = owned.unwrap_or(&nobody);
    if gone.member && owned.is_empty() {
        return None;
    }
    without(value, gone, owned, schema)
}

fn map_without(
    map: Map<String, Value>,
    gone: &FieldSet,
    owned: &FieldSet,
    schema: Schema,
) -> Option<Value> {
    let mut out = Map::new();
    for (key, value) in map {
        let element = format!("f:{key}");
        let kept = match gone.children.get(&element) {
            None => Some(value),
            Some(gone) => part_without(
                value,
                gone,
                owned.children.get(&element),
                schema.field(&key),
            ),
        };
        if let Some(value) = kept {
            out.insert(key, value);
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}
