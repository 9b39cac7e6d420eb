//! Values as gojq makes them: what is not there yet comes into being, objects are sorted, whole numbers have no fraction.

use std::rc::Rc;

use jaq_core::Native;
use jaq_core::box_iter::box_once;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::native::{Fun, v};
use jaq_core::path::{Part, Path};
use jaq_json::{Map, Num, Val};

use super::meter::{Data, Name, call, charge, is_plain_text, pipe, stop};
use super::values;

/// Sorts the members of an object, and takes the fraction off a whole number.
pub(super) const MADE: Name = "!made";
/// Takes nothing for an object, when something is put into it.
const OBJECT: Name = "!object";
/// Takes an array for one that is long enough, and nothing for an array, when something is put into it.
const ROOM: Name = "!room";
/// Longest array that comes into being by an index.
const MAX_ROOM: usize = 100_000;

/// Whether an operator puts something into the value on its left.
pub(super) fn assigns(operator: &BinaryOp<&str>) -> bool {
    matches!(
        operator,
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt
    )
}

/// The left side of such an operator, on which what is not there comes into being.
pub(super) fn creating(term: Term<&str>) -> Term<&str> {
    match term {
        Term::Path(base, path) => {
            let (mut base, mut parts) = (creating(*base), Vec::new());
            for (part, optional) in path.0 {
                let made = match &part {
                    Part::Index(index) if is_plain_text(index) => Some(call(OBJECT)),
                    Part::Index(Term::Num(text)) if text.parse::<usize>().is_ok() => {
                        Some(Term::Call(ROOM, vec![Term::Num(*text)]))
                    }
                    _ => None,
                };
                if let Some(made) = made {
                    base = pipe(under(base, &mut parts), made);
                }
                parts.push((part, optional));
            }
            under(base, &mut parts)
        }
        Term::BinOp(left, operator @ (BinaryOp::Comma | BinaryOp::Pipe(None)), right) => {
            let (left, right) = (creating(*left), creating(*right));
            Term::BinOp(Box::new(left), operator, Box::new(right))
        }
        other => other,
    }
}

pub(super) type Parts<'s> = Vec<(Part<Term<&'s str>>, jaq_core::path::Opt)>;

/// What lies at the end of a path, of which nothing is left over.
pub(super) fn under<'s>(base: Term<&'s str>, parts: &mut Parts<'s>) -> Term<&'s str> {
    if parts.is_empty() {
        return base;
    }
    Term::Path(Box::new(base), Path(std::mem::take(parts)))
}

fn sorted(value: Val) -> Val {
    let Val::Obj(members) = value else {
        return value;
    };
    if members.keys().is_sorted() {
        return Val::Obj(members);
    }
    let mut members = Rc::unwrap_or_clone(members);
    members.sort_keys();
    Val::obj(members)
}

fn made(value: Val) -> Val {
    match value {
        Val::Num(Num::Float(float)) => Val::Num(values::plain(float)),
        Val::Num(Num::Dec(text)) => Val::Num(values::plain(text.parse().unwrap_or(f64::NAN))),
        other => sorted(other),
    }
}

/// An array in which there is something at an index.
fn with_room(value: Val, index: &Val) -> Val {
    let index: usize = index.to_string().parse().unwrap_or(0);
    let mut items = match value {
        Val::Null => Rc::default(),
        Val::Arr(items) if items.len() <= index => items,
        other => return other,
    };
    if index >= MAX_ROOM {
        stop("it makes an array that is too long");
    }
    charge(index as u64);
    Rc::make_mut(&mut items).resize(index + 1, Val::Null);
    Val::Arr(items)
}

/// The functions that [`creating`] and the meter put into programs.
pub(super) fn funs() -> [Fun<Data>; 3] {
    [
        (MADE, v(0), Native::new(|cv| box_once(Ok(made(cv.1))))),
        (
            OBJECT,
            v(0),
            Native::new(|cv| box_once(Ok(cv.1)))
                .with_paths(|cv| box_once(Ok(cv.1)))
                .with_update(|cv, update| match cv.1 {
                    // Where nothing is put in, there stays nothing.
                    Val::Null => Box::new(update(Val::obj(Map::default())).filter(
                        |made| !matches!(made, Ok(Val::Obj(members)) if members.is_empty()),
                    )),
                    other => Box::new(update(other).map(|made| made.map(sorted))),
                }),
        ),
        (
            ROOM,
            v(1),
            Native::new(|cv| box_once(Ok(cv.1)))
                .with_paths(|cv| box_once(Ok(cv.1)))
                .with_update(|mut cv, update| update(with_room(cv.1, &cv.0.pop_var()))),
        ),
    ]
}
