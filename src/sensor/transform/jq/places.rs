//! Places in values, as gojq reads, changes and deletes them: one after the other, by paths into the value as it was.
//!
//! jaq's own operators change a value while they walk over it, which comes to something else where places lie inside
//! one another, are taken away, or are not there yet.

use std::rc::Rc;

use jaq_core::box_iter::box_once;
use jaq_core::native::{Fun, v};
use jaq_core::{Bind, Error, Native};
use jaq_json::{Map, Val};

use super::meter::{Data, Name, charge, stop};

/// Puts what the second argument makes of each place of the first one there; where it makes nothing, the place goes.
pub(super) const MODIFY: Name = "!modify";
/// Puts the second argument at each place of the first one.
pub(super) const ASSIGN: Name = "!assign";
/// The value with another one at a path.
const SET: Name = "eventlab_setpath";
/// The value without what is at paths.
const DELETE: Name = "eventlab_delpaths";
/// Longest array that comes into being by an index.
const MAX_ROOM: usize = 100_000;
/// Longest path at which something is set: no value may be nested more deeply.
const MAX_PATH: usize = 1000;

type Result<T> = std::result::Result<T, Error<Val>>;

/// What takes the place of a value until all that is deleted is known: no program has texts of bytes.
fn gone() -> Val {
    Val::byte_str(b"!gone".to_vec())
}

fn is_gone(value: &Val) -> bool {
    matches!(value, Val::BStr(_))
}

fn no_object<T>() -> Result<T> {
    Err(Error::str("expected an object"))
}

fn no_array<T>() -> Result<T> {
    Err(Error::str("expected an array"))
}

/// A number as gojq makes an index of it.
fn whole(number: &Val, up: bool) -> i64 {
    let number: f64 = number.to_string().parse().unwrap_or(f64::NAN);
    let number = if up { number.ceil() } else { number.trunc() };
    number as i64
}

/// An index from the begin, negative where it lies before that.
fn from_begin(index: i64, length: usize) -> i64 {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    if index < 0 {
        index.saturating_add(length)
    } else {
        index
    }
}

/// Where a part of an array begins and ends.
fn part(bounds: &Map, length: usize) -> Result<(usize, usize)> {
    let bound = |name: &str, up: bool| match bounds.get(&Val::utf8_str(name.to_owned())) {
        None | Some(Val::Null) => Ok(None),
        Some(number @ Val::Num(_)) => {
            let index = from_begin(whole(number, up), length).max(0);
            Ok(Some(usize::try_from(index).unwrap_or(length).min(length)))
        }
        Some(_) => Err(Error::str("expected a number for an array index")),
    };
    let start = bound("start", false)?.unwrap_or(0);
    let end = bound("end", true)?.unwrap_or(length);
    Ok((start, end.max(start)))
}

/// The value at a path.
fn get(value: &Val, path: &[Val]) -> Result<Val> {
    let mut value = value.clone();
    for key in path {
        value = match (&value, key) {
            (Val::Null, Val::TStr(_) | Val::Num(_) | Val::Arr(_) | Val::Obj(_)) => Val::Null,
            (Val::Obj(members), Val::TStr(_)) => members.get(key).cloned().unwrap_or_default(),
            (Val::Arr(items), Val::Num(_)) => {
                let index = usize::try_from(from_begin(whole(key, false), items.len()));
                let item = index.ok().and_then(|index| items.get(index));
                item.cloned().unwrap_or_default()
            }
            (Val::Arr(items), Val::Obj(bounds)) => {
                let (start, end) = part(bounds, items.len())?;
                charge((end - start) as u64);
                items[start..end].iter().cloned().collect()
            }
            (Val::Arr(_), Val::Arr(_)) => {
                stop("it looks for an array in an array; use `index` of a text, or a script")
            }
            (_, Val::TStr(_)) => return no_object(),
            _ => return no_array(),
        };
    }
    Ok(value)
}

/// The value with another one at a path.
fn set(value: Val, path: &[Val], new: Val) -> Result<Val> {
    if path.len() > MAX_PATH {
        stop("it sets a value at a path that is too long");
    }
    charge(1);
    let Some((key, rest)) = path.split_first() else {
        return Ok(new);
    };
    match (value, key) {
        (value, _) if is_gone(&value) => Ok(value),
        (Val::Null, Val::TStr(_)) => set_member(None, key, rest, new),
        (Val::Obj(members), Val::TStr(_)) => set_member(Some(members), key, rest, new),
        (_, Val::TStr(_)) => no_object(),
        (Val::Null, Val::Num(_)) => set_item(None, whole(key, false), rest, new),
        (Val::Arr(items), Val::Num(_)) => set_item(Some(items), whole(key, false), rest, new),
        (Val::Null, Val::Obj(bounds)) => set_part(None, bounds, rest, new),
        (Val::Arr(items), Val::Obj(bounds)) => set_part(Some(items), bounds, rest, new),
        (_, Val::Num(_) | Val::Obj(_)) => no_array(),
        _ => Err(Error::str("expected a string or a number for a place")),
    }
}

fn set_member(members: Option<Rc<Map>>, key: &Val, rest: &[Val], new: Val) -> Result<Val> {
    let there = members
        .as_ref()
        .is_some_and(|members| members.contains_key(key));
    if !there && is_gone(&new) {
        return Ok(members.map_or(Val::Null, Val::Obj));
    }
    let mut members = taken(members.unwrap_or_default(), |members| members.len());
    let old = members.get_mut(key).map(std::mem::take).unwrap_or_default();
    members.insert(key.clone(), set(old, rest, new)?);
    if !there {
        charge(members.len() as u64);
        members.sort_keys();
    }
    Ok(Val::obj(members))
}

fn set_item(items: Option<Rc<Vec<Val>>>, index: i64, rest: &[Val], new: Val) -> Result<Val> {
    let length = items.as_ref().map_or(0, |items| items.len());
    let index = from_begin(index, length);
    let place = usize::try_from(index).ok();
    let there = place.is_some_and(|place| place < length);
    if !there && is_gone(&new) {
        return Ok(items.map_or(Val::Null, Val::Arr));
    }
    let Some(place) = place else {
        return Err(Error::str("array index should not be negative"));
    };
    if !there && place >= MAX_ROOM {
        stop("it makes an array that is too long");
    }
    let mut items = taken(items.unwrap_or_default(), |items| items.len());
    if !there {
        charge((place - length) as u64);
        items.resize(place + 1, Val::Null);
    }
    let old = std::mem::take(&mut items[place]);
    items[place] = set(old, rest, new)?;
    Ok(Val::Arr(Rc::new(items)))
}

fn set_part(items: Option<Rc<Vec<Val>>>, bounds: &Map, rest: &[Val], new: Val) -> Result<Val> {
    let length = items.as_ref().map_or(0, |items| items.len());
    let (start, end) = part(bounds, length)?;
    if start == end && is_gone(&new) {
        return Ok(items.map_or(Val::Null, Val::Arr));
    }
    let mut items = taken(items.unwrap_or_default(), |items| items.len());
    charge(length as u64);
    let old = items[start..end].iter().cloned().collect();
    match set(old, rest, new)? {
        Val::Arr(new) => {
            charge(new.len() as u64);
            items.splice(start..end, new.iter().cloned());
        }
        new if is_gone(&new) => items[start..end].fill(new),
        _ => return no_array(),
    }
    Ok(Val::Arr(Rc::new(items)))
}

/// What is shared, to be changed: a copy where another holds it, too.
fn taken<T: Clone>(shared: Rc<T>, length: impl Fn(&T) -> usize) -> T {
    Rc::try_unwrap(shared).unwrap_or_else(|shared| {
        charge(length(&shared) as u64);
        T::clone(&shared)
    })
}

/// The value without what is at the paths.
fn delete(mut value: Val, paths: &[Vec<Val>]) -> Result<Val> {
    if paths.is_empty() {
        return Ok(value);
    }
    for path in paths {
        charge(1 + path.len() as u64);
        value = set(value, path, gone())?;
    }
    Ok(swept(value))
}

fn swept(value: Val) -> Val {
    charge(1);
    match value {
        value if is_gone(&value) => Val::Null,
        Val::Arr(items) => {
            let items = taken(items, |items| items.len()).into_iter();
            items.filter(|item| !is_gone(item)).map(swept).collect()
        }
        Val::Obj(members) => {
            let members = taken(members, |members| members.len()).into_iter();
            let left = members.filter(|(_, member)| !is_gone(member));
            Val::obj(left.map(|(key, member)| (key, swept(member))).collect())
        }
        other => other,
    }
}

fn keys(path: Val) -> Result<Vec<Val>> {
    match path {
        Val::Arr(keys) => Ok(taken(keys, |keys| keys.len())),
        _ => no_array(),
    }
}

/// The operators and functions that work on places.
pub(super) fn funs() -> [Fun<Data>; 4] {
    /// Gives a result, or ends with its error.
    macro_rules! given {
        ($result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => return box_once(Err(error.into())),
            }
        };
    }
    [
        (
            MODIFY,
            [Bind::Fun(()), Bind::Fun(())].into(),
            Native::new(|mut cv| {
                let ((change, change_context), (places, context)) =
                    (cv.0.pop_fun(), cv.0.pop_fun());
                let (mut value, mut deleted) = (cv.1.clone(), Vec::new());
                for place in places.paths((context, (cv.1, Default::default()))) {
                    let (_, path) = given!(place);
                    let mut path: Vec<Val> = path.iter().cloned().collect();
                    path.reverse();
                    charge(1 + path.len() as u64);
                    let old = given!(get(&value, &path));
                    match change.run((change_context.clone(), old)).next() {
                        Some(new) => value = given!(set(value, &path, given!(new))),
                        None => deleted.push(path),
                    }
                }
                box_once(delete(value, &deleted).map_err(Into::into))
            }),
        ),
        (
            ASSIGN,
            [Bind::Fun(()), Bind::Var(())].into(),
            Native::new(|mut cv| {
                let new = cv.0.pop_var();
                let (places, context) = cv.0.pop_fun();
                let mut value = cv.1.clone();
                for place in places.paths((context, (cv.1, Default::default()))) {
                    let (_, path) = given!(place);
                    let mut path: Vec<Val> = path.iter().cloned().collect();
                    path.reverse();
                    charge(1 + path.len() as u64);
                    value = given!(set(value, &path, new.clone()));
                }
                box_once(Ok(value))
            }),
        ),
        (
            SET,
            v(2),
            Native::new(|mut cv| {
                let new = cv.0.pop_var();
                let path = given!(keys(cv.0.pop_var()));
                box_once(set(cv.1, &path, new).map_err(Into::into))
            }),
        ),
        (
            DELETE,
            v(1),
            Native::new(|mut cv| {
                let paths = given!(keys(cv.0.pop_var()));
                let paths: Result<Vec<_>> = paths.into_iter().map(keys).collect();
                box_once(delete(cv.1, &given!(paths)).map_err(Into::into))
            }),
        ),
    ]
}
