//! Objects. `set`, `unset` and the merging functions change the object that they are given, whoever else holds it.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Answer, Arguments, Context, Function, new_list, new_map, new_texts, text_of};
use crate::sensor::template::limits::{Failure, TooLarge};
use crate::sensor::template::map::{Map, Members};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("dict", 0, None, dict),
    Function("get", 2, Some(2), |_, a| {
        match a.map(0)?.members.get(a.text(1)?) {
            Some(value) => Ok(value.clone()),
            None => super::new_text(""),
        }
    }),
    Function("set", 3, Some(3), |context, a| {
        let Some(object) = a.object(0)? else {
            return Err("assignment to entry in nil map".into());
        };
        insert(context, object, a.text(1)?, a.any(2))?;
        Ok(a.any(0).clone())
    }),
    Function("unset", 2, Some(2), |context, a| {
        let key = a.text(1)?;
        let Some(object) = a.object(0)? else {
            return new_map(BTreeMap::new());
        };
        context.steps.take(object.copied_by_change())?;
        context.changed = true;
        object.remove(key);
        Ok(a.any(0).clone())
    }),
    Function("hasKey", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.map(0)?.members.contains_key(a.text(1)?)))
    }),
    Function("keys", 0, None, |_, a| {
        let mut keys = Vec::new();
        for place in 0..a.len() {
            keys.extend(a.map(place)?.members.keys().cloned());
        }
        new_texts(keys)
    }),
    Function("values", 1, Some(1), |_, a| {
        new_list(a.map(0)?.members.values().cloned().collect())
    }),
    Function("pluck", 1, None, |_, a| {
        let key = a.text(0)?;
        let mut found = Vec::new();
        for place in 1..a.len() {
            found.extend(a.map(place)?.members.get(key).cloned());
        }
        new_list(found)
    }),
    Function("pick", 1, None, |_, a| chosen(a, true)),
    Function("omit", 1, None, |_, a| chosen(a, false)),
    Function("merge", 1, None, |context, a| merged(context, a, false)),
    Function("mergeOverwrite", 1, None, |context, a| {
        merged(context, a, true)
    }),
    Function("deepCopy", 1, Some(1), |_, a| match a.any(0) {
        Value::Nil => Err("reflect: call of reflect.Value.Type on zero Value".into()),
        value => copy(value),
    }),
    Function("dig", 3, None, dig),
];

/// Puts a member in, unless the object would come to hold itself.
fn insert(context: &mut Context, object: &Map, key: &str, value: &Value) -> Result<(), Failure> {
    let weight = value.measure(Some(object))?;
    context
        .steps
        .take(weight.saturating_add(object.copied_by_change()))?;
    context.changed = true;
    object.insert(key, value.clone());
    if object.now().weight > super::super::value::MAX_WEIGHT {
        return Err(TooLarge.into());
    }
    Ok(())
}

fn dict(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let pairs = a.all().chunks(2).map(|pair| {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::text(""));
        (text_of(&pair[0]), value)
    });
    new_map(pairs.collect::<BTreeMap<_, _>>())
}

fn chosen(a: &Arguments<'_>, keep: bool) -> Answer {
    let held = a.map(0)?;
    let mut names = Vec::new();
    for place in 1..a.len() {
        names.push(a.text(place)?);
    }
    let wanted = held
        .members
        .iter()
        .filter(|(key, _)| names.contains(&key.as_str()) == keep);
    new_map(
        wanted
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

/// A copy that shares nothing which could be changed.
fn copy(value: &Value) -> Answer {
    match value {
        Value::List(list) if !list.items.is_empty() => {
            let items = list.items.iter().map(copy).collect::<Result<_, _>>()?;
            super::new_list_of(items, list.parts)
        }
        Value::Map(map) => {
            let copied = map
                .now()
                .members
                .iter()
                .map(|(key, value)| Ok((key.clone(), copy(value)?)))
                .collect::<Result<_, Failure>>()?;
            Value::map(copied, map.texts).map_err(Failure::from)
        }
        other => Ok(other.clone()),
    }
}

fn merged(context: &mut Context, a: &Arguments<'_>, overwrite: bool) -> Answer {
    let target = match a.object(0)? {
        Some(_) => a.any(0).clone(),
        None => new_map(BTreeMap::new())?,
    };
    for place in 1..a.len() {
        let source = a.map(place)?;
        if let Value::Map(object) = &target {
            merge_into(context, object, &source, overwrite)?;
        }
    }
    Ok(target)
}

/// What the object has stays, unless it is empty or to be overwritten; objects under one key are merged.
fn merge_into(
    context: &mut Context,
    target: &Rc<Map>,
    source: &Members,
    overwrite: bool,
) -> Result<(), Failure> {
    for (key, new) in &source.members {
        context.steps.take(1)?;
        let old = target.now().members.get(key).cloned();
        match (&old, new) {
            (_, Value::Nil) if !overwrite => continue,
            (Some(Value::Map(old)), Value::Map(new)) => {
                merge_into(context, old, &new.now(), overwrite)?;
                if !old.now().members.is_empty() {
                    continue;
                }
            }
            _ => {}
        }
        if overwrite || !old.is_some_and(|old| old.is_true()) {
            insert(context, target, key, new)?;
        }
    }
    Ok(())
}

/// Goes down the keys: `dig "a" "b" DEFAULT MAP`.
fn dig(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let unlike = |value: &Value, wanted: &str| {
        let found = value.type_name();
        format!("interface conversion: interface {{}} is {found}, not {wanted}")
    };
    let last = a.len() - 1;
    let Value::Map(map) = a.any(last) else {
        return Err(unlike(a.any(last), "map[string]interface {}").into());
    };
    let keys = &a.all()[..last - 1];
    if let Some(other) = keys.iter().find(|key| !matches!(key, Value::Text(_))) {
        return Err(unlike(other, "string").into());
    }
    let mut value = Value::Map(map.clone());
    for key in keys {
        let Value::Map(map) = &value else {
            return Err(unlike(&value, "map[string]interface {}").into());
        };
        let found = match key {
            Value::Text(key) => map.now().members.get(&**key).cloned(),
            _ => None,
        };
        match found {
            Some(found) => value = found,
            None => return Ok(a.any(last - 1).clone()),
        }
    }
    Ok(value)
}
