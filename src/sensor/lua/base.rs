//! Numbers from text and text from numbers, chunks from text, `table.concat`, `math.random`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::{Lua, MultiValue, Table, Value};

use super::budget::{Bound, Budget, MAX_TEXT};
use super::value::{Text, bad_argument, integer, integer_or, number, number_text};
use crate::sensor::number::parse_float;

/// Puts into `internal` what the prelude builds on.
pub(super) fn install(lua: &Lua, internal: &Table, budget: &Arc<Budget>) -> mlua::Result<()> {
    internal.raw_set(
        "number_text",
        lua.create_function(|_, n: f64| Ok(number_text(n)))?,
    )?;
    internal.raw_set(
        "tonumber",
        lua.create_function(|_, args: MultiValue| to_number(&args))?,
    )?;
    let whole = |_: &Lua, (value, position, function): (Value, usize, String)| {
        integer(&value, position, &function).map(|integer| integer as f64)
    };
    internal.raw_set("integer", lua.create_function(whole)?)?;
    let own = budget.clone();
    internal.raw_set(
        "exhausted",
        lua.create_function(move |_, ()| Ok(own.stopped().is_some()))?,
    )?;
    let own = budget.clone();
    let caught = move |lua: &Lua, (error, raised): (Value, bool)| caught(lua, &own, error, raised);
    internal.raw_set("caught", lua.create_function(caught)?)?;
    for (name, bound) in [("too_deep", Bound::Depth), ("too_many", Bound::Values)] {
        let own = budget.clone();
        let stop = move |_: &Lua, ()| Err::<(), _>(own.stop(bound));
        internal.raw_set(name, lua.create_function(stop)?)?;
    }
    let fail =
        |_: &Lua, text: mlua::LuaString| Err::<(), _>(mlua::Error::runtime(text.to_string_lossy()));
    internal.raw_set("fail", lua.create_function(fail)?)?;
    let wrong_type =
        |_: &Lua, (value, position, function, expected): (Value, usize, String, String)| {
            Err::<(), _>(bad_argument(position, &function, &expected, &value))
        };
    internal.raw_set("wrong_type", lua.create_function(wrong_type)?)?;
    let is_callable = |_: &Lua, value: Value| match &value {
        Value::Table(table) => match table.metatable() {
            Some(metatable) => Ok(metatable.raw_get::<Value>("__call")?.is_function()),
            None => Ok(false),
        },
        _ => Ok(false),
    };
    internal.raw_set("is_callable", lua.create_function(is_callable)?)?;
    let own = budget.clone();
    internal.raw_set(
        "loadstring",
        lua.create_function(move |lua, args: (Value, Value)| load(lua, &own, &args))?,
    )?;
    let own = budget.clone();
    let concat = move |lua: &Lua, args: (Table, Value, Value, Value, i64)| concat(lua, &own, &args);
    internal.raw_set("concat", lua.create_function(concat)?)?;
    let state = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
    internal.raw_set(
        "random",
        lua.create_function(move |_, args: (Option<f64>, Option<f64>)| random(&state, args))?,
    )
}

/// What a script sees of an error that it caught: a text where a library failed. Want of memory, of which upstream has
/// no bound, stops it instead.
fn caught(lua: &Lua, budget: &Budget, error: Value, raised: bool) -> mlua::Result<Value> {
    match error {
        Value::String(text) if !raised && text.as_bytes() == b"not enough memory".as_slice() => {
            Err(budget.stop(Bound::Memory))
        }
        Value::String(text) => {
            let shown = text.to_string_lossy();
            match super::without_library(&shown) {
                None => Ok(Value::String(text)),
                Some(message) => lua
                    .create_string(super::at_line(super::script_line(lua), message))
                    .map(Value::String),
            }
        }
        Value::Error(error) => match innermost(&error) {
            mlua::Error::MemoryError(_) => Err(budget.stop(Bound::Memory)),
            _ => lua
                .create_string(super::message_of(&error))
                .map(Value::String),
        },
        other => Ok(other),
    }
}

fn innermost(error: &mlua::Error) -> &mlua::Error {
    match error {
        mlua::Error::CallbackError { cause, .. } => innermost(cause),
        other => other,
    }
}

/// Reads a number as gopher-lua's `tonumber`: text without a point is a whole number only, so `1e2` is none.
fn to_number(args: &MultiValue) -> mlua::Result<Option<f64>> {
    let Some(value) = args.front() else {
        return Err(mlua::Error::runtime(
            "bad argument #1 to tonumber (value expected)",
        ));
    };
    let no_base = matches!(args.get(1), None | Some(Value::Nil));
    let base = integer_or(args.get(1).unwrap_or(&Value::Nil), 10, 2, "tonumber")?;
    if let Some(number) = number(value) {
        return Ok(Some(number));
    }
    let text = match value {
        Value::String(text) => text,
        _ => return Ok(None),
    };
    let Ok(text) = text.to_str() else {
        return Ok(None);
    };
    let text = text.trim_matches([' ', '\n', '\t']);
    if text.contains('.') {
        return Ok(parse_float(text.as_bytes()).ok());
    }
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (text, base) = match hexadecimal {
        Some(digits) if no_base => (digits, 16),
        _ => (text, base),
    };
    let base = u32::try_from(base)
        .ok()
        .filter(|base| (2..=36).contains(base));
    Ok(base
        .and_then(|base| i64::from_str_radix(text, base).ok())
        .map(|n| n as f64))
}

/// Compiles source text; bytecode is refused, as made-up bytecode breaks the machine that runs it.
fn load(lua: &Lua, budget: &Budget, (source, name): &(Value, Value)) -> mlua::Result<MultiValue> {
    let source = Text::argument(source, 1, "loadstring")?;
    let source = source.bytes();
    budget.charge_text(4 * source.len())?;
    let name = match name {
        Value::String(name) => name.to_string_lossy(),
        _ => "=<string>".to_string(),
    };
    let chunk = lua
        .load(&*source)
        .set_name(name)
        .set_mode(mlua::chunk::ChunkMode::Text);
    Ok(match chunk.into_function() {
        Ok(function) => MultiValue::from_iter([Value::Function(function)]),
        Err(mlua::Error::MemoryError(message)) => return Err(mlua::Error::MemoryError(message)),
        Err(error) => {
            let message = lua.create_string(super::message_of(&error))?;
            MultiValue::from_iter([Value::Nil, Value::String(message)])
        }
    })
}

/// Joins the elements of a table, which stays within it; a single element is given as it is.
fn concat(
    lua: &Lua,
    budget: &Budget,
    (table, separator, from, to, length): &(Table, Value, Value, Value, i64),
) -> mlua::Result<Value> {
    let length = *length;
    let separator = match separator {
        Value::Nil => None,
        value => Some(Text::argument(value, 2, "concat")?),
    };
    let empty = || lua.create_string("").map(Value::String);
    let open = !matches!(from, Value::Nil) && matches!(to, Value::Nil);
    let (from, to) = (
        integer_or(from, 1, 3, "concat")?,
        integer_or(to, length, 4, "concat")?,
    );
    if open && !(1..=length).contains(&from) {
        return empty();
    }
    let (from, to) = (from.min(length).max(1), to.min(length));
    if from > to {
        return empty();
    }
    let mut out = Vec::new();
    for index in from..=to {
        budget.charge(1)?;
        let value: Value = table.raw_get(index)?;
        let text = Text::argument(&value, 1, "concat").map_err(|_| {
            let kind = super::value::type_name(&value);
            mlua::Error::runtime(format!(
                "invalid value ({kind}) at index {index} in table for concat"
            ))
        })?;
        if from == to {
            return Ok(value);
        }
        out.extend_from_slice(&text.bytes());
        if let (Some(separator), true) = (&separator, index < to) {
            out.extend_from_slice(&separator.bytes());
        }
        if out.len() > MAX_TEXT {
            return Err(budget.stop(Bound::Text));
        }
    }
    budget.charge_text(out.len())?;
    lua.create_string(out).map(Value::String)
}

fn random(state: &AtomicU64, (low, high): (Option<f64>, Option<f64>)) -> mlua::Result<f64> {
    let mut bits = state.load(Ordering::Relaxed);
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    state.store(bits, Ordering::Relaxed);
    let fraction = (bits >> 11) as f64 / (1u64 << 53) as f64;
    let (low, high) = match (low, high) {
        (None, _) => return Ok(fraction),
        (Some(high), None) => (1.0, high.floor()),
        (Some(low), Some(high)) => (low.floor(), high.floor()),
    };
    if low > high || low.is_nan() || high.is_nan() {
        return Err(mlua::Error::runtime(
            "bad argument to 'random' (interval is empty)",
        ));
    }
    Ok(low + (fraction * (high - low + 1.0)).floor())
}

/// Checks that an argument is a table, for functions of the prelude.
pub(super) fn check_table(value: &Value, position: usize, function: &str) -> mlua::Result<()> {
    match value {
        Value::Table(_) => Ok(()),
        value => Err(bad_argument(position, function, "table", value)),
    }
}
