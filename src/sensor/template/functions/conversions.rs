//! Types, defaults and conversions.

use std::num::IntErrorKind;
use std::rc::Rc;

use super::{Function, new_text};
use crate::sensor::number::parse_float;
use crate::sensor::template::literal::integer;
use crate::sensor::template::semver::{self, Version};
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
    Function("fail", 1, Some(1), |_, a| Err(a.text(0)?.into())),
    Function("int", 1, Some(1), |_, a| Ok(Value::Int(to_int(a.any(0))))),
    Function("int64", 1, Some(1), |_, a| {
        Ok(Value::Int64(to_int(a.any(0))))
    }),
    Function("float64", 1, Some(1), |_, a| {
        Ok(Value::Float(to_float(a.any(0))))
    }),
    Function("atoi", 1, Some(1), |_, a| {
        Ok(Value::Int(decimal(a.text(0)?)))
    }),
    Function("toDecimal", 1, Some(1), |_, a| {
        let octal = i64::from_str_radix(&a.any(0).display(), 8);
        Ok(Value::Int64(octal.unwrap_or(0)))
    }),
    Function("typeOf", 1, Some(1), |_, a| new_text(a.any(0).type_name())),
    Function("typeIs", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.text(0)? == a.any(1).type_name()))
    }),
    Function("typeIsLike", 2, Some(2), |_, a| {
        let (wanted, found) = (a.text(0)?, a.any(1).type_name());
        Ok(Value::Bool(
            wanted == found || found.strip_prefix('*') == Some(wanted),
        ))
    }),
    Function("kindOf", 1, Some(1), |_, a| new_text(a.any(0).kind_name())),
    Function("kindIs", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.text(0)? == a.any(1).kind_name()))
    }),
    Function("deepEqual", 2, Some(2), |_, a| {
        Ok(Value::Bool(a.any(0) == a.any(1)))
    }),
    Function("semver", 1, Some(1), |_, a| {
        Ok(Value::Version(Rc::new(Version::parse(a.text(0)?)?)))
    }),
    Function("semverCompare", 2, Some(2), |_, a| {
        Ok(Value::Bool(semver::meets(a.text(0)?, a.text(1)?)?))
    }),
];

/// The whole number that sprig makes of a value: 0 where there is none.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(value) | Value::Int64(value) => *value,
        Value::Float(value) => truncated(*value),
        Value::Bool(value) => i64::from(*value),
        Value::Text(text) => whole(text).unwrap_or(0),
        _ => 0,
    }
}

/// A float without its fraction; what is outside of 64 bits becomes the least number, as on amd64.
fn truncated(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// A whole number as Go's source writes it; a point and plain digits behind it are left out.
fn whole(text: &str) -> Option<i64> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let text = match text.split_once('.') {
        Some((whole, rest)) if digits(rest) && digits(whole.trim_start_matches(['+', '-'])) => {
            if digits(whole) || whole.len() > 1 {
                whole
            } else {
                ""
            }
        }
        Some(_) => return None,
        None if text.is_empty() => "",
        None => text,
    };
    match text {
        "" => Some(0),
        text => integer(text).and_then(|value| i64::try_from(value).ok()),
    }
}

/// Decimal digits with a sign, or the nearest number that fits.
pub(super) fn decimal(text: &str) -> i64 {
    text.parse()
        .unwrap_or_else(|error: std::num::ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => i64::MAX,
            IntErrorKind::NegOverflow => i64::MIN,
            _ => 0,
        })
}

/// The float that sprig makes of a value: 0 where there is none.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(value) | Value::Int64(value) => *value as f64,
        Value::Float(value) => *value,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Text(text) => parse_float(text.as_bytes()).unwrap_or(0.0),
        _ => 0.0,
    }
}
