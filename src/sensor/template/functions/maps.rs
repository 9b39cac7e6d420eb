//! Objects. Functions that change one in Go give back a changed copy here.

use std::collections::BTreeMap;

use super::{Answer, Arguments, Context, Function, new_list, new_map, new_texts, text_of};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("dict", 0, None, dict),
    Function("get", 2, Some(2), |_, a| match a.map(0)?.get(a.text(1)?) {
        Some(value) => Ok(value.clone()),
        None => super::new_text(""),
    }),
    Function("set", 3, Some(3), |_, a| {
        if a.any(0) == &Value::Nil {
            return Err("assignment to entry in nil map".to_string());
        }
        let mut members = a.map(0)?.clone();
        members.insert(a.text(1)?.to_string(), a.any(2).clone());
        new_map(members)
    }),
    Function("unset", 2, Some(2), |_, a| {
        let mut members = a.map(0)?.clone();
        members.remove(a.text(1)?);
        new_map(members)
    }),
    Function("hasKey", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.map(0)?.contains_key(a.text(1)?)))
    }),
    Function("keys", 0, None, |_, a| {
        let mut keys = Vec::new();
        for place in 0..a.len() {
            keys.extend(a.map(place)?.keys());
        }
        new_texts(keys)
    }),
    Function("values", 1, Some(1), |_, a| {
        new_list(a.map(0)?.values().cloned().collect())
    }),
    Function("pluck", 1, None, |_, a| {
        let key = a.text(0)?;
        let mut found = Vec::new();
        for place in 1..a.len() {
            found.extend(a.map(place)?.get(key).cloned());
        }
        new_list(found)
    }),
    Function("pick", 1, None, |_, a| chosen(a, true)),
    Function("omit", 1, None, |_, a| chosen(a, false)),
    Function("merge", 1, None, |_, a| merged(a, false)),
    Function("mergeOverwrite", 1, None, |_, a| merged(a, true)),
    Function("deepCopy", 1, Some(1), |_, a| match a.any(0) {
        Value::Nil => Err("reflect: call of reflect.Value.Type on zero Value".to_string()),
        value => Ok(value.clone()),
    }),
    Function("dig", 3, None, dig),
];

fn dict(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let pairs = a.all().chunks(2).map(|pair| {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::text(""));
        (text_of(&pair[0]), value)
    });
    new_map(pairs.collect::<BTreeMap<_, _>>())
}

fn chosen(a: &Arguments<'_>, keep: bool) -> Answer {
    let members = a.map(0)?;
    let mut names = Vec::new();
    for place in 1..a.len() {
        names.push(a.text(place)?);
    }
    let wanted = members
        .iter()
        .filter(|(key, _)| names.contains(&key.as_str()) == keep);
    new_map(
        wanted
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

fn merged(a: &Arguments<'_>, overwrite: bool) -> Answer {
    let mut result = a.map(0)?.clone();
    for place in 1..a.len() {
        merge_into(&mut result, a.map(place)?, overwrite)?;
    }
    new_map(result)
}

fn merge_into(
    target: &mut BTreeMap<String, Value>,
    source: &BTreeMap<String, Value>,
    overwrite: bool,
) -> Result<(), String> {
    for (key, value) in source {
        let merged = match (target.get(key), value) {
            (Some(Value::Map(old)), Value::Map(new)) => {
                let mut inner = old.members.clone();
                merge_into(&mut inner, &new.members, overwrite)?;
                new_map(inner)?
            }
            (Some(old), _) if old.is_true() && !overwrite => continue,
            (Some(_), new) if overwrite && !new.is_true() => continue,
            (_, new) => new.clone(),
        };
        target.insert(key.clone(), merged);
    }
    Ok(())
}

/// Goes down the keys: `dig "a" "b" DEFAULT MAP`.
fn dig(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let last = a.len() - 1;
    if a.any(last) == &Value::Nil {
        return super::wrong_type("map[string]interface {}", a.any(last));
    }
    let mut members = a.map(last)?;
    for place in 0..last - 1 {
        let value = match members.get(a.text(place)?) {
            Some(value) => value,
            None => return Ok(a.any(last - 1).clone()),
        };
        if place == last - 2 {
            return Ok(value.clone());
        }
        members = match value {
            Value::Map(map) => &map.members,
            other => {
                return Err(format!(
                    "interface conversion: interface {{}} is {}, not map[string]interface {{}}",
                    other.type_name()
                ));
            }
        };
    }
    Ok(a.any(last - 1).clone())
}
