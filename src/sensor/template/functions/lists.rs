//! Lists.

use super::builtins::part;
use super::conversions::to_int;
use super::{Answer, Arguments, Context, Function, new_list, new_list_of};
use crate::sensor::template::limits::{Failure, TooLarge};
use crate::sensor::template::value::{Parts, Value};

/// Elements that `until` and its like may make.
const MAX_COUNT: i64 = 100_000;

pub(super) const TABLE: &[Function] = &[
    Function("list", 0, None, |_, a| new_list(a.all().to_vec())),
    Function("tuple", 0, None, |_, a| new_list(a.all().to_vec())),
    Function("first", 1, Some(1), |_, a| {
        Ok(items(a, 0, "first")?.first().cloned().unwrap_or(Value::Nil))
    }),
    Function("last", 1, Some(1), |_, a| {
        Ok(items(a, 0, "last")?.last().cloned().unwrap_or(Value::Nil))
    }),
    Function("rest", 1, Some(1), |_, a| match items(a, 0, "rest")? {
        [] => Ok(Value::absent_list(Parts::Any)),
        [_, rest @ ..] => new_list(rest.to_vec()),
    }),
    Function("initial", 1, Some(1), |_, a| {
        match items(a, 0, "initial")? {
            [] => Ok(Value::absent_list(Parts::Any)),
            [initial @ .., _] => new_list(initial.to_vec()),
        }
    }),
    Function("append", 2, Some(2), append),
    Function("push", 2, Some(2), append),
    Function("prepend", 2, Some(2), |_, a| {
        let items = items(a, 0, "prepend")?;
        new_list(std::iter::once(a.any(1)).chain(items).cloned().collect())
    }),
    Function("concat", 0, None, |_, a| {
        let mut all = Vec::new();
        for place in 0..a.len() {
            all.extend_from_slice(items(a, place, "concat")?);
        }
        if all.is_empty() {
            return Ok(Value::absent_list(Parts::Any));
        }
        new_list(all)
    }),
    Function("reverse", 1, Some(1), |_, a| {
        new_list(items(a, 0, "reverse")?.iter().rev().cloned().collect())
    }),
    Function("uniq", 1, Some(1), uniq),
    Function("without", 1, None, |context, a| {
        let (items, left_out) = (items(a, 0, "without")?, &a.all()[1..]);
        context
            .steps
            .take(items.len().saturating_mul(left_out.len()))?;
        new_list(
            items
                .iter()
                .filter(|item| !left_out.contains(item))
                .cloned()
                .collect(),
        )
    }),
    Function("has", 2, Some(2), |_, a| match a.any(1) {
        Value::Nil => Ok(Value::Bool(false)),
        _ => Ok(Value::Bool(items(a, 1, "has")?.contains(a.any(0)))),
    }),
    Function("compact", 1, Some(1), |_, a| {
        new_list(
            items(a, 0, "compact")?
                .iter()
                .filter(|item| item.is_true())
                .cloned()
                .collect(),
        )
    }),
    Function("slice", 1, None, slice),
    Function("chunk", 2, Some(2), chunk),
    Function("until", 1, Some(1), |context, a| {
        let count = a.int(0)?;
        steps(context, 0, count, if count < 0 { -1 } else { 1 })
    }),
    Function("untilStep", 3, Some(3), |context, a| {
        let (start, stop, step) = (a.int(0)?, a.int(1)?, a.int(2)?);
        let none = step == 0 || (stop < start && step >= 0) || (stop > start && step <= 0);
        if none {
            new_list_of(Vec::new(), Parts::Int)
        } else {
            steps(context, start, stop, step)
        }
    }),
    Function("seq", 0, Some(3), seq),
];

fn items<'a>(a: &Arguments<'a>, place: usize, name: &str) -> Result<&'a [Value], Failure> {
    match a.any(place) {
        Value::List(list) => Ok(&list.items),
        Value::Nil => Err(format!("Cannot find {name} on type invalid").into()),
        other => Err(format!("Cannot find {name} on type {}", other.kind_name()).into()),
    }
}

fn append(_: &mut Context, a: &Arguments<'_>) -> Answer {
    new_list(
        items(a, 0, "push")?
            .iter()
            .chain([a.any(1)])
            .cloned()
            .collect(),
    )
}

/// Parts of one size. Of sizes below one, those that Go reckons to no part at all give an empty list.
fn chunk(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let (size, items) = (a.int(0)?, items(a, 1, "chunk")?);
    let size = match usize::try_from(size) {
        Ok(size) if size > 0 => size,
        _ => {
            let count = ((items.len() as f64 - 1.0) / size as f64).floor() + 1.0;
            if count == 0.0 {
                return new_list_of(Vec::new(), Parts::Lists);
            }
            if items.len() != 1 || size == 0 {
                return Err("runtime error: makeslice: len out of range".into());
            }
            1
        }
    };
    let parts = items.chunks(size).map(|part| new_list(part.to_vec()));
    new_list_of(parts.collect::<Result<_, _>>()?, Parts::Lists)
}

fn uniq(context: &mut Context, a: &Arguments<'_>) -> Answer {
    let mut kept: Vec<Value> = Vec::new();
    for item in items(a, 0, "uniq")? {
        context
            .steps
            .take(kept.len().saturating_add(item.weight()))?;
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    new_list(kept)
}

fn slice(_: &mut Context, a: &Arguments<'_>) -> Answer {
    let Value::List(list) = a.any(0) else {
        return Err(format!(
            "list should be type of slice or array but {}",
            a.any(0).kind_name()
        )
        .into());
    };
    if list.items.is_empty() {
        return Ok(Value::Nil);
    }
    let place = |at: usize, default: usize| match a.len() > at {
        true => usize::try_from(to_int(a.any(at))).unwrap_or(usize::MAX),
        false => default,
    };
    part(list, place(1, 0), place(2, list.items.len()))
}

fn range(start: i64, stop: i64, step: i64) -> Result<Vec<i64>, Failure> {
    let count = (i128::from(stop) - i128::from(start)).unsigned_abs()
        / i128::from(step).unsigned_abs().max(1);
    if count > MAX_COUNT.unsigned_abs().into() {
        return Err(TooLarge.into());
    }
    let mut values = Vec::new();
    let mut at = start;
    while if step < 0 { at > stop } else { at < stop } {
        values.push(at);
        match at.checked_add(step) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(values)
}

fn steps(context: &mut Context, start: i64, stop: i64, step: i64) -> Answer {
    let values = range(start, stop, step)?;
    context.steps.take(values.len())?;
    new_list_of(values.into_iter().map(Value::Int).collect(), Parts::Int)
}

/// Numbers as `seq` of the shell prints them, with the last one.
fn seq(context: &mut Context, a: &Arguments<'_>) -> Answer {
    let number = |at: usize| a.int(at);
    let (start, stop, step) = match a.len() {
        0 => return super::new_text(""),
        1 => {
            let stop = number(0)?;
            (1, stop, if stop < 1 { -1 } else { 1 })
        }
        2 => {
            let (start, stop) = (number(0)?, number(1)?);
            (start, stop, if stop < start { -1 } else { 1 })
        }
        _ => (number(0)?, number(2)?, number(1)?),
    };
    if step == 0 || (step > 0) != (stop >= start) {
        return super::new_text("");
    }
    let values = range(start, stop.saturating_add(step.signum()), step)?;
    context.steps.take(values.len())?;
    let texts: Vec<String> = values.iter().map(i64::to_string).collect();
    super::new_text(texts.join(" "))
}
