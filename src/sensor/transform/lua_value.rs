//! What a script returns, as JSON, by upstream's rules: a table with a positive index is a list, any other an object.

use mlua::Value as Lua;
use serde_json::{Map, Number, Value};

use crate::sensor::number::format_general;
use crate::sensor::script::ScriptError;

/// Tables inside one another; upstream has no limit, and a table inside itself ends its process.
const MAX_DEPTH: usize = 200;
/// Longest list; upstream fills up gaps with nulls to 67 million.
const MAX_LIST: usize = 1_000_000;
/// Upstream's engine keeps an index from here on among the names of an object.
const LIST_END: usize = 67_108_864;
/// Values altogether.
const MAX_VALUES: usize = 2_000_000;

/// Turns the last value of a script into JSON.
///
/// # Errors
/// Upstream's text for a value that is no table or that JSON does not have.
pub(in crate::sensor) fn to_json(value: &Lua) -> Result<Value, ScriptError> {
    if !value.is_table() {
        let text = "transformation script output type is not of lua table";
        return Err(ScriptError::Runtime(text.to_owned()));
    }
    let mut left = MAX_VALUES;
    convert(value, 0, &mut left)
}

fn limit(what: &str) -> ScriptError {
    ScriptError::TooLarge(format!("the script's table {what}"))
}

fn convert(value: &Lua, depth: usize, left: &mut usize) -> Result<Value, ScriptError> {
    if depth > MAX_DEPTH {
        return Err(limit("is nested too deeply"));
    }
    *left = left.checked_sub(1).ok_or_else(|| limit("is too large"))?;
    match value {
        Lua::Nil => Ok(Value::Null),
        Lua::Boolean(flag) => Ok(Value::Bool(*flag)),
        Lua::Integer(number) => Ok((*number).into()),
        Lua::Number(number) => Number::from_f64(*number).map(Value::Number).ok_or_else(|| {
            let text = format!("json: unsupported value: {}", format_general(*number));
            ScriptError::Runtime(text)
        }),
        Lua::String(text) => Ok(Value::String(
            String::from_utf8_lossy(&text.as_bytes()).into_owned(),
        )),
        Lua::Table(table) => convert_table(table, depth, left),
        other => Err(limit(&format!("holds a {}", other.type_name()))),
    }
}

fn convert_table(
    table: &mlua::Table,
    depth: usize,
    left: &mut usize,
) -> Result<Value, ScriptError> {
    let mut most = 0;
    let mut members: Vec<(Lua, Lua)> = Vec::new();
    for pair in table.clone().pairs::<Lua, Lua>() {
        let (key, value) = pair?;
        *left = left.checked_sub(1).ok_or_else(|| limit("is too large"))?;
        if let Some(index) = index_of(&key) {
            most = most.max(index);
        }
        members.push((key, value));
    }
    if most > MAX_LIST {
        return Err(limit("has a list that is too long"));
    }
    if most == 0 && !is_array(table) {
        let mut object = Map::new();
        for (key, value) in &members {
            object.insert(key_text(key)?, convert(value, depth + 1, left)?);
        }
        return Ok(Value::Object(object));
    }
    let mut list = vec![Value::Null; most];
    for (key, value) in &members {
        if let Some(place) = index_of(key)
            && let Some(slot) = list.get_mut(place - 1)
        {
            *slot = convert(value, depth + 1, left)?;
        }
    }
    Ok(Value::Array(list))
}

/// A key that is a place of a list, from 1.
fn index_of(key: &Lua) -> Option<usize> {
    match key {
        Lua::Integer(number) => usize::try_from(*number)
            .ok()
            .filter(|place| (1..LIST_END).contains(place)),
        Lua::Number(number) if number.fract() == 0.0 && *number >= 1.0 && *number < 6.7e7 => {
            format!("{number:.0}").parse().ok()
        }
        _ => None,
    }
}

/// A metatable whose `__is_array` is true makes a list even of an empty table.
fn is_array(table: &mlua::Table) -> bool {
    let flag = table
        .metatable()
        .and_then(|metatable| metatable.raw_get::<Lua>("__is_array").ok());
    flag == Some(Lua::Boolean(true))
}

fn key_text(key: &Lua) -> Result<String, ScriptError> {
    match key {
        Lua::String(text) => Ok(String::from_utf8_lossy(&text.as_bytes()).into_owned()),
        Lua::Integer(number) => Ok(number.to_string()),
        Lua::Number(number) => Ok(number.to_string()),
        Lua::Boolean(flag) => Ok(flag.to_string()),
        other => Err(limit(&format!("has a {} as a key", other.type_name()))),
    }
}
