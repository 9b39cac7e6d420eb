//! jq programs: upstream runs gojq, this program jaq, on the part of the language where both agree.
//!
//! A program is looked at before it runs ([`look`]): what the two answer differently is refused by name. It runs on a
//! thread of its own with a meter ([`meter`]) that stops it when it takes too many steps, too much time, memory or
//! stack. Objects are sorted wherever a program makes or changes one, as in gojq. Error texts differ.

mod changes;
mod dates;
mod known;
mod look;
mod meter;
mod places;
mod values;

use jaq_core::load::parse::{Def, Term};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::Val;
use serde_json::Value;

use super::TransformError;
use crate::sensor::go_json;

/// Longest program, in bytes.
const MAX_PROGRAM: usize = 8 << 10;
/// Most brackets that are open at once.
const MAX_NESTING: usize = 60;
/// Stack of the thread that runs programs.
const STACK: usize = 64 << 20;
/// The definition that holds the program.
const MAIN: &str = "eventlab_main";

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
        on_a_thread(|| look::check(&parsed(text)?))?;
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
        on_a_thread(|| self.run_here(&input))
    }

    fn run_here(&self, input: &Value) -> Result<Vec<u8>, TransformError> {
        let funs: Vec<_> = jaq_core::funs::<data::JustLut<Val>>()
            .chain(jaq_std::funs())
            .chain(jaq_json::funs())
            .collect();
        let natives = funs.iter().map(|(name, ..)| *name).collect();
        let program = Def {
            name: MAIN,
            args: Vec::new(),
            body: in_scope(parsed(&self.text)?)?,
        };
        let defs = jaq_core::defs()
            .chain(jaq_std::defs())
            .chain(jaq_json::defs())
            .map(|def| meter::metered_def(def, &natives))
            .chain([meter::metered_def(program, &natives)]);
        let arena = Arena::default();
        let file = File {
            code: MAIN,
            path: (),
        };
        let modules = Loader::new(defs)
            .load(&arena, file)
            .map_err(|_| failed("the jq program cannot be read"))?;
        let filter = Compiler::default()
            .with_funs(
                funs.into_iter()
                    .chain(meter::funs())
                    .chain(places::funs())
                    .chain(dates::funs())
                    .chain([changes::fun()]),
            )
            .compile(modules)
            .map_err(|_| {
                failed("the jq program names a variable or function that does not exist")
            })?;
        let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
        let mut outputs = filter
            .id
            .run((context, values::from_json(input)))
            .map(unwrap_valr);
        let first = outputs
            .next()
            .ok_or_else(|| failed("no output available from the jq command execution"))?;
        let first = first.map_err(|error| failed(error.to_string()))?;
        if !matches!(first, Val::Obj(_)) {
            return Err(failed("jq transformation output must be a JSON object"));
        }
        Ok(go_json::to_vec(&values::to_json(&first)?))
    }
}

fn unsupported(text: impl Into<String>) -> TransformError {
    TransformError::Unsupported(text.into())
}

fn failed(text: impl Into<String>) -> TransformError {
    TransformError::Failed(text.into())
}

/// Runs on a thread with a stack for the deepest program and a meter.
fn on_a_thread<T: Send>(
    run: impl FnOnce() -> Result<T, TransformError> + Send,
) -> Result<T, TransformError> {
    std::thread::scope(|scope| {
        let metered = || {
            meter::start(STACK);
            run()
        };
        let thread = std::thread::Builder::new()
            .name("jq".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, metered)
            .map_err(|error| unsupported(format!("cannot start a thread for jq: {error}")))?;
        thread.join().unwrap_or_else(|ended| {
            Err(unsupported(match ended.downcast_ref::<meter::Stopped>() {
                Some(stopped) => format!("the jq program was stopped: {}", stopped.0),
                None => "jq failed on this program; report it".to_owned(),
            }))
        })
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
    jaq_core::load::parse(text, |parser| parser.term()).ok_or_else(|| {
        let outside = OUTSIDE.iter().find(|word| text.contains(**word));
        match outside {
            Some(word) => unsupported(format!(
                "`{word}` in a jq program is not supported; write it in another way, or use a script"
            )),
            None if bare_fraction(text) => unsupported(
                "a number that begins with a point in a jq program is not supported; write 0 in front",
            ),
            None => failed("the jq program cannot be read"),
        }
    })
}

/// Whether a number such as `.5` stands somewhere.
fn bare_fraction(text: &str) -> bool {
    let mut before = b' ';
    text.as_bytes().windows(2).any(|pair| {
        let bare = pair[0] == b'.' && pair[1].is_ascii_digit() && !before.is_ascii_alphanumeric();
        before = pair[0];
        bare
    })
}

/// Syntax of gojq that jaq does not read.
const OUTSIDE: [&str; 4] = ["?//", "$__loc__", "import ", "include "];

/// Functions that jaq lacks or has in another way, with gojq's meaning.
const DEFINITIONS: &str = include_str!("definitions.jq");

/// A program in the scope of these functions, so that its own count before them.
fn in_scope(program: Term<&str>) -> Result<Term<&str>, TransformError> {
    let definitions = jaq_core::load::parse(DEFINITIONS, |parser| parser.defs())
        .ok_or_else(|| failed("the jq definitions cannot be read"))?;
    Ok(Term::Def(definitions, Box::new(program)))
}
