//! Arithmetic: whole numbers by default, floats in the functions that end in `f`.

use super::conversions::{to_float, to_int};
use super::{Answer, Arguments, Function};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("add1", 1, Some(1), |_, a| {
        Ok(Value::Int(to_int(a.any(0)).wrapping_add(1)))
    }),
    Function("add", 0, None, |_, a| {
        Ok(Value::Int(
            a.all()
                .iter()
                .fold(0i64, |sum, n| sum.wrapping_add(to_int(n))),
        ))
    }),
    Function("sub", 2, Some(2), |_, a| {
        Ok(Value::Int(to_int(a.any(0)).wrapping_sub(to_int(a.any(1)))))
    }),
    Function("mul", 1, None, |_, a| {
        Ok(Value::Int(
            a.all()
                .iter()
                .fold(1i64, |product, n| product.wrapping_mul(to_int(n))),
        ))
    }),
    Function("div", 2, Some(2), |_, a| divided(a, i64::checked_div)),
    Function("mod", 2, Some(2), |_, a| divided(a, i64::checked_rem)),
    Function("max", 1, None, |_, a| {
        Ok(Value::Int(a.all().iter().map(to_int).max().unwrap_or(0)))
    }),
    Function("biggest", 1, None, |_, a| {
        Ok(Value::Int(a.all().iter().map(to_int).max().unwrap_or(0)))
    }),
    Function("min", 1, None, |_, a| {
        Ok(Value::Int(a.all().iter().map(to_int).min().unwrap_or(0)))
    }),
    Function("maxf", 1, None, |_, a| folded(a, f64::max)),
    Function("minf", 1, None, |_, a| folded(a, f64::min)),
    Function("add1f", 1, Some(1), |_, a| {
        Ok(Value::Float(to_float(a.any(0)) + 1.0))
    }),
    Function("addf", 1, None, |_, a| folded(a, |a, b| a + b)),
    Function("subf", 1, None, |_, a| folded(a, |a, b| a - b)),
    Function("mulf", 1, None, |_, a| folded(a, |a, b| a * b)),
    Function("divf", 1, None, |_, a| folded(a, |a, b| a / b)),
    Function("ceil", 1, Some(1), |_, a| {
        Ok(Value::Float(to_float(a.any(0)).ceil()))
    }),
    Function("floor", 1, Some(1), |_, a| {
        Ok(Value::Float(to_float(a.any(0)).floor()))
    }),
    Function("round", 2, Some(3), |_, a| {
        let half = if a.len() > 2 { to_float(a.any(2)) } else { 0.5 };
        Ok(Value::Float(round(to_float(a.any(0)), a.int(1)?, half)))
    }),
];

fn divided(a: &Arguments<'_>, divide: fn(i64, i64) -> Option<i64>) -> Answer {
    let (value, by) = (to_int(a.any(0)), to_int(a.any(1)));
    if by == 0 {
        return Err("runtime error: integer divide by zero".to_string());
    }
    // The one overflow gives back what it divides.
    Ok(Value::Int(divide(value, by).unwrap_or(value)))
}

fn folded(a: &Arguments<'_>, fold: fn(f64, f64) -> f64) -> Answer {
    let value = a.all().iter().map(to_float).reduce(fold).unwrap_or(0.0);
    Ok(Value::Float(value))
}

fn round(value: f64, places: i64, half: f64) -> f64 {
    let scale = 10f64.powi(i32::try_from(places).unwrap_or(0));
    let digit = value * scale;
    let fraction = digit.fract();
    let rounded = if fraction >= half {
        digit.ceil()
    } else {
        digit.floor()
    };
    rounded / scale
}
