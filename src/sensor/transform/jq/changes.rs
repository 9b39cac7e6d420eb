//! Values as gojq makes them: objects are sorted, whole numbers have no fraction.

use std::rc::Rc;

use jaq_core::Native;
use jaq_core::box_iter::box_once;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::native::{Fun, v};
use jaq_core::path::{Part, Path};
use jaq_json::{Num, Val};

use super::meter::{Data, Name};
use super::values;

/// Sorts the members of an object, and takes the fraction off a whole number.
pub(super) const MADE: Name = "!made";

/// Whether an operator puts something into the value on its left.
pub(super) fn assigns(operator: &BinaryOp<&str>) -> bool {
    matches!(
        operator,
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt
    )
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

/// The function that the meter puts into programs.
pub(super) fn fun() -> Fun<Data> {
    (MADE, v(0), Native::new(|cv| box_once(Ok(made(cv.1)))))
}
