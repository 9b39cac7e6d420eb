//! The functions of text/template and of sprig, in families; each family is a table of names.

mod builtins;
mod conversions;
mod dates;
mod decimal;
mod encoding;
mod lists;
mod maps;
mod math;
mod paths;
mod patterns;
mod random;
mod strings;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use self::conversions::to_int;
use super::limits::{Failure, MAX_TEXT, Misfit, Steps, TooLarge};
use super::map::{Map, Members};
use super::value::{Parts, Value};
use crate::sensor::regex::Regex;

/// What functions may use beside their arguments.
pub(super) struct Context {
    pub steps: Steps,
    /// Patterns compiled so far.
    pub patterns: HashMap<String, Regex>,
    /// An object was changed, so that values may hold more than they say.
    pub changed: bool,
}

impl Context {
    /// How much there is to walk over in a value.
    pub fn weigh(&self, value: &Value) -> Result<usize, Failure> {
        match self.changed {
            true => value.measure(None).map_err(Failure::from),
            false => Ok(value.weight()),
        }
    }
}

type Answer = Result<Value, Failure>;
type Call = fn(&mut Context, &Arguments<'_>) -> Answer;

/// A function: least and most arguments, `None` for any number, and what it does.
struct Function(&'static str, usize, Option<usize>, Call);

const FAMILIES: [&[Function]; 11] = [
    // Sprig's functions stand in front of those of the language with the same name.
    strings::TABLE,
    lists::TABLE,
    maps::TABLE,
    math::TABLE,
    conversions::TABLE,
    encoding::TABLE,
    patterns::TABLE,
    dates::TABLE,
    paths::TABLE,
    random::TABLE,
    builtins::TABLE,
];

/// Functions with a `must` form that does the same: in a template a panic of the plain one is an error too.
const WITH_MUST: [&str; 16] = [
    "append",
    "chunk",
    "compact",
    "deepCopy",
    "first",
    "has",
    "initial",
    "last",
    "merge",
    "mergeOverwrite",
    "prepend",
    "push",
    "rest",
    "reverse",
    "slice",
    "uniq",
];

/// Functions of sprig that read the environment, look up hosts, or make and use keys.
const OUTSIDE: [&str; 18] = [
    "bcrypt",
    "buildCustomCert",
    "decryptAES",
    "derivePassword",
    "encryptAES",
    "env",
    "expandenv",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "getHostByName",
    "htpasswd",
    "urlJoin",
    "urlParse",
];

fn find(name: &str) -> Option<&'static Function> {
    let plain = || {
        let name = name.strip_prefix("must")?;
        WITH_MUST.iter().copied().chain(["without"]).find(|plain| {
            plain.get(1..) == name.get(1..)
                && plain.get(..1).map(str::to_uppercase).as_deref() == name.get(..1)
        })
    };
    let named = |name: &str| {
        FAMILIES
            .iter()
            .flat_map(|family| family.iter())
            .find(|function| function.0 == name)
    };
    named(name).or_else(|| named(plain()?))
}

/// Says whether there is a function of that name.
pub(super) fn exists(name: &str) -> bool {
    matches!(name, "and" | "or") || find(name).is_some()
}

/// Says whether upstream has a function of that name and eventlab has none.
pub(super) fn is_outside(name: &str) -> bool {
    OUTSIDE.contains(&name)
}

/// All names, for tests that try every function.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    FAMILIES
        .iter()
        .flat_map(|family| family.iter())
        .map(|function| function.0)
        .collect()
}

/// Says whether a function looks at no more of its first argument than one member.
pub(super) fn takes_one_member(name: &str) -> bool {
    matches!(name, "get" | "hasKey" | "set" | "unset")
}

/// Calls a function.
pub(super) fn call(context: &mut Context, name: &str, arguments: &Arguments<'_>) -> Answer {
    let Some(Function(_, least, most, function)) = find(name) else {
        return Err(format!("function {name:?} not defined").into());
    };
    let got = arguments.len();
    if got < *least || most.is_some_and(|most| got > most) {
        let at_least = if most.is_none() { "at least " } else { "" };
        let text = format!("wrong number of args for {name}: want {at_least}{least} got {got}");
        return Err(Failure::Arguments(Misfit::Count(text)));
    }
    let answer = function(context, arguments)?;
    if let Value::Text(text) = &answer
        && text.len() > MAX_TEXT
    {
        return Err(TooLarge.into());
    }
    Ok(answer)
}

/// The arguments of a call, with Go's complaints about wrong types.
pub(super) struct Arguments<'a> {
    values: &'a [Value],
    constants: u32,
    nulls: &'a [usize],
}

impl<'a> Arguments<'a> {
    /// Values of which some are numbers that stand in the template, one bit each, and some nulls that stand in data.
    pub(super) fn new(values: &'a [Value], constants: u32, nulls: &'a [usize]) -> Self {
        Self {
            values,
            constants,
            nulls,
        }
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    /// Go's complaint about the type of an argument. A null of data has one, what is missing has none.
    fn wrong_type<T>(&self, wanted: &'static str, place: usize) -> Result<T, Failure> {
        let found = match self.any(place) {
            _ if self.is_null(place) => "interface {}",
            Value::Nil => "",
            value => value.type_name(),
        };
        let text = match found {
            "" => format!("invalid value; expected {wanted}"),
            found => format!("wrong type for value; expected {wanted}; got {found}"),
        };
        Err(Failure::Arguments(Misfit::Type {
            place,
            wanted,
            text,
        }))
    }

    fn is_null(&self, place: usize) -> bool {
        self.nulls.contains(&place)
    }

    pub(super) fn all(&self) -> &'a [Value] {
        self.values
    }

    fn any(&self, place: usize) -> &'a Value {
        self.values.get(place).unwrap_or(&Value::Nil)
    }

    fn text(&self, place: usize) -> Result<&'a str, Failure> {
        match self.any(place) {
            Value::Text(text) => Ok(text),
            _ => self.wrong_type("string", place),
        }
    }

    fn int(&self, place: usize) -> Result<i64, Failure> {
        match self.any(place) {
            Value::Int(value) => Ok(*value),
            // A constant without a fraction is a whole number however it is written.
            Value::Float(value) if self.is_constant(place) && *value == value.trunc() => {
                Ok(to_int(&Value::Float(*value)))
            }
            _ => self.wrong_type("int", place),
        }
    }

    fn float(&self, place: usize) -> Result<f64, Failure> {
        match self.any(place) {
            Value::Float(value) => Ok(*value),
            Value::Int(value) if self.is_constant(place) => Ok(*value as f64),
            _ => self.wrong_type("float64", place),
        }
    }

    fn is_constant(&self, place: usize) -> bool {
        place < 32 && self.constants >> place & 1 == 1
    }

    fn bool(&self, place: usize) -> Result<bool, Failure> {
        match self.any(place) {
            Value::Bool(value) => Ok(*value),
            _ => self.wrong_type("bool", place),
        }
    }

    /// What an object holds; nothing stands for an empty one, as Go passes it.
    fn map(&self, place: usize) -> Result<Rc<Members>, Failure> {
        Ok(self
            .object(place)?
            .map_or_else(Rc::default, |map| map.now()))
    }

    /// An object, or nothing.
    fn object(&self, place: usize) -> Result<Option<&'a Rc<Map>>, Failure> {
        match self.any(place) {
            Value::Map(map) if !map.texts => Ok(Some(map)),
            Value::Nil if !self.is_null(place) => Ok(None),
            _ => self.wrong_type("map[string]interface {}", place),
        }
    }
}

fn new_list(items: Vec<Value>) -> Answer {
    new_list_of(items, Parts::Any)
}

fn new_list_of(items: Vec<Value>, parts: Parts) -> Answer {
    Value::list(items, parts).map_err(Failure::from)
}

fn new_texts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Answer {
    new_list_of(texts.into_iter().map(Value::text).collect(), Parts::Text)
}

fn new_map(members: BTreeMap<String, Value>) -> Answer {
    Value::map(members, false).map_err(Failure::from)
}

/// An object whose values are declared to be texts.
fn new_text_map(members: BTreeMap<String, Value>) -> Answer {
    Value::map(members, true).map_err(Failure::from)
}

fn new_text(text: impl AsRef<str>) -> Answer {
    Ok(Value::text(text))
}

/// A text of bytes that a cut may have left without its end; each byte of what is left over is shown by itself.
fn new_bytes(bytes: &[u8]) -> Answer {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    new_text(text)
}

/// The text that sprig makes of a value.
fn text_of(value: &Value) -> String {
    value.display()
}

/// The texts of a list, without nils; a single value is a list of one.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::List(list) => list
            .items
            .iter()
            .filter(|item| **item != Value::Nil)
            .map(text_of)
            .collect(),
        Value::Nil => Vec::new(),
        other => vec![text_of(other)],
    }
}
