//! What is left of `os`: times and dates in UTC, as in a container without a time zone.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use mlua::{Lua, Table, Value};

use super::value::{Text, integer_or};

/// Puts the functions into the `os` table.
pub(super) fn install(lua: &Lua, os: &Table) -> mlua::Result<()> {
    os.raw_set(
        "time",
        lua.create_function(|_, fields: Option<Table>| time(fields))?,
    )?;
    os.raw_set(
        "date",
        lua.create_function(|lua, args: (Value, Value)| date(lua, &args))?,
    )?;
    os.raw_set(
        "difftime",
        lua.create_function(|_, (a, b): (f64, f64)| Ok(a - b))?,
    )?;
    let started = std::time::Instant::now();
    os.raw_set(
        "clock",
        lua.create_function(move |_, ()| Ok(started.elapsed().as_secs_f64()))?,
    )?;
    os.raw_set(
        "getenv",
        lua.create_function(|_, name: mlua::LuaString| Ok(environment(&name.as_bytes())))?,
    )
}

/// The environment of a Sensor's container, as far as scripts could count on it.
fn environment(name: &[u8]) -> Option<&'static str> {
    match name {
        b"HOME" => Some("/"),
        b"PATH" => Some("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        _ => None,
    }
}

fn time(fields: Option<Table>) -> mlua::Result<f64> {
    let Some(fields) = fields else {
        return Ok(Timestamp::now().as_second() as f64);
    };
    let field = |name: &str, default: i64| -> mlua::Result<i64> {
        let value: Value = fields.raw_get(name)?;
        match &value {
            Value::Integer(_) | Value::Number(_) => integer_or(&value, default, 1, "time"),
            Value::String(text) => Ok(written(&text.as_bytes()).unwrap_or(default)),
            _ => Ok(default),
        }
    };
    let (year, month, day) = (field("year", -1)?, field("month", -1)?, field("day", -1)?);
    let (hour, minute, second) = (field("hour", 12)?, field("min", 0)?, field("sec", 0)?);
    seconds(year, month, day, (hour, minute, second))
        .ok_or_else(|| mlua::Error::runtime("time result cannot be represented"))
}

/// A whole number in a text; spaces and zeros before it count for nothing.
fn written(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim_start_matches(' ');
    match text.trim_start_matches('0') {
        "" if !text.is_empty() => Some(0),
        digits
            if digits
                .bytes()
                .all(|c| c.is_ascii_digit() || b"+-.eE".contains(&c)) =>
        {
            digits.parse().ok().map(|number: f64| number as i64)
        }
        _ => None,
    }
}

/// Counts from the first of the year, so that month 14 or day −1 mean what they mean in C.
fn seconds(
    year: i64,
    month: i64,
    day: i64,
    (hour, minute, second): (i64, i64, i64),
) -> Option<f64> {
    let months = year.checked_mul(12)?.checked_add(month)?.checked_sub(1)?;
    let (year, month) = (
        i16::try_from(months.div_euclid(12)).ok()?,
        i8::try_from(months.rem_euclid(12)).ok()?,
    );
    let first = DateTime::new(year, month + 1, 1, 0, 0, 0, 0).ok()?;
    let start = first.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    let clock = hour
        .checked_mul(3600)?
        .checked_add(minute.checked_mul(60)?)?
        .checked_add(second)?;
    let days = day.checked_sub(1)?.checked_mul(86_400)?;
    Some(start.checked_add(days)?.checked_add(clock)? as f64)
}

fn date(lua: &Lua, (format, time): &(Value, Value)) -> mlua::Result<Value> {
    let now = Timestamp::now().as_second();
    let second = integer_or(time, now, 2, "date")?;
    let timestamp = Timestamp::from_second(second)
        .map_err(|_| mlua::Error::runtime("time result cannot be represented"))?;
    let moment = timestamp.to_zoned(TimeZone::UTC);
    let format = match format {
        Value::Nil => "%c".to_string(),
        value => String::from_utf8_lossy(&Text::argument(value, 1, "date")?.bytes()).into_owned(),
    };
    let format = format.strip_prefix('!').unwrap_or(&format);
    if format.starts_with("*t") {
        return date_table(lua, &moment).map(Value::Table);
    }
    let mut out = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let Some(verb) = after.chars().next() else {
            rest = "%";
            break;
        };
        let directive = format!("%{verb}");
        out.push_str(&strtime::format(&directive, &moment).unwrap_or(directive));
        rest = &after[verb.len_utf8()..];
    }
    out.push_str(rest);
    lua.create_string(out).map(Value::String)
}

fn date_table(lua: &Lua, moment: &jiff::Zoned) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("year", moment.year())?;
    table.raw_set("month", moment.month())?;
    table.raw_set("day", moment.day())?;
    table.raw_set("hour", moment.hour())?;
    table.raw_set("min", moment.minute())?;
    table.raw_set("sec", moment.second())?;
    table.raw_set("wday", moment.weekday().to_sunday_one_offset())?;
    table.raw_set("yday", moment.day_of_year())?;
    table.raw_set("isdst", false)?;
    Ok(table)
}
