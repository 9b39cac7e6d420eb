//! The functions that the template language has by itself; `and` and `or` are part of running it.

use std::cmp::Ordering;

use super::{Answer, Arguments, Context, Function, new_list_of, new_text};
use crate::sensor::number::is_printable;
use crate::sensor::printf::{self, Argument};
use crate::sensor::template::limits::{Failure, MAX_TEXT};
use crate::sensor::template::value::{List, Value};

pub(super) const TABLE: &[Function] = &[
    Function("not", 1, Some(1), |_, a| {
        Ok(Value::Bool(!a.any(0).is_true()))
    }),
    Function("len", 1, Some(1), length),
    Function("index", 1, None, index),
    Function("print", 0, None, |_, a| new_text(print(a.all()))),
    Function("println", 0, None, println),
    Function("printf", 1, None, printf),
    Function("html", 0, None, |_, a| {
        new_text(html(&print_escaped(a.all())))
    }),
    Function("js", 0, None, |_, a| new_text(js(&print_escaped(a.all())))),
    Function("urlquery", 0, None, |_, a| {
        new_text(url_query(&print_escaped(a.all())))
    }),
    Function("call", 1, None, |_, a| {
        Err(format!(
            "non-function {} of type {}",
            a.any(0).display(),
            a.any(0).type_name()
        )
        .into())
    }),
    Function("eq", 1, None, equal),
    Function("ne", 2, Some(2), |_, a| {
        Ok(Value::Bool(!basic_equal(a.any(0), a.any(1))?))
    }),
    Function("lt", 2, Some(2), |_, a| order(a, Ordering::is_lt)),
    Function("le", 2, Some(2), |_, a| order(a, Ordering::is_le)),
    Function("gt", 2, Some(2), |_, a| order(a, Ordering::is_gt)),
    Function("ge", 2, Some(2), |_, a| order(a, Ordering::is_ge)),
];

fn length(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let length = match a.any(0) {
        Value::Text(text) => text.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.now().members.len(),
        Value::Nil if a.is_null(0) => return Err("len of nil pointer".into()),
        Value::Nil => {
            return Err("reflect: call of reflect.Value.Type on zero Value".into());
        }
        other => return Err(format!("len of type {}", other.type_name()).into()),
    };
    Ok(Value::Int(length as i64))
}

fn index(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let mut value = a.any(0).clone();
    if value == Value::Nil {
        return Err("index of untyped nil".into());
    }
    for key in &a.all()[1..] {
        value = match (&value, key) {
            (Value::Map(map), Value::Text(key)) => {
                let member = map.now().members.get(&**key).cloned();
                member.unwrap_or(Value::Nil)
            }
            (Value::Map(_), Value::Nil) => {
                return Err("value is nil; should be of type string".into());
            }
            (Value::Map(_), key) => {
                let text = format!("value has type {}; should be string", key.type_name());
                return Err(text.into());
            }
            (Value::List(list), Value::Int(place) | Value::Int64(place)) => {
                element(&list.items, *place)?
            }
            (Value::Text(text), Value::Int(place) | Value::Int64(place)) => {
                let bytes: Vec<Value> = text
                    .bytes()
                    .map(|byte| Value::Int(i64::from(byte)))
                    .collect();
                element(&bytes, *place)?
            }
            (Value::List(_) | Value::Text(_), Value::Nil) => {
                return Err("cannot index slice/array with nil".into());
            }
            (Value::List(_) | Value::Text(_), key) => {
                return Err(
                    format!("cannot index slice/array with type {}", key.type_name()).into(),
                );
            }
            (other, _) => {
                return Err(format!("can't index item of type {}", other.type_name()).into());
            }
        };
    }
    Ok(value)
}

fn element(items: &[Value], place: i64) -> Answer {
    let item = usize::try_from(place)
        .ok()
        .and_then(|place| items.get(place));
    item.cloned()
        .ok_or_else(|| format!("index out of range: {place}").into())
}

/// Joins as `fmt.Sprint`: a space between two operands when neither is a text.
fn print(values: &[Value]) -> String {
    let mut out = String::new();
    for (place, value) in values.iter().enumerate() {
        let texts = |value: &Value| matches!(value, Value::Text(_));
        if place > 0 && !texts(value) && !texts(&values[place - 1]) {
            out.push(' ');
        }
        out.push_str(&value.display());
    }
    out
}

/// As [`print`] for the functions that escape: they write a nil as a template does.
fn print_escaped(values: &[Value]) -> String {
    let shown: Vec<Value> = values
        .iter()
        .map(|value| match value {
            Value::Nil => Value::text("<no value>"),
            value => value.clone(),
        })
        .collect();
    print(&shown)
}

fn println(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let parts: Vec<String> = a.all().iter().map(Value::display).collect();
    new_text(parts.join(" ") + "\n")
}

fn printf(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let format = a.text(0)?;
    let arguments: Vec<Argument<'_>> = a.all()[1..].iter().map(Value::argument).collect();
    let text = printf::print(format.as_bytes(), &arguments, MAX_TEXT)?;
    super::new_bytes(&text)
}

pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{FFFD}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' | '>' | '&' | '=' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c if c < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c if c.is_ascii() || is_printable(c) => out.push(c),
            c => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        }
    }
    out
}

pub(super) fn url_query(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte))
            }
            b' ' => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn incompatible<T>(a: &Value, b: &Value) -> Result<T, Failure> {
    Err(format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(),
        b.type_name()
    )
    .into())
}

fn basic_equal(a: &Value, b: &Value) -> Result<bool, Failure> {
    match (a, b) {
        // What is there is not nil, whatever it is.
        (Value::List(_) | Value::Map(_), Value::Nil)
        | (Value::Nil, Value::List(_) | Value::Map(_)) => Ok(false),
        (Value::List(_) | Value::Map(_), _) => {
            Err(format!("non-comparable type {}: {}", a.display(), a.type_name()).into())
        }
        (_, Value::List(_) | Value::Map(_)) => {
            Err(format!("non-comparable type {}: {}", b.display(), b.type_name()).into())
        }
        (Value::Nil, _) | (_, Value::Nil) => Ok(a == b),
        (Value::Int(a) | Value::Int64(a), Value::Int(b) | Value::Int64(b)) => Ok(a == b),
        _ if a.type_name() != b.type_name() => incompatible(a, b),
        _ => Ok(a == b),
    }
}

fn equal(_: &mut Context, a: &Arguments<'_>) -> Answer {
    if a.len() < 2 {
        return Err("missing argument for comparison".into());
    }
    for other in &a.all()[1..] {
        if basic_equal(a.any(0), other)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn is_basic(value: &Value) -> bool {
    matches!(
        value,
        Value::Bool(_) | Value::Int(_) | Value::Int64(_) | Value::Float(_) | Value::Text(_)
    )
}

fn order(a: &Arguments<'_>, holds: fn(Ordering) -> bool) -> Answer {
    let order = match (a.any(0), a.any(1)) {
        (Value::Int(a) | Value::Int64(a), Value::Int(b) | Value::Int64(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (a, b) if is_basic(a) && is_basic(b) && a.type_name() != b.type_name() => {
            return incompatible(a, b);
        }
        _ => return Err("invalid type for comparison".into()),
    };
    Ok(Value::Bool(order.is_some_and(holds)))
}

/// A part of a list, as sprig's `slice` in place of the language's own.
pub(super) fn part(list: &List, from: usize, to: usize) -> Answer {
    match list.items.get(from..to) {
        Some(part) => new_list_of(part.to_vec(), list.parts),
        None => Err(format!("slice bounds out of range [{from}:{to}]").into()),
    }
}
