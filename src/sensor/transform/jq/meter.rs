//! A meter for jq programs: steps, time, size of values, and stack.
//!
//! jaq cannot be interrupted from outside. So the program and jaq's own definitions are rewritten before they are
//! compiled: each call takes a step, and whatever makes a value measures it. A program that goes too far ends its
//! thread by unwinding, which nothing in the program can catch. On the way it is given gojq's objects ([`changes`]).

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::resume_unwind;

use jaq_core::box_iter::box_once;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::native::{Fun, v};
use jaq_core::ops::Math;
use jaq_core::path::{Opt, Part, Path};
use jaq_core::{Error, Native, data};
use jaq_json::{Num, Val};

use super::changes::{MADE, under};
use super::places::{ASSIGN, MODIFY};
use crate::sensor::lua::budget::thread_time;

/// Steps of one run: calls, and values that are made.
const STEPS: u64 = 2_000_000;
/// Time that the thread of one run may work, for what steps do not see (nanoseconds).
const TIME: u64 = 1_500_000_000;
/// Steps between two looks at the clock.
const LOOK: u64 = 128;
/// Bytes of a text that count as one step.
const BYTES: usize = 32;
/// Deepest value, and most brackets of a text that is read as JSON.
const DEPTH: usize = 1000;
/// Longest text that may be put between others, or be multiplied, in bytes.
const SHORT: usize = 32 << 10;
/// Largest number of the program that a text may be multiplied with.
const MAX_FACTOR: f64 = 1000.0;

/// Takes a step; any name with a `!` is out of a program's reach.
const TICK: &str = "!tick";
/// Measures a value.
const SIZE: &str = "!size";
/// Lets short texts pass.
const BRIEF: &str = "!brief";
/// Lets pass what jaq multiplies as gojq does, and in bounded time.
const FACTOR: &str = "!factor";
/// Lets products pass that floating point holds exactly, as they are the same then whatever they are made of.
const PRODUCT: &str = "!product";
/// Lets texts pass that are whole groups of base64, which jaq asks for and gojq does not.
const PADDED: &str = "!padded";
/// The format that decodes base64.
const DECODES: &str = "@base64d";
/// Lets texts with few brackets pass.
const FLAT: &str = "!flat";
/// Lets everything pass that gojq takes a number as an index of.
const LIST: &str = "!list";
/// The same where the index is optional: what has none is passed over.
const LIST_IF: &str = "!list_if";
/// Lets everything pass that gojq takes the given index of.
const AT: &str = "!at";
/// The same where the index is optional.
const AT_IF: &str = "!at_if";
/// The index that a number stands for.
const TRUNCATED: &str = "!truncated";
/// The index of a path that is worked out when the program runs.
const INDEX: &str = "$!index";
/// Lets numbers pass that floating point holds with their fraction.
const WITHIN: &str = "!within";
/// Lets everything pass that gojq divides by.
const DIVISOR: &str = "!divisor";
/// Lets everything pass that jaq takes a part of as gojq does.
const PART: &str = "!part";
/// Indexes of the parts of an array in a pattern, as a program writes them.
const INDEXES: [&str; 32] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31",
];
/// Most parts of an array in a pattern.
pub(super) const MAX_PARTS: usize = INDEXES.len();
/// The right side of an operator that puts something into the left one.
const OPERAND: &str = "$!operand";
/// The value that a pattern takes apart.
const WHOLE: &str = "$!whole";

pub(super) type Data = data::JustLut<Val>;
pub(super) type Name = &'static str;

/// Why a program was stopped.
pub(super) struct Stopped(pub &'static str);

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Steps left at the next look at the clock.
    static NEXT_LOOK: Cell<u64> = const { Cell::new(0) };
    /// Where the stack began, and how much of it may be used.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Starts the meter of this thread, which has so much stack.
pub(super) fn start(stack: usize) {
    LEFT.set(STEPS);
    NEXT_LOOK.set(STEPS);
    STACK.set((here(), stack / 2));
}

/// About where the stack ends at present.
fn here() -> usize {
    let mark = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&mark)).addr()
}

pub(super) fn stop(why: &'static str) -> ! {
    resume_unwind(Box::new(Stopped(why)))
}

pub(super) fn charge(steps: u64) {
    let left = LEFT.get().saturating_sub(steps);
    LEFT.set(left);
    if left == 0 {
        stop("it takes too many steps; have it look at fewer values");
    }
    if left <= NEXT_LOOK.get() {
        NEXT_LOOK.set(left.saturating_sub(LOOK));
        if thread_time() > TIME {
            stop("it takes too long; have it look at fewer values");
        }
    }
    let (base, most) = STACK.get();
    if base.abs_diff(here()) > most {
        stop("its functions call themselves too deeply");
    }
}

/// Takes the steps for a value, its parts included.
fn measure(value: &Val, depth: usize) {
    if depth > DEPTH {
        stop("it makes a value that is nested too deeply");
    }
    match value {
        Val::TStr(text) | Val::BStr(text) => charge(1 + (text.len() / BYTES) as u64),
        Val::Num(Num::BigInt(number)) => charge(1 + number.bits() / 32),
        Val::Num(Num::Dec(digits)) => charge(1 + digits.len() as u64),
        Val::Arr(items) => {
            charge(1);
            items.iter().for_each(|item| measure(item, depth + 1));
        }
        Val::Obj(members) => {
            charge(1);
            for (key, value) in members.iter() {
                measure(key, depth + 1);
                measure(value, depth + 1);
            }
        }
        Val::Null | Val::Bool(_) | Val::Num(_) => charge(1),
    }
}

fn tick(_: &Val) {
    charge(1);
}

fn size(value: &Val) {
    measure(value, 0);
}

fn brief(value: &Val) {
    if let Val::TStr(text) | Val::BStr(text) = value
        && text.len() > SHORT
    {
        stop("it repeats a text that is too long");
    }
}

fn factor(value: &Val) {
    match value {
        Val::TStr(_) | Val::BStr(_) => {
            stop("it multiplies a text; only a small number that stands in the program may do that")
        }
        Val::Obj(_) => stop("it multiplies objects; name the members, or add objects with `+`"),
        value => product(value),
    }
}

fn product(value: &Val) {
    const EXACT: u64 = 1 << 53;
    let is_exact = match value {
        Val::Num(Num::Int(whole)) => (whole.unsigned_abs() as u64) < EXACT,
        Val::Num(Num::BigInt(_)) => false,
        _ => true,
    };
    if !is_exact {
        stop("it multiplies whole numbers of more than 53 bits");
    }
}

fn within(value: &Val) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Val::Num(number) = value
        && !number
            .to_string()
            .parse()
            .is_ok_and(|number: f64| number.abs() < EXACT)
    {
        stop("it takes the remainder of a number of more than 53 bits");
    }
}

fn padded(value: &Val) {
    if let Val::TStr(text) = value
        && text.len() % 4 != 0
    {
        stop("it decodes base64 that is not padded to whole groups of four");
    }
}

fn flat(value: &Val) {
    if let Val::TStr(text) | Val::BStr(text) = value {
        let brackets = text.iter().filter(|byte| matches!(byte, b'[' | b'{'));
        if brackets.count() > DEPTH {
            let (mut open, mut most) = (0_usize, 0);
            for byte in text.iter() {
                match byte {
                    b'[' | b'{' => open += 1,
                    b']' | b'}' => open = open.saturating_sub(1),
                    _ => {}
                }
                most = most.max(open);
            }
            if most > DEPTH {
                stop("it reads a text that is nested too deeply");
            }
        }
    }
}

/// jaq finds nothing under a number in an object, where gojq fails.
fn list(value: &Val) -> Result<(), Error<Val>> {
    match value {
        Val::TStr(_) | Val::BStr(_) => {
            stop("it takes a single character of a text; take a part such as `.[0:1]`")
        }
        Val::Obj(_) => Err(Error::str("expected an array but got: object")),
        _ => Ok(()),
    }
}

/// jaq finds nothing in an object under what is no text, and nothing in nothing whatever the index is, where gojq fails.
fn at(value: &Val, index: &Val) -> Result<(), Error<Val>> {
    match (value, index) {
        (_, Val::Null | Val::Bool(_)) => Err(Error::str("expected a string for object key")),
        (Val::Obj(_), Val::TStr(_) | Val::BStr(_)) => Ok(()),
        (Val::Obj(_), _) => list(value),
        _ => Ok(()),
    }
}

/// jaq gives infinity or no number where gojq fails.
fn divisor(value: &Val) -> Result<(), Error<Val>> {
    match value {
        Val::Num(number) if number.to_string().parse::<f64>().is_ok_and(|n| n == 0.0) => {
            Err(Error::str("cannot divide by: number (0)"))
        }
        _ => Ok(()),
    }
}

fn part(value: &Val) {
    if matches!(value, Val::Null) {
        stop("it takes a part of null; give it a default first, such as `// []`");
    }
}

/// gojq cuts the fraction of an index off.
fn truncated(index: Val) -> Val {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let Val::Num(number) = &index else {
        return index;
    };
    let number: f64 = number.to_string().parse().unwrap_or(f64::NAN);
    if number.is_nan() || number.abs() >= EXACT {
        return index;
    }
    let whole = format!("{:.0}", number.trunc()).parse();
    whole.map_or(index, |whole| Val::Num(Num::Int(whole)))
}

/// The functions of the meter: each but the last gives back what it gets, in paths and updates, too.
pub(super) fn funs() -> [Fun<Data>; 15] {
    macro_rules! passing {
        ($name:expr, $look:expr) => {
            checking!($name, |value| {
                $look(value);
                Some(Ok(()))
            })
        };
    }
    macro_rules! checking {
        ($name:expr, $check:expr) => {{
            fn check(value: &Val) -> Option<Result<(), Error<Val>>> {
                let check: fn(&Val) -> Option<Result<(), Error<Val>>> = $check;
                check(value)
            }
            (
                $name,
                v(0),
                Native::new(|cv| match check(&cv.1) {
                    Some(Ok(())) => box_once(Ok(cv.1)),
                    Some(Err(error)) => box_once(Err(error.into())),
                    None => Box::new(std::iter::empty()),
                })
                .with_paths(|cv| match check(&cv.1.0) {
                    Some(Ok(())) => box_once(Ok(cv.1)),
                    Some(Err(error)) => box_once(Err(error.into())),
                    None => Box::new(std::iter::empty()),
                })
                .with_update(|cv, update| match check(&cv.1) {
                    Some(Ok(())) => update(cv.1),
                    Some(Err(error)) => box_once(Err(error.into())),
                    None => box_once(Ok(cv.1)),
                }),
            )
        }};
    }
    macro_rules! indexing {
        ($name:expr, $failed:expr) => {{
            fn failed(error: Error<Val>) -> Option<Error<Val>> {
                let failed: fn(Error<Val>) -> Option<Error<Val>> = $failed;
                failed(error)
            }
            (
                $name,
                v(1),
                Native::new(|mut cv| match at(&cv.1, &cv.0.pop_var()).map_err(failed) {
                    Ok(()) => box_once(Ok(cv.1)),
                    Err(Some(error)) => box_once(Err(error.into())),
                    Err(None) => Box::new(std::iter::empty()),
                })
                .with_paths(
                    |mut cv| match at(&cv.1.0, &cv.0.pop_var()).map_err(failed) {
                        Ok(()) => box_once(Ok(cv.1)),
                        Err(Some(error)) => box_once(Err(error.into())),
                        Err(None) => Box::new(std::iter::empty()),
                    },
                )
                .with_update(|mut cv, update| {
                    match at(&cv.1, &cv.0.pop_var()).map_err(failed) {
                        Ok(()) => update(cv.1),
                        Err(Some(error)) => box_once(Err(error.into())),
                        Err(None) => box_once(Ok(cv.1)),
                    }
                }),
            )
        }};
    }
    [
        passing!(TICK, tick),
        passing!(SIZE, size),
        passing!(BRIEF, brief),
        passing!(FACTOR, factor),
        passing!(PRODUCT, product),
        passing!(WITHIN, within),
        passing!(PADDED, padded),
        passing!(FLAT, flat),
        passing!(PART, part),
        checking!(DIVISOR, |value| Some(divisor(value))),
        checking!(LIST, |value| Some(list(value))),
        checking!(LIST_IF, |value| list(value).ok().map(Ok)),
        indexing!(AT, Some),
        indexing!(AT_IF, |_| None),
        (
            TRUNCATED,
            v(0),
            Native::new(|cv| box_once(Ok(truncated(cv.1)))),
        ),
    ]
}

/// A definition that takes steps.
pub(super) fn metered_def<'s>(def: Def<&'s str>, natives: &HashSet<&str>) -> Def<&'s str> {
    Def {
        name: def.name,
        args: def.args,
        body: metered(def.body, natives),
    }
}

pub(super) fn call<'s>(name: Name) -> Term<&'s str> {
    Term::Call(name, Vec::new())
}

pub(super) fn pipe<'s>(left: Term<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

fn sized(term: Term<&str>) -> Term<&str> {
    pipe(term, call(SIZE))
}

/// A term that takes steps. A call stays the last thing of a term, so that it needs no stack where jaq needs none.
fn metered<'s>(term: Term<&'s str>, natives: &HashSet<&str>) -> Term<&'s str> {
    let go = |term: Term<&'s str>| metered(term, natives);
    let boxed = |term: Box<Term<&'s str>>| Box::new(metered(*term, natives));
    match term {
        Term::Num(text) if text.contains(['.', 'e', 'E']) => pipe(term, call(MADE)),
        Term::Id | Term::Num(_) | Term::Var(_) | Term::Break(_) | Term::Arr(None) => term,
        Term::Recurse => pipe(term, call(TICK)),
        Term::Str(format, parts) => {
            let part = |part| match part {
                StrPart::Term(term) if format == Some(DECODES) => {
                    StrPart::Term(sized(pipe(go(term), call(PADDED))))
                }
                StrPart::Term(term) => StrPart::Term(sized(go(term))),
                other => other,
            };
            sized(Term::Str(format, parts.into_iter().map(part).collect()))
        }
        Term::Arr(Some(inner)) => sized(Term::Arr(Some(Box::new(pipe(go(*inner), call(TICK)))))),
        Term::Obj(members) => {
            let member = |(key, value): (_, Option<_>)| (go_key(key, natives), value.map(go));
            let several = members.len() > 1;
            let made = sized(Term::Obj(members.into_iter().map(member).collect()));
            if several {
                pipe(made, call(MADE))
            } else {
                made
            }
        }
        // An index is seen as what it is.
        Term::Neg(inner) if is_whole(&inner) => Term::Neg(inner),
        Term::Neg(inner) => pipe(Term::Neg(boxed(inner)), call(MADE)),
        Term::BinOp(left, BinaryOp::UpdateMath(operator), right) => {
            go(updated(*left, BinaryOp::Math(operator), *right))
        }
        Term::BinOp(left, BinaryOp::UpdateAlt, right) => go(updated(*left, BinaryOp::Alt, *right)),
        Term::BinOp(left, BinaryOp::Update, right) => changed(MODIFY, go(*left), go(*right)),
        Term::BinOp(left, BinaryOp::Assign, right) => changed(ASSIGN, go(*left), go(*right)),
        Term::BinOp(left, operator, right) => operation(go(*left), operator, go(*right)),
        Term::Label(name, body) => Term::Label(name, boxed(body)),
        Term::Fold(name, source, pattern, parts) => {
            let source = pipe(go(*source), call(TICK));
            let (variable, bindings) = taken_apart(pattern);
            let part = |(place, part)| {
                let part = pipe(call(TICK), go(part));
                // The start does not see the variables.
                if place == 0 {
                    part
                } else {
                    bound(&bindings, part)
                }
            };
            sized(Term::Fold(
                name,
                Box::new(source),
                Pattern::Var(variable),
                parts.into_iter().enumerate().map(part).collect(),
            ))
        }
        Term::TryCatch(inner, catch) => Term::TryCatch(boxed(inner), catch.map(boxed)),
        Term::IfThenElse(cases, otherwise) => {
            let case = |(condition, then)| (go(condition), go(then));
            Term::IfThenElse(cases.into_iter().map(case).collect(), otherwise.map(boxed))
        }
        Term::Def(definitions, body) => {
            let definition = |def| metered_def(def, natives);
            Term::Def(
                definitions.into_iter().map(definition).collect(),
                boxed(body),
            )
        }
        Term::Call(name, arguments) => called(name, arguments, natives),
        Term::Path(base, path) => indexed(go(*base), path_of(path, natives)),
    }
}

/// What `left op= right` stands for: each output of the right side, worked out first, is put to what lies on the left.
fn updated<'s>(
    left: Term<&'s str>,
    operator: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Term<&'s str> {
    let with = |operand| {
        let made = Term::BinOp(Box::new(Term::Id), operator, Box::new(operand));
        Term::BinOp(Box::new(left), BinaryOp::Update, Box::new(made))
    };
    if matches!(right, Term::Num(_)) {
        return with(right);
    }
    let bind = BinaryOp::Pipe(Some(Pattern::Var(OPERAND)));
    Term::BinOp(Box::new(right), bind, Box::new(with(Term::Var(OPERAND))))
}

/// A value of which the places on the left are changed.
fn changed<'s>(how: Name, left: Term<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    let term = Term::Call(how, vec![left, pipe(right, call(TICK))]);
    pipe(sized(term), call(MADE))
}

/// A key of an object: a plain text stays one.
fn go_key<'s>(key: Term<&'s str>, natives: &HashSet<&str>) -> Term<&'s str> {
    match key {
        Term::Str(None, ref parts)
            if parts.iter().all(|part| !matches!(part, StrPart::Term(_))) =>
        {
            key
        }
        Term::Var(_) | Term::Num(_) => key,
        key => metered(key, natives),
    }
}

fn operation<'s>(
    left: Term<&'s str>,
    operator: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Term<&'s str> {
    let multiplies = matches!(operator, BinaryOp::Math(Math::Mul));
    let (left, right) = match operator {
        _ if multiplies => {
            let check = if is_small(&left) || is_small(&right) {
                BRIEF
            } else {
                FACTOR
            };
            let checked = |term| match term {
                Term::Num(_) => term,
                term => pipe(term, call(check)),
            };
            (checked(left), checked(right))
        }
        BinaryOp::Math(Math::Div) => (left, pipe(right, call(DIVISOR))),
        // gojq cuts the fractions off first.
        BinaryOp::Math(Math::Rem) => (
            pipe(pipe(left, call(WITHIN)), call(TRUNCATED)),
            pipe(
                pipe(pipe(right, call(WITHIN)), call(TRUNCATED)),
                call(DIVISOR),
            ),
        ),
        _ => (left, right),
    };
    let makes = matches!(operator, BinaryOp::Math(_));
    let (operator, right) = match operator {
        BinaryOp::Pipe(Some(pattern)) => {
            let (variable, bindings) = taken_apart(pattern);
            let bind = BinaryOp::Pipe(Some(Pattern::Var(variable)));
            (bind, bound(&bindings, right))
        }
        other => (other, right),
    };
    let is_product = matches!(operator, BinaryOp::Math(Math::Mul));
    let mut term = Term::BinOp(Box::new(left), operator, Box::new(right));
    if is_product {
        term = pipe(term, call(PRODUCT));
    }
    if makes {
        pipe(sized(term), call(MADE))
    } else {
        term
    }
}

/// A number of the program that a text may be multiplied with.
fn is_small(term: &Term<&str>) -> bool {
    let fits = |number: f64| (1.0..=MAX_FACTOR).contains(&number);
    matches!(term, Term::Num(text) if text.parse::<f64>().is_ok_and(fits))
}

fn called<'s>(
    name: &'s str,
    arguments: Vec<Term<&'s str>>,
    natives: &HashSet<&str>,
) -> Term<&'s str> {
    let argument = |argument| {
        let argument = pipe(metered(argument, natives), call(TICK));
        if name == "join" {
            pipe(argument, call(BRIEF))
        } else {
            argument
        }
    };
    let arguments = arguments.into_iter().map(argument).collect();
    let term = pipe(call(TICK), Term::Call(name, arguments));
    let term = match name {
        "fromjson" => pipe(call(FLAT), term),
        DECODES => pipe(call(PADDED), term),
        _ => term,
    };
    if natives.contains(name) {
        sized(term)
    } else {
        term
    }
}

/// A variable of a pattern, and where in the whole value its own is.
type Binding<'s> = (&'s str, Vec<Term<&'s str>>);

/// Takes a pattern apart: the variable of the whole value, and those of its parts.
fn taken_apart<'s>(pattern: Pattern<&'s str>) -> (&'s str, Vec<Binding<'s>>) {
    if let Pattern::Var(name) = pattern {
        return (name, Vec::new());
    }
    let mut bindings = Vec::new();
    collect(pattern, &mut Vec::new(), &mut bindings);
    (WHOLE, bindings)
}

fn collect<'s>(
    pattern: Pattern<&'s str>,
    place: &mut Vec<Term<&'s str>>,
    bindings: &mut Vec<Binding<'s>>,
) {
    let mut enter = |key, part| {
        place.push(key);
        collect(part, place, bindings);
        place.pop();
    };
    match pattern {
        Pattern::Var(name) => bindings.push((name, place.clone())),
        Pattern::Arr(parts) => {
            for (part, index) in parts.into_iter().zip(INDEXES) {
                enter(Term::Num(index), part);
            }
        }
        Pattern::Obj(members) => members.into_iter().for_each(|(key, part)| enter(key, part)),
    }
}

/// A term that sees the variables of a pattern.
fn bound<'s>(bindings: &[Binding<'s>], term: Term<&'s str>) -> Term<&'s str> {
    bindings.iter().rev().fold(term, |term, (name, place)| {
        let parts = place
            .iter()
            .map(|key| (Part::Index(key.clone()), Opt::Essential));
        let value = indexed(Term::Var(WHOLE), Path(parts.collect()));
        let bind = BinaryOp::Pipe(Some(Pattern::Var(*name)));
        Term::BinOp(Box::new(value), bind, Box::new(term))
    })
}

/// A path whose indexes are looked at before they are taken, but for plain texts: the path is cut before each of them.
fn indexed<'s>(base: Term<&'s str>, path: Path<Term<&'s str>>) -> Term<&'s str> {
    let (mut base, mut parts) = (base, Vec::new());
    for (part, optional) in path.0 {
        let Part::Index(index) = part else {
            if !matches!(part, Part::Range(None, None)) {
                base = pipe(under(base, &mut parts), call(PART));
            }
            parts.push((part, optional));
            continue;
        };
        if is_plain_text(&index) {
            parts.push((Part::Index(index), optional));
            continue;
        }
        base = at_index(under(base, &mut parts), index, optional);
    }
    under(base, &mut parts)
}

fn is_plain_text(index: &Term<&str>) -> bool {
    let plain = |part: &StrPart<_, _>| !matches!(part, StrPart::Term(_));
    matches!(index, Term::Str(None, parts) if parts.iter().all(plain))
}

fn is_whole(term: &Term<&str>) -> bool {
    matches!(term, Term::Num(text) if text.parse::<u32>().is_ok())
}

/// What lies in a value at an index that is a number, or is worked out when the program runs.
fn at_index<'s>(base: Term<&'s str>, index: Term<&'s str>, optional: Opt) -> Term<&'s str> {
    let literal = match &index {
        Term::Neg(inner) => is_whole(inner),
        other => is_whole(other),
    };
    let essential = matches!(optional, Opt::Essential);
    if literal {
        let base = pipe(base, call(if essential { LIST } else { LIST_IF }));
        return Term::Path(Box::new(base), Path(vec![(Part::Index(index), optional)]));
    }
    // The index is worked out from what the path begins with, not from what it has come to.
    let check = Term::Call(if essential { AT } else { AT_IF }, vec![Term::Var(INDEX)]);
    let there = Path(vec![(Part::Index(Term::Var(INDEX)), optional)]);
    let there = Term::Path(Box::new(pipe(base, check)), there);
    let bind = BinaryOp::Pipe(Some(Pattern::Var(INDEX)));
    Term::BinOp(
        Box::new(pipe(index, call(TRUNCATED))),
        bind,
        Box::new(there),
    )
}

fn path_of<'s>(path: Path<Term<&'s str>>, natives: &HashSet<&str>) -> Path<Term<&'s str>> {
    let go = |term| go_key(term, natives);
    let part = |(part, optional)| {
        let part = match part {
            Part::Index(index) => Part::Index(go(index)),
            Part::Range(from, to) => Part::Range(from.map(go), to.map(go)),
        };
        (part, optional)
    };
    Path(path.0.into_iter().map(part).collect())
}
