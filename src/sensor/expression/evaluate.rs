//! Values of a tree: numbers are floating point, nothing is converted but the other side of a text in `+`.

use std::borrow::Cow;

use super::ExprError;
use super::plan::{Name, Node, Operator};
use super::value::ExprValue;
use crate::sensor::regex::Regex;

/// Longest text that an expression may build, in bytes.
const MAX_TEXT: usize = 16 << 20;

/// Gives the values of names.
pub(in crate::sensor) trait Names {
    /// The value of the name at this place among [`super::Expression::names`].
    fn value(&self, place: usize, name: &str) -> Option<&ExprValue>;
}

/// A value that is somewhere already, or one that was made.
type Made<'v> = Cow<'v, ExprValue>;

fn made<'v>(value: ExprValue) -> Made<'v> {
    Cow::Owned(value)
}

/// Evaluates a tree.
#[inline]
pub(super) fn evaluate<'v>(node: &'v Node, names: &'v dyn Names) -> Result<Made<'v>, ExprError> {
    match node {
        Node::Literal(value) => Ok(Cow::Borrowed(value)),
        Node::Variable(name) => variable(name, names).map(Cow::Borrowed),
        inner => evaluate_inner(inner, names),
    }
}

/// What has parts; leaves need no call of their own.
#[inline(never)]
fn evaluate_inner<'v>(node: &'v Node, names: &'v dyn Names) -> Result<Made<'v>, ExprError> {
    match node {
        Node::Nothing => Ok(made(ExprValue::Nil)),
        Node::Literal(value) => Ok(Cow::Borrowed(value)),
        Node::Variable(name) => variable(name, names).map(Cow::Borrowed),
        Node::Pattern(pattern) => Ok(made(ExprValue::Text(pattern.as_str().to_string()))),
        Node::Accessor(name, parts) => accessor(name, parts, names),
        Node::Prefix(operator, operand) => {
            let operand = evaluate(operand, names)?;
            prefix(*operator, &operand).map(Cow::Owned)
        }
        Node::Chain(first, rest) => {
            let mut left = evaluate(first, names)?;
            for (operator, right) in rest {
                left = step(left, *operator, right, names)?;
            }
            Ok(left)
        }
    }
}

#[inline]
fn variable<'v>(name: &Name, names: &'v dyn Names) -> Result<&'v ExprValue, ExprError> {
    match names.value(name.place, &name.text) {
        Some(value) => Ok(value),
        None => Err(no_parameter(&name.text)),
    }
}

#[cold]
fn no_parameter(name: &str) -> ExprError {
    ExprError::evaluate(format!("No parameter '{name}' found."))
}

/// No value of an event is a Go struct, so an accessor always fails, in the words of its first step.
fn accessor<'v>(
    name: &Name,
    parts: &[String],
    names: &'v dyn Names,
) -> Result<Made<'v>, ExprError> {
    variable(name, names)?;
    let field = parts.first().map_or("", String::as_str);
    Err(ExprError::evaluate(format!(
        "Unable to access '{field}', '{}' is not a struct",
        name.text
    )))
}

fn prefix(operator: Operator, value: &ExprValue) -> Result<ExprValue, ExprError> {
    match (operator, value) {
        (Operator::Negate, ExprValue::Number(number)) => Ok(ExprValue::Number(-number)),
        (Operator::Invert, ExprValue::Bool(value)) => Ok(ExprValue::Bool(!value)),
        (Operator::BitNot, ExprValue::Number(number)) => {
            Ok(ExprValue::Number(!to_i64(*number) as f64))
        }
        _ => {
            let symbol = operator.symbol();
            Err(ExprError::evaluate(format!(
                "Value '{value}' cannot be used with the prefix '{symbol}'"
            )))
        }
    }
}

/// Applies one operator; the right side is evaluated only where the left one does not decide.
fn step<'v>(
    left: Made<'v>,
    operator: Operator,
    right: &'v Node,
    names: &'v dyn Names,
) -> Result<Made<'v>, ExprError> {
    match (operator, left.as_ref()) {
        (Operator::And, ExprValue::Bool(false)) | (Operator::Or, ExprValue::Bool(true)) => {
            return Ok(left);
        }
        (Operator::Then, ExprValue::Bool(false)) => return Ok(made(ExprValue::Nil)),
        (Operator::Else | Operator::Coalesce, value) if *value != ExprValue::Nil => {
            return Ok(left);
        }
        _ => {}
    }
    if let (Operator::Matches | Operator::DiffersFrom, Node::Pattern(pattern)) = (operator, right) {
        return matching(&left, operator, pattern).map(Cow::Owned);
    }
    let right = evaluate(right, names)?;
    match operator {
        Operator::Separate => Ok(made(separate(left.into_owned(), right.into_owned()))),
        Operator::Else | Operator::Coalesce => Ok(right),
        Operator::Then | Operator::And | Operator::Or => logical(&left, operator, right),
        _ => binary(&left, operator, &right).map(Cow::Owned),
    }
}

/// The operators that make a value of two.
fn binary(left: &ExprValue, operator: Operator, right: &ExprValue) -> Result<ExprValue, ExprError> {
    match operator {
        Operator::Matches | Operator::DiffersFrom => matching_text(left, operator, right),
        Operator::Equal => Ok(ExprValue::Bool(left == right)),
        Operator::NotEqual => Ok(ExprValue::Bool(left != right)),
        Operator::In => member(left, right),
        Operator::Greater | Operator::Less | Operator::GreaterOrEqual | Operator::LessOrEqual => {
            compare(left, operator, right)
        }
        Operator::Plus if left.is_text() || right.is_text() => concatenate(left, right),
        _ => arithmetic(left, operator, right),
    }
}

fn misused(value: &ExprValue, operator: Operator) -> ExprError {
    let symbol = operator.symbol();
    let (name, wanted) = match operator {
        Operator::And | Operator::Or => ("logical operator", "bool"),
        Operator::Then | Operator::Else | Operator::Coalesce => ("ternary operator", "bool"),
        Operator::Greater | Operator::Less | Operator::GreaterOrEqual | Operator::LessOrEqual => {
            ("comparator", "number")
        }
        Operator::Matches | Operator::DiffersFrom | Operator::In => ("comparator", "number"),
        _ => ("modifier", "number"),
    };
    ExprError::evaluate(format!(
        "Value '{value}' cannot be used with the {name} '{symbol}', it is not a {wanted}"
    ))
}

fn separate(left: ExprValue, right: ExprValue) -> ExprValue {
    match left {
        ExprValue::List(mut items) => {
            items.push(right);
            ExprValue::List(items)
        }
        left => ExprValue::List(vec![left, right]),
    }
}

fn logical<'v>(
    left: &ExprValue,
    operator: Operator,
    right: Made<'v>,
) -> Result<Made<'v>, ExprError> {
    if !matches!(left, ExprValue::Bool(_)) {
        return Err(misused(left, operator));
    }
    if operator != Operator::Then && !matches!(*right, ExprValue::Bool(_)) {
        return Err(misused(&right, operator));
    }
    // The left side did not decide, so the right one does.
    Ok(right)
}

fn member(left: &ExprValue, right: &ExprValue) -> Result<ExprValue, ExprError> {
    match right {
        ExprValue::List(items) => Ok(ExprValue::Bool(items.contains(left))),
        other => Err(misused(other, Operator::In)),
    }
}

fn compare(
    left: &ExprValue,
    operator: Operator,
    right: &ExprValue,
) -> Result<ExprValue, ExprError> {
    let order = match (left, right) {
        (ExprValue::Number(left), ExprValue::Number(right)) => left.partial_cmp(right),
        (ExprValue::Text(left), ExprValue::Text(right)) => Some(left.cmp(right)),
        _ => return Err(misused(left, operator)),
    };
    let holds = order.is_some_and(|order| match operator {
        Operator::Greater => order.is_gt(),
        Operator::Less => order.is_lt(),
        Operator::GreaterOrEqual => order.is_ge(),
        _ => order.is_le(),
    });
    Ok(ExprValue::Bool(holds))
}

/// `=~` and `!~` with a pattern that was compiled before.
fn matching(left: &ExprValue, operator: Operator, pattern: &Regex) -> Result<ExprValue, ExprError> {
    let ExprValue::Text(text) = left else {
        return Err(misused(left, operator));
    };
    let matched = pattern.is_match(text.as_bytes());
    Ok(ExprValue::Bool(matched == (operator == Operator::Matches)))
}

/// The same with a pattern that is a value.
fn matching_text(
    left: &ExprValue,
    operator: Operator,
    right: &ExprValue,
) -> Result<ExprValue, ExprError> {
    if !left.is_text() {
        return Err(misused(left, operator));
    }
    let ExprValue::Text(pattern) = right else {
        return Err(misused(right, operator));
    };
    let pattern = Regex::new(pattern).map_err(|error| {
        if error.is_own() {
            return ExprError::Limit(error.to_string());
        }
        ExprError::evaluate(format!(
            "Unable to compile regexp pattern '{pattern}': {error}"
        ))
    })?;
    matching(left, operator, &pattern)
}

fn concatenate(left: &ExprValue, right: &ExprValue) -> Result<ExprValue, ExprError> {
    let text = format!("{left}{right}");
    if text.len() > MAX_TEXT {
        return Err(ExprError::Limit(
            "eventlab: the expression makes a text of more than 16 MiB; join less".to_string(),
        ));
    }
    Ok(ExprValue::Text(text))
}

fn arithmetic(
    left: &ExprValue,
    operator: Operator,
    right: &ExprValue,
) -> Result<ExprValue, ExprError> {
    let (a, b) = match (left.as_number(), right.as_number()) {
        (Some(a), Some(b)) => (a, b),
        // `+` looks at both sides together and names the left one.
        (Some(_), None) if operator != Operator::Plus => return Err(misused(right, operator)),
        _ => return Err(misused(left, operator)),
    };
    Ok(ExprValue::Number(match operator {
        Operator::Plus => a + b,
        Operator::Minus => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::Modulus => a % b,
        Operator::Exponent => a.powf(b),
        Operator::BitAnd => (to_i64(a) & to_i64(b)) as f64,
        Operator::BitOr => (to_i64(a) | to_i64(b)) as f64,
        Operator::BitXor => (to_i64(a) ^ to_i64(b)) as f64,
        Operator::ShiftLeft => shift(a, b, u64::checked_shl),
        _ => shift(a, b, u64::checked_shr),
    }))
}

fn shift(value: f64, by: f64, shift: fn(u64, u32) -> Option<u64>) -> f64 {
    let by = u32::try_from(to_u64(by)).unwrap_or(u32::MAX);
    shift(to_u64(value), by).unwrap_or(0) as f64
}

/// Go's conversion on amd64: what does not fit becomes the smallest number.
fn to_i64(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

fn to_u64(number: f64) -> u64 {
    if number < 9_223_372_036_854_775_808.0 {
        return to_i64(number) as u64;
    }
    (to_i64(number - 9_223_372_036_854_775_808.0) as u64) ^ (1 << 63)
}
