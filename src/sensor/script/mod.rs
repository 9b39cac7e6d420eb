//! Script filters: Lua 5.1 over the event's data, as Argo Events runs them on gopher-lua.
//!
//! Called from above: [`Script::compile`], [`Script::evaluate`] and [`never_true`]. The script sees the data as global
//! `event`; the event passes if the last value that the script returns is the boolean `true`. Every event starts
//! afresh, and no script runs, allocates or recurses without bound.

mod blocks;
mod event;
mod guard;
mod jumps;
mod known;
mod operands;
mod returns;
mod syntax;
#[cfg(test)]
mod tests;
mod tokens;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use mlua::Function;

use crate::sensor::go_json;
use crate::sensor::lua::{Bound, Machine, message_of};
use crate::sensor::transform::to_json;

pub use returns::never_true;

/// Longest script, in bytes.
const MAX_SOURCE: usize = 256 << 10;
/// States kept for later events.
const MAX_IDLE: usize = 4;
/// Event data of more bytes is converted under a memory limit.
const LARGE_EVENT: usize = 256 << 10;
/// The engine's parser stops at 200 levels (`LUAI_MAXCCALLS`, lparser.c of Lua 5.1), upstream's does not.
const TOO_DEEP: &str = "chunk has too many syntax levels";
/// Stack for scripts that may use coroutines: each of them recurses in C by itself.
const COROUTINE_STACK: usize = 64 << 20;

/// Why a script filter has no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The script is not Lua 5.1.
    #[error("{0}")]
    Syntax(String),
    /// The script, or what it makes, is longer or nested deeper than this program takes.
    #[error("eventlab: {0}")]
    TooLarge(String),
    /// The script raised an error.
    #[error("{0}")]
    Runtime(String),
    /// The script takes more steps than this program gives it.
    #[error("eventlab: the script takes too many steps for one event; do less work per event")]
    Stopped,
    /// The script asked for too much memory.
    #[error(
        "eventlab: the script needs more than 8 MiB of memory for one event; keep less text and smaller tables"
    )]
    Memory,
    /// The event's data is no JSON object.
    #[error("{0}")]
    Data(String),
    /// Upstream's engine runs it, this one cannot.
    #[error("eventlab: {0} in a script is not supported; write it as a loop")]
    Outside(String),
    /// The engine failed.
    #[error("eventlab: run the script: {0}; report this script")]
    Engine(String),
}

impl ScriptError {
    /// Whether this program stops here, where upstream's engine might go on.
    #[must_use]
    pub fn is_own(&self) -> bool {
        match self {
            Self::Stopped
            | Self::Memory
            | Self::Outside(_)
            | Self::Engine(_)
            | Self::TooLarge(_) => true,
            Self::Syntax(_) | Self::Runtime(_) | Self::Data(_) => false,
        }
    }
}

impl From<Bound> for ScriptError {
    fn from(bound: Bound) -> Self {
        let what = match bound {
            Bound::Steps => return Self::Stopped,
            Bound::Memory => return Self::Memory,
            Bound::Text => "the script makes a text of more than 4 MiB; make shorter ones",
            Bound::Values => "the script asks for thousands of values at once; name the places",
            Bound::Depth => {
                "the script nests callbacks or coroutines more than 16 deep; nest fewer"
            }
            Bound::Frames => {
                "the script's functions call one another too deeply; upstream's engine ends at 256 calls; write a loop"
            }
        };
        Self::TooLarge(what.to_owned())
    }
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        let mut cause = &error;
        while let mlua::Error::CallbackError { cause: inner, .. } = cause {
            cause = inner;
        }
        match cause {
            mlua::Error::SyntaxError { .. } => {
                let text = message_of(cause);
                // What the engine says of a script ends in a quotation; only its own limit does not.
                if text.ends_with(TOO_DEEP) {
                    Self::TooLarge(text)
                } else {
                    Self::Syntax(text)
                }
            }
            mlua::Error::MemoryError(_) => Self::Memory,
            _ => Self::Runtime(message_of(&error)),
        }
    }
}

/// A compiled script filter; shared between threads, each of which takes a state of its own.
#[derive(Debug)]
pub struct Script {
    source: String,
    reusable: bool,
    idle: Mutex<Vec<Loaded>>,
}

struct Loaded {
    machine: Machine,
    script: Function,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Loaded")
    }
}

impl Loaded {
    fn new(source: &str) -> Result<Self, ScriptError> {
        let machine = Machine::new().map_err(|error| ScriptError::Engine(message_of(&error)))?;
        let script = machine.load(source)?;
        Ok(Self { machine, script })
    }

    fn decide(&self, fresh_globals: bool, data: &[u8]) -> Result<bool, ScriptError> {
        let large = data.len() > LARGE_EVENT;
        let convert = |lua: &mlua::Lua| event::to_table(lua, data);
        let decided = self
            .machine
            .decide(&self.script, fresh_globals, convert, large);
        self.unless_stopped(decided)
    }

    /// The last value as JSON text.
    fn make(&self, fresh_globals: bool, data: &[u8]) -> Result<Vec<u8>, ScriptError> {
        let large = data.len() > LARGE_EVENT;
        let convert = |lua: &mlua::Lua| event::to_table(lua, data);
        let value = self
            .machine
            .value(&self.script, fresh_globals, convert, large);
        let value = self.unless_stopped(value)?;
        Ok(go_json::to_vec(&to_json(&value)?))
    }

    fn unless_stopped<T>(&self, result: Result<T, ScriptError>) -> Result<T, ScriptError> {
        match self.machine.stopped() {
            Some(bound) => Err(bound.into()),
            None => result,
        }
    }
}

impl Script {
    /// Compiles a script.
    ///
    /// # Errors
    /// [`ScriptError::Syntax`] with Lua's message, [`ScriptError::TooLarge`] past the limits of this program,
    /// [`ScriptError::Outside`] for a few ways to jump.
    pub fn compile(source: &str) -> Result<Self, ScriptError> {
        if source.len() > MAX_SOURCE {
            let text = format!("script is longer than {MAX_SOURCE} bytes; shorten it");
            return Err(ScriptError::TooLarge(text));
        }
        let written = jumps::without(source)?;
        let source = written.as_deref().unwrap_or(source);
        let called = operands::written(source);
        let source = called.as_deref().unwrap_or(source);
        let loaded = guarded(|| Loaded::new(source))?;
        let reusable = guard::leaves_nothing(source);
        let idle = if reusable { vec![loaded] } else { Vec::new() };
        Ok(Self {
            source: source.to_string(),
            reusable,
            idle: Mutex::new(idle),
        })
    }

    /// Runs the script on an event's data, which is valid JSON; says whether the event passes.
    ///
    /// # Errors
    /// The script's own error, a limit, or data that is neither an object nor `null`.
    pub fn evaluate(&self, data: &[u8]) -> Result<bool, ScriptError> {
        self.run(|loaded, fresh_globals| loaded.decide(fresh_globals, data))
    }

    /// Runs the script on an event's data for the table that it returns, as JSON text.
    ///
    /// # Errors
    /// As [`Script::evaluate`], and for a value that is no table.
    pub fn transform(&self, data: &[u8]) -> Result<Vec<u8>, ScriptError> {
        self.run(|loaded, fresh_globals| loaded.make(fresh_globals, data))
    }

    fn run<T: Send>(
        &self,
        work: impl Fn(&Loaded, bool) -> Result<T, ScriptError> + Send + Sync,
    ) -> Result<T, ScriptError> {
        if !self.reusable {
            return self.run_alone(work);
        }
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let loaded = match idle {
            Some(loaded) => loaded,
            None => guarded(|| Loaded::new(&self.source))?,
        };
        let decided = guarded(|| work(&loaded, true));
        if !matches!(
            decided,
            Err(ScriptError::Stopped
                | ScriptError::Memory
                | ScriptError::Engine(_)
                | ScriptError::TooLarge(_))
        ) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MAX_IDLE {
                idle.push(loaded);
            }
        }
        decided
    }

    /// Runs on a new state and a deep stack.
    fn run_alone<T: Send>(
        &self,
        work: impl Fn(&Loaded, bool) -> Result<T, ScriptError> + Send + Sync,
    ) -> Result<T, ScriptError> {
        let run = || guarded(|| work(&Loaded::new(&self.source)?, false));
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("script".to_string())
                .stack_size(COROUTINE_STACK);
            let running = thread
                .spawn_scoped(scope, run)
                .map_err(|error| ScriptError::Engine(error.to_string()))?;
            running
                .join()
                .unwrap_or_else(|_| Err(ScriptError::Engine("it failed".to_string())))
        })
    }
}

/// Turns a panic of the engine, which would be a mistake in it, into an error.
fn guarded<T>(run: impl FnOnce() -> Result<T, ScriptError>) -> Result<T, ScriptError> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(ScriptError::Engine("it failed".to_string())))
}
