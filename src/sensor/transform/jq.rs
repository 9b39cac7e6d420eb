//! jq programs: upstream runs gojq, this program jaq, on the part of the language where both agree.
//!
//! A program is looked at before it runs. Functions of its own, `reduce`, `foreach`, `range` and everything that may go
//! on without end are refused by name, so that the work is bounded by the size of the event. Two differences stay: an
//! object that the program makes is listed in the order in which it is written (gojq sorts), and error texts.

use std::rc::Rc;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::ops::Math;
use jaq_core::path::Part;
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Map, Num, Val};
use serde_json::{Number, Value};

use super::TransformError;
use crate::sensor::go_json;

/// Longest program, in bytes.
const MAX_PROGRAM: usize = 8 << 10;
/// Most brackets that are open at once.
const MAX_NESTING: usize = 60;
/// Most steps of one run, roughly.
const MAX_STEPS: f64 = 5e6;
/// Largest whole number of a program's text that texts may be multiplied with, all together.
const MAX_FACTOR: f64 = 1000.0;
/// Values of an output altogether.
const MAX_VALUES: usize = 1_000_000;
/// Deepest value.
const MAX_DEPTH: usize = 250;
/// Stack of the thread that runs programs.
const STACK: usize = 32 << 20;

/// Functions that gojq and jaq share, with how their work grows: `true` where they look at every value.
const SHARED: [(&str, usize, bool); 71] = [
    ("not", 0, false),
    ("empty", 0, false),
    ("error", 0, false),
    ("error", 1, false),
    ("length", 0, false),
    ("type", 0, false),
    ("tostring", 0, false),
    ("tonumber", 0, false),
    ("tojson", 0, false),
    ("fromjson", 0, false),
    ("ascii_downcase", 0, false),
    ("ascii_upcase", 0, false),
    ("explode", 0, true),
    ("implode", 0, true),
    ("trim", 0, false),
    ("ltrim", 0, false),
    ("rtrim", 0, false),
    ("startswith", 1, false),
    ("endswith", 1, false),
    ("split", 1, false),
    ("join", 1, true),
    ("test", 1, false),
    ("test", 2, false),
    ("capture", 1, false),
    ("sub", 2, true),
    ("gsub", 2, true),
    ("has", 1, false),
    ("contains", 1, true),
    ("inside", 1, true),
    ("keys", 0, true),
    ("keys_unsorted", 0, true),
    ("values", 0, false),
    ("nulls", 0, false),
    ("strings", 0, false),
    ("numbers", 0, false),
    ("booleans", 0, false),
    ("arrays", 0, false),
    ("objects", 0, false),
    ("scalars", 0, false),
    ("iterables", 0, false),
    ("add", 0, true),
    ("any", 0, true),
    ("all", 0, true),
    ("any", 1, true),
    ("all", 1, true),
    ("map", 1, true),
    ("map_values", 1, true),
    ("select", 1, false),
    ("sort", 0, true),
    ("sort_by", 1, true),
    ("group_by", 1, true),
    ("unique", 0, true),
    ("unique_by", 1, true),
    ("min", 0, true),
    ("max", 0, true),
    ("min_by", 1, true),
    ("max_by", 1, true),
    ("reverse", 0, true),
    ("first", 0, false),
    ("last", 0, false),
    ("flatten", 0, true),
    ("to_entries", 0, true),
    ("from_entries", 0, true),
    ("with_entries", 1, true),
    ("del", 1, true),
    ("floor", 0, false),
    ("ceil", 0, false),
    ("round", 0, false),
    ("abs", 0, false),
    ("null", 0, false),
    ("sqrt", 0, false),
];
/// Words that are no functions of either.
const CONSTANTS: [&str; 2] = ["true", "false"];

/// A program that was read.
#[derive(Debug)]
pub(super) struct Program {
    text: String,
}

impl Program {
    /// Reads a program.
    pub(super) fn compile(text: &str) -> Result<Self, TransformError> {
        if text.len() > MAX_PROGRAM {
            return Err(unsupported(format!(
                "a jq program of more than {MAX_PROGRAM} bytes is not supported"
            )));
        }
        if nesting(text) > MAX_NESTING {
            return Err(unsupported(
                "a jq program with so many brackets inside one another is not supported",
            ));
        }
        on_a_thread(|| {
            let term = parsed(text)?;
            Look::default().term(&term).map(drop)
        })??;
        Ok(Self {
            text: text.to_owned(),
        })
    }

    /// Runs it on event data; the first output must be an object.
    pub(super) fn run(&self, data: &[u8]) -> Result<Vec<u8>, TransformError> {
        let text = String::from_utf8_lossy(data);
        let input: Value =
            serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if !matches!(input, Value::Object(_) | Value::Null) {
            return Err(failed(
                "json: cannot unmarshal the event data into Go value of type map[string]interface {}",
            ));
        }
        // Of `null` gojq sees an object without members.
        let input = if input.is_null() {
            Value::Object(serde_json::Map::new())
        } else {
            input
        };
        on_a_thread(|| self.run_here(&input))?
    }

    fn run_here(&self, input: &Value) -> Result<Vec<u8>, TransformError> {
        let term = parsed(&self.text)?;
        let look = Look {
            values: count(input),
            ..Look::default()
        };
        if look.clone().term(&term)?.work > MAX_STEPS {
            return Err(unsupported(
                "the event has too many values for this jq program; make it look at fewer",
            ));
        }
        let arena = Arena::default();
        let defs = jaq_core::defs()
            .chain(jaq_std::defs())
            .chain(jaq_json::defs());
        let funs = jaq_core::funs()
            .chain(jaq_std::funs())
            .chain(jaq_json::funs());
        let file = File {
            code: self.text.as_str(),
            path: (),
        };
        let modules = Loader::new(defs)
            .load(&arena, file)
            .map_err(|_| failed("the jq program cannot be read"))?;
        let filter = Compiler::default()
            .with_funs(funs)
            .compile(modules)
            .map_err(|_| {
                failed("the jq program names a variable or function that does not exist")
            })?;
        let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
        let mut outputs = filter.id.run((context, from_json(input))).map(unwrap_valr);
        let first = outputs
            .next()
            .ok_or_else(|| failed("no output available from the jq command execution"))?;
        let first = first.map_err(|error| failed(error.to_string()))?;
        if !matches!(first, Val::Obj(_)) {
            return Err(failed("jq transformation output must be a JSON object"));
        }
        let mut left = MAX_VALUES;
        Ok(go_json::to_vec(&to_json(&first, 0, &mut left)?))
    }
}

fn unsupported(text: impl Into<String>) -> TransformError {
    TransformError::Unsupported(text.into())
}

fn failed(text: impl Into<String>) -> TransformError {
    TransformError::Failed(text.into())
}

/// Runs on a thread with a stack for the deepest program.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T, TransformError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("jq".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, run)
            .map_err(|error| unsupported(format!("cannot start a thread for jq: {error}")))?;
        thread
            .join()
            .map_err(|_| unsupported("jq failed on this program; report it"))
    })
}

/// Most brackets that are open at once, those in texts included.
fn nesting(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

fn parsed(text: &str) -> Result<Term<&str>, TransformError> {
    jaq_core::load::parse(text, |parser| parser.term())
        .ok_or_else(|| failed("the jq program cannot be read"))
}

/// How many outputs a term has at most, and how much work it is.
#[derive(Clone, Copy)]
struct Cost {
    outputs: f64,
    work: f64,
}

impl Cost {
    const ONE: Cost = Cost {
        outputs: 1.0,
        work: 1.0,
    };

    /// Each output of this one goes into that one.
    fn then(self, next: Cost) -> Cost {
        Cost {
            outputs: self.outputs * next.outputs,
            work: self.work + self.outputs * next.work,
        }
    }

    fn or(self, other: Cost) -> Cost {
        Cost {
            outputs: self.outputs + other.outputs,
            work: self.work + other.work,
        }
    }
}

/// Looks through a program: what is not shared is refused, what it costs is counted.
#[derive(Clone)]
struct Look {
    /// Values of the event.
    values: f64,
    /// What texts have been multiplied with.
    factor: f64,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            values: 1.0,
            factor: 1.0,
        }
    }
}

impl Look {
    fn term(&mut self, term: &Term<&str>) -> Result<Cost, TransformError> {
        match term {
            Term::Id | Term::Num(_) | Term::Var("$__loc__") => Ok(Cost::ONE),
            Term::Var(name) if *name == "$ENV" => Err(refused("$ENV")),
            Term::Var(_) => Ok(Cost::ONE),
            Term::Recurse => Ok(Cost {
                outputs: self.values,
                work: self.values,
            }),
            Term::Str(format, parts) => self.text(*format, parts),
            Term::Arr(None) => Ok(Cost::ONE),
            Term::Arr(Some(inner)) => {
                let inner = self.term(inner)?;
                Ok(Cost {
                    outputs: 1.0,
                    work: inner.work + 1.0,
                })
            }
            Term::Obj(members) => {
                let mut cost = Cost::ONE;
                for (key, value) in members {
                    cost = cost.then(self.term(key)?);
                    if let Some(value) = value {
                        cost = cost.then(self.term(value)?);
                    }
                }
                Ok(cost)
            }
            Term::Neg(inner) => Ok(Cost::ONE.then(self.term(inner)?)),
            Term::BinOp(left, operator, right) => self.operation(left, operator, right),
            Term::TryCatch(inner, catch) => {
                let inner = self.term(inner)?;
                Ok(match catch {
                    Some(catch) => inner.or(self.term(catch)?),
                    None => inner,
                })
            }
            Term::IfThenElse(cases, otherwise) => self.branches(cases, otherwise.as_deref()),
            Term::Call(name, arguments) => self.call(name, arguments),
            Term::Path(base, path) => self.path(base, path),
            Term::Fold(name, ..) => Err(refused(name)),
            Term::Def(..) => Err(refused("def")),
            Term::Label(..) | Term::Break(_) => Err(refused("label")),
        }
    }

    fn text(
        &mut self,
        format: Option<&str>,
        parts: &[StrPart<&str, Term<&str>>],
    ) -> Result<Cost, TransformError> {
        if let Some(format) = format {
            self.call(format, &[])?;
        }
        let mut cost = Cost::ONE;
        for part in parts {
            if let StrPart::Term(term) = part {
                cost = cost.then(self.term(term)?);
            }
        }
        Ok(cost)
    }

    fn operation(
        &mut self,
        left: &Term<&str>,
        operator: &BinaryOp<&str>,
        right: &Term<&str>,
    ) -> Result<Cost, TransformError> {
        match operator {
            BinaryOp::Math(Math::Mul) => self.factor(left, right)?,
            // A whole quotient is a floating-point number in one and an integer in the other, and texts show it.
            BinaryOp::Math(Math::Div | Math::Rem) => {}
            BinaryOp::Pipe(Some(pattern)) => self.pattern(pattern)?,
            _ => {}
        }
        let (left, right) = (self.term(left)?, self.term(right)?);
        Ok(match operator {
            BinaryOp::Comma | BinaryOp::Alt => left.or(right),
            _ => left.then(right),
        })
    }

    /// A text may be multiplied, with numbers of the program only.
    fn factor(&mut self, left: &Term<&str>, right: &Term<&str>) -> Result<(), TransformError> {
        let number = |term: &Term<&str>| match term {
            Term::Num(text) => text.parse::<f64>().ok(),
            _ => None,
        };
        let factor = number(left).or_else(|| number(right));
        self.factor *= factor.unwrap_or(f64::INFINITY).abs().max(1.0);
        if self.factor > MAX_FACTOR {
            return Err(unsupported(
                "in a jq program `*` is supported with a small number of the program on one side",
            ));
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &Pattern<&str>) -> Result<(), TransformError> {
        match pattern {
            Pattern::Var(_) => Ok(()),
            Pattern::Arr(_) | Pattern::Obj(_) => Err(refused("destructuring")),
        }
    }

    fn branches(
        &mut self,
        cases: &[(Term<&str>, Term<&str>)],
        otherwise: Option<&Term<&str>>,
    ) -> Result<Cost, TransformError> {
        let mut cost = Cost::ONE;
        for (condition, then) in cases {
            let condition = self.term(condition)?;
            cost = cost.or(condition.then(self.term(then)?));
        }
        if let Some(otherwise) = otherwise {
            cost = cost.or(self.term(otherwise)?);
        }
        Ok(cost)
    }

    fn call(&mut self, name: &str, arguments: &[Term<&str>]) -> Result<Cost, TransformError> {
        let formats = ["@text", "@json", "@html", "@uri", "@base64", "@base64d"];
        if arguments.is_empty() && (CONSTANTS.contains(&name) || formats.contains(&name)) {
            return Ok(Cost::ONE);
        }
        let shared = SHARED
            .iter()
            .find(|(known, arity, _)| *known == name && *arity == arguments.len());
        let Some((_, _, everywhere)) = shared else {
            return Err(refused(&format!("{name}/{}", arguments.len())));
        };
        let mut cost = Cost::ONE;
        for argument in arguments {
            cost = cost.then(self.term(argument)?);
        }
        let times = if *everywhere { self.values } else { 1.0 };
        Ok(Cost {
            outputs: if name == "map_values" || name == "map" || name == "with_entries" {
                1.0
            } else {
                cost.outputs
            },
            work: cost.work * times,
        })
    }

    fn path(
        &mut self,
        base: &Term<&str>,
        path: &jaq_core::path::Path<Term<&str>>,
    ) -> Result<Cost, TransformError> {
        let mut cost = self.term(base)?;
        for (part, _) in &path.0 {
            match part {
                Part::Index(index) => cost = cost.then(self.term(index)?),
                Part::Range(None, None) => {
                    cost = cost.then(Cost {
                        outputs: self.values,
                        work: self.values,
                    });
                }
                Part::Range(from, to) => {
                    for bound in [from, to].into_iter().flatten() {
                        cost = cost.then(self.term(bound)?);
                    }
                }
            }
        }
        Ok(cost)
    }
}

fn refused(what: &str) -> TransformError {
    unsupported(format!(
        "`{what}` in a jq program is not supported; write it in another way, or use a script"
    ))
}

/// Values in a document.
fn count(value: &Value) -> f64 {
    match value {
        Value::Array(items) => 1.0 + items.iter().map(count).sum::<f64>(),
        Value::Object(members) => 1.0 + members.values().map(count).sum::<f64>(),
        _ => 1.0,
    }
}

/// The event as gojq sees it: numbers are floating point, members are sorted.
fn from_json(value: &Value) -> Val {
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

/// A whole number that floating point holds exactly is an integer here, so that its text has no fraction.
fn number_of(number: &Number) -> Num {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().unwrap_or(f64::NAN);
    if float.fract() == 0.0
        && float.abs() < EXACT
        && let Ok(whole) = format!("{float:.0}").parse::<isize>()
    {
        return Num::Int(whole);
    }
    Num::Float(float)
}

fn to_json(value: &Val, depth: usize, left: &mut usize) -> Result<Value, TransformError> {
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
            .map(|item| to_json(item, depth + 1, left))
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
                object.insert(key, to_json(value, depth + 1, left)?);
            }
            Value::Object(object)
        }
    })
}
