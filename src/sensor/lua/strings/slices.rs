//! `string.sub`, `string.byte` and `string.char`, whose indexes upstream counts in its own way.

use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::sensor::lua::budget::{Bound, Budget};
use crate::sensor::lua::value::{Text, integer, integer_or};

/// So many values a function may give; upstream's stack has room for few more.
const MAX_VALUES: usize = 4096;

pub(super) fn install(lua: &Lua, string: &Table, budget: &Arc<Budget>) -> mlua::Result<()> {
    let own = budget.clone();
    let part = move |lua: &Lua, args: (Value, Value, Value)| sub(lua, &own, &args);
    string.raw_set("sub", lua.create_function(part)?)?;
    let own = budget.clone();
    let bytes = move |_: &Lua, args: MultiValue| byte(&own, &args);
    string.raw_set("byte", lua.create_function(bytes)?)?;
    let text = |lua: &Lua, args: MultiValue| {
        let bytes: mlua::Result<Vec<u8>> = args
            .iter()
            .enumerate()
            // Go keeps the lowest eight bits.
            .map(|(place, value)| Ok(integer(value, place + 1, "char")? as u8))
            .collect();
        lua.create_string(bytes?)
    };
    string.raw_set("char", lua.create_function(text)?)
}

fn sub(
    lua: &Lua,
    budget: &Budget,
    (text, from, to): &(Value, Value, Value),
) -> mlua::Result<LuaString> {
    let text = Text::argument(text, 1, "sub")?;
    let bytes = text.bytes();
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let from = integer(from, 2, "sub")?;
    let start = offset(if from == 0 { 0 } else { from.wrapping_sub(1) }, length);
    let end = offset(integer_or(to, -1, 3, "sub")?, length).min(length);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let part = range
        .and_then(|(start, end)| bytes.get(start..end))
        .unwrap_or_default();
    budget.charge_text(part.len())?;
    lua.create_string(part)
}

/// An offset that may count from the end.
fn offset(index: i64, length: i64) -> i64 {
    if index < 0 {
        length.wrapping_add(index).wrapping_add(1).max(0)
    } else {
        index
    }
}

/// One byte where a place is given; without one all of them, however odd that is.
fn byte(budget: &Budget, args: &MultiValue) -> mlua::Result<MultiValue> {
    let nil = Value::Nil;
    let argument = |place: usize| args.get(place).unwrap_or(&nil);
    let text = Text::argument(argument(0), 1, "byte")?;
    let bytes = text.bytes();
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| {
        if index < 0 {
            length.wrapping_add(index).wrapping_add(1)
        } else {
            index
        }
    };
    let start = from_end(integer_or(argument(1), 1, 2, "byte")?.wrapping_sub(1));
    let end = from_end(integer_or(argument(2), -1, 3, "byte")?);
    let (start, end) = if args.len() == 2 {
        (start, start.saturating_add(1))
    } else {
        (start.max(0), end.min(length))
    };
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let part = range
        .and_then(|(start, end)| bytes.get(start..end))
        .unwrap_or_default();
    if part.len() > MAX_VALUES {
        return Err(budget.stop(Bound::Values));
    }
    let values = part.iter().map(|byte| Value::Number(f64::from(*byte)));
    Ok(MultiValue::from_iter(values))
}
