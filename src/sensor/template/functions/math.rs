//! Arithmetic: whole numbers by default, floats in the functions that end in `f`.

use super::conversions::{to_float, to_int};
use super::decimal::Decimal;
use super::{Answer, Arguments, Context, Function};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("add1", 1, Some(1), |_, a| {
        Ok(Value::Int64(to_int(a.any(0)).wrapping_add(1)))
    }),
    Function("add", 0, None, |_, a| {
        Ok(Value::Int64(
            a.all()
                .iter()
                .fold(0i64, |sum, n| sum.wrapping_add(to_int(n))),
        ))
    }),
    Function("sub", 2, Some(2), |_, a| {
        Ok(Value::Int64(
            to_int(a.any(0)).wrapping_sub(to_int(a.any(1))),
        ))
    }),
    Function("mul", 1, None, |_, a| {
        Ok(Value::Int64(
            a.all()
                .iter()
                .fold(1i64, |product, n| product.wrapping_mul(to_int(n))),
        ))
    }),
    Function("div", 2, Some(2), |_, a| divided(a, i64::checked_div)),
    Function("mod", 2, Some(2), |_, a| divided(a, i64::checked_rem)),
    Function("max", 1, None, |_, a| {
        Ok(Value::Int64(a.all().iter().map(to_int).max().unwrap_or(0)))
    }),
    Function("biggest", 1, None, |_, a| {
        Ok(Value::Int64(a.all().iter().map(to_int).max().unwrap_or(0)))
    }),
    Function("min", 1, None, |_, a| {
        Ok(Value::Int64(a.all().iter().map(to_int).min().unwrap_or(0)))
    }),
    Function("maxf", 1, None, |_, a| folded(a, larger)),
    Function("minf", 1, None, |_, a| folded(a, |a, b| -larger(-a, -b))),
    Function("add1f", 1, Some(1), |context, a| {
        decimal(context, &[a.any(0).clone(), Value::Float(1.0)], |a, b| {
            Some(a.add(b))
        })
    }),
    Function("addf", 0, None, |context, a| {
        decimal(context, a.all(), |a, b| Some(a.add(b)))
    }),
    Function("subf", 1, None, |context, a| {
        decimal(context, a.all(), |a, b| Some(a.sub(b)))
    }),
    Function("mulf", 1, None, |context, a| {
        decimal(context, a.all(), |a, b| Some(a.mul(b)))
    }),
    Function("divf", 1, None, |context, a| {
        decimal(context, a.all(), Decimal::div)
    }),
    Function("ceil", 1, Some(1), |_, a| {
        Ok(Value::Float(to_float(a.any(0)).ceil()))
    }),
    Function("floor", 1, Some(1), |_, a| {
        Ok(Value::Float(to_float(a.any(0)).floor()))
    }),
    Function("round", 2, Some(3), |_, a| {
        let half = if a.len() > 2 { a.float(2)? } else { 0.5 };
        Ok(Value::Float(round(to_float(a.any(0)), a.int(1)?, half)))
    }),
];

fn divided(a: &Arguments<'_>, divide: fn(i64, i64) -> Option<i64>) -> Answer {
    let (value, by) = (to_int(a.any(0)), to_int(a.any(1)));
    if by == 0 {
        return Err("runtime error: integer divide by zero".into());
    }
    // The one overflow gives back what it divides.
    Ok(Value::Int64(divide(value, by).unwrap_or(value)))
}

/// The larger of two: infinity before what is no number, that before the rest, and 0 before -0.
fn larger(a: f64, b: f64) -> f64 {
    match (a, b) {
        (f64::INFINITY, _) | (_, f64::INFINITY) => f64::INFINITY,
        (a, b) if a.is_nan() || b.is_nan() => f64::NAN,
        (a, b) if a == 0.0 && b == 0.0 => a + b,
        (a, b) => a.max(b),
    }
}

fn folded(a: &Arguments<'_>, fold: fn(f64, f64) -> f64) -> Answer {
    let value = a.all().iter().map(to_float).reduce(fold).unwrap_or(0.0);
    Ok(Value::Float(value))
}

type Calculate = fn(&Decimal, &Decimal) -> Option<Decimal>;

/// Folds over decimals, whose digits grow with every operand.
fn decimal(context: &mut Context, values: &[Value], calculate: Calculate) -> Answer {
    let read = |value: &Value| {
        let value = to_float(value);
        Decimal::from_float(value).ok_or_else(|| format!("Cannot create a Decimal from {value}"))
    };
    context
        .steps
        .take(values.len().saturating_mul(values.len()))?;
    let mut values = values.iter();
    let mut result = match values.next() {
        Some(first) => read(first)?,
        None => return Ok(Value::Float(0.0)),
    };
    for value in values {
        result = calculate(&result, &read(value)?).ok_or("decimal division by 0")?;
    }
    Ok(Value::Float(result.to_float()))
}

fn round(value: f64, places: i64, half: f64) -> f64 {
    let scale = 10f64.powi(i32::try_from(places.clamp(-400, 400)).unwrap_or(0));
    let digit = value * scale;
    let fraction = digit.fract();
    let rounded = if fraction >= half {
        digit.ceil()
    } else {
        digit.floor()
    };
    rounded / scale
}
