//! Types, defaults and conversions.

use super::{Answer, Arguments, Context, Function, new_text};
use crate::sensor::number::{parse_bool, parse_float};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("default", 1, None, |_, a| {
        let given = a.all().get(1).filter(|value| value.is_true());
        Ok(given.unwrap_or(a.any(0)).clone())
    }),
    Function("empty", 1, Some(1), |_, a| {
        Ok(Value::Bool(!a.any(0).is_true()))
    }),
    Function("coalesce", 0, None, |_, a| {
        Ok(a.all()
            .iter()
            .find(|value| value.is_true())
            .cloned()
            .unwrap_or(Value::Nil))
    }),
    Function("all", 0, None, |_, a| {
        Ok(Value::Bool(a.all().iter().all(Value::is_true)))
    }),
    Function("any", 0, None, |_, a| {
        Ok(Value::Bool(a.all().iter().any(Value::is_true)))
    }),
    Function("ternary", 3, Some(3), |_, a| {
        Ok(a.any(usize::from(!a.bool(2)?)).clone())
    }),
    Function("fail", 1, Some(1), |_, a| Err(a.text(0)?.to_string())),
    Function("int", 1, Some(1), |_, a| Ok(Value::Int(to_int(a.any(0))))),
    Function("int64", 1, Some(1), |_, a| {
        Ok(Value::Int64(to_int(a.any(0))))
    }),
    Function("float64", 1, Some(1), |_, a| {
        Ok(Value::Float(to_float(a.any(0))))
    }),
    Function("atoi", 1, Some(1), |_, a| {
        Ok(Value::Int(a.text(0)?.parse().unwrap_or(0)))
    }),
    Function("toDecimal", 1, Some(1), |_, a| {
        let octal = i64::from_str_radix(a.any(0).display().trim(), 8);
        Ok(Value::Int64(octal.unwrap_or(0)))
    }),
    Function("typeOf", 1, Some(1), |_, a| new_text(a.any(0).type_name())),
    Function("typeIs", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.text(0)? == a.any(1).type_name()))
    }),
    Function("typeIsLike", 2, Some(2), |_, a| {
        Ok(Value::Bool(
            a.text(0)?.trim_start_matches('*') == a.any(1).type_name(),
        ))
    }),
    Function("kindOf", 1, Some(1), |_, a| new_text(a.any(0).kind_name())),
    Function("kindIs", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.text(0)? == a.any(1).kind_name()))
    }),
    Function("deepEqual", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.any(0) == a.any(1)))
    }),
    Function("semver", 1, Some(1), semver),
    Function("semverCompare", 2, Some(2), semver_compare),
];

/// The whole number that sprig makes of a value: 0 where there is none.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(value) | Value::Int64(value) => *value,
        Value::Float(value) => *value as i64,
        Value::Bool(value) => i64::from(*value),
        Value::Text(text) => integer(text),
        _ => 0,
    }
}

/// A text with its base in front; a float's text only where nothing but zeros follows the point.
fn integer(text: &str) -> i64 {
    let whole = text
        .split_once('.')
        .filter(|(_, rest)| rest.bytes().all(|byte| byte == b'0'));
    let text = whole.map_or(text, |(whole, _)| whole);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let parsed = match lower.get(..2) {
        Some("0x") => i64::from_str_radix(&lower[2..], 16),
        Some("0b") => i64::from_str_radix(&lower[2..], 2),
        Some("0o") => i64::from_str_radix(&lower[2..], 8),
        _ => lower.trim_start_matches('0').parse().or_else(|error| {
            if lower.bytes().all(|b| b == b'0') {
                Ok(0)
            } else {
                Err(error)
            }
        }),
    };
    parsed.map_or(0, |value| sign * value)
}

/// The float that sprig makes of a value: 0 where there is none.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(value) | Value::Int64(value) => *value as f64,
        Value::Float(value) => *value,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Text(text) => parse_float(text.as_bytes())
            .ok()
            .or_else(|| {
                parse_bool(text.as_bytes())
                    .ok()
                    .map(|value| f64::from(u8::from(value)))
            })
            .unwrap_or(0.0),
        _ => 0.0,
    }
}

/// Major, minor and patch, and what follows them.
type Version = ([u64; 3], String);

fn version(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches('v');
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let mut numbers = [0; 3];
    let mut parts = text[..end].split('.');
    for number in &mut numbers {
        match parts.next() {
            Some(part) => *number = part.parse().ok()?,
            None => break,
        }
    }
    let plain = text[end..].split('+').next().unwrap_or_default();
    parts
        .next()
        .is_none()
        .then(|| (numbers, plain.trim_start_matches('-').to_string()))
}

fn semver(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let Some((numbers, suffix)) = version(a.text(0)?) else {
        return Err("Invalid Semantic Version".to_string());
    };
    let dash = if suffix.is_empty() { "" } else { "-" };
    new_text(format!(
        "{}.{}.{}{dash}{suffix}",
        numbers[0], numbers[1], numbers[2]
    ))
}

/// Compares by the simple constraints: `=`, `!=`, `<`, `<=`, `>`, `>=`, `^`, `~`, joined by commas.
fn semver_compare(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let Some(found) = version(a.text(1)?) else {
        return Err("Invalid Semantic Version".to_string());
    };
    for constraint in a.text(0)?.split([',', ' ']).filter(|part| !part.is_empty()) {
        let digits = constraint
            .find(|c: char| c.is_ascii_digit() || c == 'v')
            .unwrap_or(constraint.len());
        let (operator, wanted) = constraint.split_at(digits);
        let Some(wanted) = version(wanted) else {
            return Err(format!("improper constraint: {constraint}"));
        };
        let order = found.0.cmp(&wanted.0);
        let holds = match operator {
            "" | "=" => order.is_eq(),
            "!=" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            ">=" => order.is_ge(),
            "^" => order.is_ge() && found.0[0] == wanted.0[0],
            "~" => order.is_ge() && found.0[..2] == wanted.0[..2],
            _ => return Err(format!("improper constraint: {constraint}")),
        };
        if !holds {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}
