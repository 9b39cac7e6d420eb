//! The functions of `string` that could run long or that gopher-lua writes differently.

mod slices;

use std::borrow::Cow;
use std::sync::Arc;

use mlua::{Lua, MultiValue, Table, Value};

use super::budget::{Bound, Budget, MAX_TEXT};
use super::pattern::{Capture, Matcher, Pattern, PatternError, find_plain};
use super::value::{
    Bytes, Text, bad_argument, change_case, integer, integer_or, number, number_text, whole,
};
use crate::sensor::number::parse_float;
use crate::sensor::printf::{self, Argument};

/// Puts the functions into the `string` table, and `gmatch_step`, which the prelude's `gmatch` calls, into `internal`.
pub(super) fn install(
    lua: &Lua,
    string: &Table,
    internal: &Table,
    budget: &Arc<Budget>,
) -> mlua::Result<()> {
    let find = |name: &'static str, kind| {
        let budget = budget.clone();
        lua.create_function(move |lua, args: (Value, Value, Value, Value)| {
            search(lua, &budget, name, kind, &args)
        })
    };
    string.raw_set("find", find("find", Search::Find)?)?;
    string.raw_set("match", find("match", Search::Match)?)?;
    internal.raw_set("gmatch_step", find("gmatch", Search::Step)?)?;
    let own = budget.clone();
    string.raw_set(
        "gsub",
        lua.create_function(move |lua, args: (Value, Value, Value, Value)| gsub(lua, &own, &args))?,
    )?;
    let own = budget.clone();
    string.raw_set(
        "rep",
        lua.create_function(move |lua, args: (Value, Value)| repeat(lua, &own, &args))?,
    )?;
    let own = budget.clone();
    string.raw_set(
        "format",
        lua.create_function(move |lua, args: MultiValue| format(lua, &own, &args))?,
    )?;
    for (name, upper) in [("upper", true), ("lower", false)] {
        let own = budget.clone();
        let function = move |lua: &Lua, text: Value| {
            let text = Text::argument(&text, 1, name)?;
            let bytes = text.bytes();
            own.charge_text(bytes.len())?;
            lua.create_string(change_case(&bytes, upper))
        };
        string.raw_set(name, lua.create_function(function)?)?;
    }
    let own = budget.clone();
    let reverse = move |lua: &Lua, text: Value| {
        let text = Text::argument(&text, 1, "reverse")?;
        let mut bytes = text.bytes().to_vec();
        own.charge_text(bytes.len())?;
        bytes.reverse();
        lua.create_string(bytes)
    };
    string.raw_set("reverse", lua.create_function(reverse)?)?;
    let length =
        |_: &Lua, text: Value| Text::argument(&text, 1, "len").map(|text| text.bytes().len());
    string.raw_set("len", lua.create_function(length)?)?;
    slices::install(lua, string, budget)
}

/// What a search gives back.
#[derive(Clone, Copy, PartialEq)]
enum Search {
    /// Start, end and groups.
    Find,
    /// Groups, or the whole match.
    Match,
    /// Where to go on, then as `Match`.
    Step,
}

fn pattern_error(error: PatternError) -> mlua::Error {
    match error {
        PatternError::Exhausted => mlua::Error::runtime(super::budget::STOPPED),
        error => mlua::Error::runtime(error.to_string()),
    }
}

/// Steps that reading one byte of a pattern stands for.
const STEPS_PER_PATTERN_BYTE: usize = 16;

fn compiled(budget: &Budget, pattern: &[u8]) -> mlua::Result<Pattern> {
    budget.charge(STEPS_PER_PATTERN_BYTE.saturating_mul(pattern.len()))?;
    Pattern::new(pattern).map_err(pattern_error)
}

/// Turns Lua's start position, which may count from the end, into an offset; it may lie behind the text.
fn start_offset(init: i64, length: usize) -> usize {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_start = if init < 0 {
        length.saturating_add(init).max(0)
    } else {
        (init - 1).max(0)
    };
    usize::try_from(from_start).unwrap_or(usize::MAX)
}

fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|c| b"^$*+?.()[%-".contains(c))
}

fn search(
    lua: &Lua,
    budget: &Budget,
    name: &str,
    kind: Search,
    (text, pattern, init, plain): &(Value, Value, Value, Value),
) -> mlua::Result<MultiValue> {
    let (text, pattern) = (
        Text::argument(text, 1, name)?,
        Text::argument(pattern, 2, name)?,
    );
    let (text, pattern) = (text.bytes(), pattern.bytes());
    if kind == Search::Find && pattern.is_empty() {
        return Ok(MultiValue::from_iter([position(1), position(0)]));
    }
    let start = start_offset(integer_or(init, 1, 3, name)?, text.len());
    budget.charge_text(text.len().saturating_sub(start))?;
    let wants_plain = !matches!(plain, Value::Nil | Value::Boolean(false));
    if kind == Search::Find && (wants_plain || is_plain(&pattern)) {
        return plainly(budget, &text, &pattern, start, wants_plain);
    }
    let pattern = compiled(budget, &pattern)?;
    let charge = |steps| budget.charge(steps).is_ok();
    let mut matcher = Matcher::new(&text, &pattern, &charge);
    let last = match (pattern.is_anchored(), kind) {
        // All matches of an anchored pattern are those at the beginning.
        (true, Search::Step) => 0,
        (true, _) => start.min(text.len()),
        (false, _) => text.len(),
    };
    for at in start..=last {
        if let Some(end) = matcher.match_at(at).map_err(pattern_error)? {
            return found(lua, kind, &text, (at, end), &matcher.captures());
        }
    }
    Ok(match kind {
        Search::Match => MultiValue::new(),
        Search::Find | Search::Step => MultiValue::from_iter([Value::Nil]),
    })
}

fn plainly(
    budget: &Budget,
    text: &[u8],
    wanted: &[u8],
    start: usize,
    asked: bool,
) -> mlua::Result<MultiValue> {
    if start > text.len() {
        // Upstream cuts the text there, and fails.
        return if asked {
            Err(mlua::Error::runtime("slice bounds out of range"))
        } else {
            Ok(MultiValue::from_iter([Value::Nil]))
        };
    }
    budget.charge_text(3 * (text.len() - start + wanted.len()))?;
    Ok(match find_plain(text, wanted, start) {
        Some(at) => MultiValue::from_iter([position(at + 1), position(at + wanted.len())]),
        None => MultiValue::from_iter([Value::Nil]),
    })
}

fn found(
    lua: &Lua,
    kind: Search,
    text: &Bytes<'_>,
    (start, end): (usize, usize),
    captures: &[Capture],
) -> mlua::Result<MultiValue> {
    let mut values = Vec::with_capacity(captures.len() + 2);
    match kind {
        Search::Find => values.extend([position(start + 1), position(end)]),
        Search::Step => values.push(position(if end == start { end + 2 } else { end + 1 })),
        Search::Match => {}
    }
    if captures.is_empty() && kind != Search::Find {
        values.push(Value::String(lua.create_string(&text[start..end])?));
    }
    for capture in captures {
        values.push(capture_value(lua, text, *capture)?);
    }
    Ok(MultiValue::from_iter(values))
}

fn position(at: usize) -> Value {
    Value::Number(at as f64)
}

fn capture_value(lua: &Lua, text: &[u8], capture: Capture) -> mlua::Result<Value> {
    match capture {
        Capture::Span(start, end) => Ok(Value::String(lua.create_string(&text[start..end])?)),
        Capture::Position(at) => Ok(position(at + 1)),
    }
}

fn gsub(
    lua: &Lua,
    budget: &Budget,
    (text, pattern, with, limit): &(Value, Value, Value, Value),
) -> mlua::Result<(Value, usize)> {
    let (text, pattern) = (
        Text::argument(text, 1, "gsub")?,
        Text::argument(pattern, 2, "gsub")?,
    );
    let with = Replacement::argument(with)?;
    let (text, pattern) = (text.bytes(), pattern.bytes());
    let limit = usize::try_from(integer_or(limit, -1, 4, "gsub")?).ok();
    let pattern = compiled(budget, &pattern)?;
    let charge = |steps| budget.charge(steps).is_ok();
    let mut matcher = Matcher::new(&text, &pattern, &charge);
    let (mut out, mut done, mut at, mut count) = (Vec::with_capacity(text.len()), 0, 0, 0);
    while at <= text.len() {
        budget.charge(1)?;
        let start = at;
        at += 1;
        if let Some(end) = matcher.match_at(start).map_err(pattern_error)? {
            count += 1;
            at = at.max(end);
            out.extend_from_slice(&text[done..start]);
            done = end;
            with.append(
                lua,
                budget,
                &mut out,
                &text,
                (start, end),
                &matcher.captures(),
            )?;
        }
        if out.len() > MAX_TEXT {
            return Err(budget.stop(Bound::Text));
        }
        // Upstream looks only here, so that a limit of 0 stops nothing once there was a match.
        if limit == Some(count) || pattern.is_anchored() {
            break;
        }
    }
    out.extend_from_slice(&text[done..]);
    Ok((Value::String(lua.create_string(out)?), count))
}

enum Replacement {
    Text(Text),
    Table(Table),
    Function(mlua::Function),
}

impl Replacement {
    fn argument(value: &Value) -> mlua::Result<Self> {
        match value {
            Value::Table(table) => Ok(Self::Table(table.clone())),
            Value::Function(function) => Ok(Self::Function(function.clone())),
            Value::String(_) => Ok(Self::Text(Text::argument(value, 3, "gsub")?)),
            value => Err(bad_argument(3, "gsub", "string/function/table", value)),
        }
    }

    fn append(
        &self,
        lua: &Lua,
        budget: &Budget,
        out: &mut Vec<u8>,
        text: &[u8],
        (start, end): (usize, usize),
        captures: &[Capture],
    ) -> mlua::Result<()> {
        let whole = Capture::Span(start, end);
        let first = captures.first().copied().unwrap_or(whole);
        let value = match self {
            Self::Text(with) => return expand(out, &with.bytes(), text, whole, captures),
            Self::Table(table) => table.get::<Value>(capture_value(lua, text, first)?)?,
            Self::Function(function) => {
                let all = if captures.is_empty() {
                    std::slice::from_ref(&whole)
                } else {
                    captures
                };
                let values = all
                    .iter()
                    .map(|c| capture_value(lua, text, *c))
                    .collect::<mlua::Result<Vec<_>>>()?;
                budget.callback(|| function.call::<Value>(MultiValue::from_iter(values)))?
            }
        };
        match &value {
            Value::Nil | Value::Boolean(false) => out.extend_from_slice(&text[start..end]),
            Value::String(text) => out.extend_from_slice(&text.as_bytes()),
            // A value that is neither text nor number is written as nothing.
            value => {
                if let Some(number) = number(value) {
                    out.extend_from_slice(number_text(number).as_bytes());
                }
            }
        }
        Ok(())
    }
}

/// Writes a replacement text, in which `%1` stands for a group and `%0` for the whole match.
fn expand(
    out: &mut Vec<u8>,
    with: &[u8],
    text: &[u8],
    whole: Capture,
    captures: &[Capture],
) -> mlua::Result<()> {
    let mut rest = with;
    while let [c, after @ ..] = rest {
        rest = after;
        let (b'%', [escaped, after @ ..]) = (*c, after) else {
            out.push(*c);
            continue;
        };
        rest = after;
        let capture = match escaped {
            b'0' => Some(whole),
            b'1' if captures.is_empty() => Some(whole),
            b'1'..=b'9' => captures.get(usize::from(escaped - b'1')).copied(),
            b'%' => {
                out.push(b'%');
                continue;
            }
            other => {
                out.extend_from_slice(&[b'%', *other]);
                continue;
            }
        };
        match capture {
            Some(Capture::Span(start, end)) => out.extend_from_slice(&text[start..end]),
            Some(Capture::Position(at)) => out.extend_from_slice((at + 1).to_string().as_bytes()),
            None => return Err(mlua::Error::runtime("invalid capture index")),
        }
    }
    Ok(())
}

fn repeat(lua: &Lua, budget: &Budget, (text, count): &(Value, Value)) -> mlua::Result<Value> {
    let text = Text::argument(text, 1, "rep")?;
    let count = usize::try_from(integer(count, 2, "rep")?).unwrap_or(0);
    let bytes = text.bytes();
    let length = bytes.len().saturating_mul(count);
    if length > MAX_TEXT {
        return Err(budget.stop(Bound::Text));
    }
    budget.charge_text(length)?;
    let repeated = if length == 0 {
        Vec::new()
    } else {
        bytes.repeat(count)
    };
    Ok(Value::String(lua.create_string(repeated)?))
}

fn format(lua: &Lua, budget: &Budget, args: &MultiValue) -> mlua::Result<Value> {
    let nil = Value::Nil;
    let pattern = Text::argument(args.front().unwrap_or(&nil), 1, "format")?;
    let pattern = pattern.bytes();
    budget.charge_text(pattern.len())?;
    let arguments = args
        .iter()
        .skip(1)
        .map(format_argument)
        .collect::<mlua::Result<Vec<_>>>()?;
    let (rewritten, arguments) = as_go_format(&pattern, arguments);
    let text =
        printf::print(&rewritten, &arguments, MAX_TEXT).map_err(|_| budget.stop(Bound::Text))?;
    budget.charge_text(text.len())?;
    Ok(Value::String(lua.create_string(text)?))
}

fn format_argument(value: &Value) -> mlua::Result<Argument<'static>> {
    Ok(match value {
        Value::Nil => Argument::Other("*lua.LNilType", "nil".to_string()),
        Value::Boolean(value) => Argument::Other("lua.LBool", value.to_string()),
        Value::String(text) => Argument::Text(Cow::Owned(text.as_bytes().to_vec())),
        value => match number(value) {
            Some(number) => Argument::Float(number),
            None => Argument::Other("*lua.LTable", value.to_string()?),
        },
    })
}

/// Gives each number the type that its verb wants, as gopher-lua does, and drops arguments without a verb: it counts verbs
/// by their percent signs, so that some arguments may be left over.
fn as_go_format<'a>(pattern: &[u8], arguments: Vec<Argument<'a>>) -> (Vec<u8>, Vec<Argument<'a>>) {
    let mut rewritten = pattern.to_vec();
    let mut converted = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.into_iter();
    let mut at = 0;
    while at < rewritten.len() {
        at += 1;
        if rewritten[at - 1] != b'%' {
            continue;
        }
        while rewritten
            .get(at)
            .is_some_and(|c| b"+-# 0123456789.".contains(c))
        {
            at += 1;
        }
        let Some(verb) = rewritten.get_mut(at) else {
            break;
        };
        at += 1;
        if *verb == b'%' {
            continue;
        }
        let Some(argument) = arguments.next() else {
            continue;
        };
        let (argument, new_verb) = convert(argument, *verb);
        *verb = new_verb;
        converted.push(argument);
    }
    let counted = verbs_counted(pattern);
    while converted.len() < counted
        && let Some(argument) = arguments.next()
    {
        converted.push(match argument {
            Argument::Float(number) => Argument::Other("lua.LNumber", number_text(number)),
            Argument::Text(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                Argument::Other("lua.LString", text)
            }
            other => other,
        });
    }
    (rewritten, converted)
}

/// The percent signs without pairs of them, twice over.
fn verbs_counted(pattern: &[u8]) -> usize {
    let single = pattern.iter().filter(|byte| **byte == b'%').count();
    let mut pairs = 0;
    let mut rest = pattern;
    while let Some(at) = rest.windows(2).position(|two| two == b"%%") {
        pairs += 1;
        rest = &rest[at + 2..];
    }
    single - pairs
}

fn convert(argument: Argument<'_>, verb: u8) -> (Argument<'_>, u8) {
    match argument {
        Argument::Float(number) => match verb {
            b'q' | b's' => (
                Argument::Text(Cow::Owned(number_text(number).into_bytes())),
                verb,
            ),
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => (Argument::Float(number), verb),
            b'i' => (Argument::Int(number as i64, "int64"), b'd'),
            b'b' | b'c' | b'd' | b'o' | b'x' | b'X' | b'U' => {
                (Argument::Int(number as i64, "int64"), verb)
            }
            _ => match whole(number) {
                Some(integer) => (Argument::Int(integer, "int64"), verb),
                None => (Argument::Float(number), verb),
            },
        },
        // A text that is a number is written as it is, one that is none as the number 0.
        Argument::Text(text) if matches!(verb, b'd' | b'i') => {
            match parse_float(text.trim_ascii()) {
                Ok(_) => (Argument::Text(text), b's'),
                Err(_) => (Argument::Int(0, "int64"), b'd'),
            }
        }
        argument => (argument, verb),
    }
}
