//! Values between serde and jaq.

use std::rc::Rc;

use jaq_json::{Map, Num, Val};
use serde_json::{Number, Value};

use super::super::TransformError;
use super::{failed, unsupported};
use crate::sensor::number::format_json;

/// Values of an output altogether.
const MAX_VALUES: usize = 1_000_000;
/// Deepest value of an output.
const MAX_DEPTH: usize = 250;

/// An output as JSON.
pub(super) fn to_json(value: &Val) -> Result<Value, TransformError> {
    let mut left = MAX_VALUES;
    convert(value, 0, &mut left)
}

/// The event as gojq sees it: numbers are floating point, members are sorted.
pub(super) fn from_json(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        Value::Number(number) => Val::Num(number_of(number)),
        Value::String(text) => Val::utf8_str(text.clone().into_bytes()),
        Value::Array(items) => Val::Arr(Rc::new(items.iter().map(from_json).collect())),
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| key.as_str());
            let members = sorted
                .into_iter()
                .map(|(key, value)| (Val::utf8_str(key.clone().into_bytes()), from_json(value)));
            Val::obj(members.collect::<Map>())
        }
    }
}

fn number_of(number: &Number) -> Num {
    plain(number.as_f64().unwrap_or(f64::NAN))
}

/// A whole number that floating point holds exactly is an integer here, so that its text has no fraction.
pub(super) fn plain(float: f64) -> Num {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0
        && float.abs() < EXACT
        && let Ok(whole) = format!("{float:.0}").parse::<isize>()
    {
        return Num::Int(whole);
    }
    // jaq writes these with an exponent where gojq writes digits.
    if float.is_finite() && float != 0.0 && !(1e-4..EXACT).contains(&float.abs()) {
        return Num::Dec(Rc::new(format_json(float)));
    }
    Num::Float(float)
}

fn convert(value: &Val, depth: usize, left: &mut usize) -> Result<Value, TransformError> {
    let large = || unsupported("the output of the jq program is too large");
    if depth > MAX_DEPTH {
        return Err(large());
    }
    *left = left.checked_sub(1).ok_or_else(large)?;
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(flag) => Value::Bool(*flag),
        Val::Num(number) => {
            let text = number.to_string();
            let float: f64 = text.parse().unwrap_or(f64::NAN);
            match float.fract() {
                0.0 if text.parse::<i64>().is_ok() => text.parse::<i64>().unwrap_or(0).into(),
                _ => Number::from_f64(float)
                    .map(Value::Number)
                    .ok_or_else(|| failed("json: unsupported value"))?,
            }
        }
        Val::TStr(text) | Val::BStr(text) => {
            Value::String(String::from_utf8_lossy(text).into_owned())
        }
        Val::Arr(items) => items
            .iter()
            .map(|item| convert(item, depth + 1, left))
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        Val::Obj(members) => {
            let mut object = serde_json::Map::new();
            for (key, value) in members.iter() {
                let Val::TStr(key) = key else {
                    return Err(failed(
                        "an object of the jq program has a key that is no text",
                    ));
                };
                let key = String::from_utf8_lossy(key).into_owned();
                object.insert(key, convert(value, depth + 1, left)?);
            }
            Value::Object(object)
        }
    })
}
