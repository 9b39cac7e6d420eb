//! A Lua 5.1 machine for untrusted scripts: libraries as gopher-lua answers, every loop counted.
//!
//! Called from `script` alone: [`Machine::new`], [`Machine::load`] and [`Machine::decide`].

mod base;
pub(super) mod budget;
mod pattern;
mod strings;
mod system;
mod value;

use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::debug::HookTriggers;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, VmState};

pub(super) use budget::Bound;
use budget::Budget;

/// Instructions between two looks at the budget. At 1,000 a loop of library calls overran ten times further.
const INSTRUCTIONS_PER_CHECK: u32 = 100;
/// Calls inside one another. Upstream's engine ends at 256, this one in C at 200; a call takes two instructions at least,
/// so that none gets so far unseen.
const MAX_FRAMES: usize = 145;
/// Levels that are looked at for such calls before it is asked whether there is more than a loop.
const MAX_LEVELS: usize = 4 * MAX_FRAMES;
/// Calls that stand inside one another around a loop whose every turn is a call that ends in the next.
const LOOP_FRAMES: usize = 4;
/// Memory that one event may take beyond what the machine holds, in bytes.
const MEMORY: usize = 8 << 20;
/// Memory for an event's own data while it is turned into tables, in bytes.
const EVENT_MEMORY: usize = 64 << 20;

/// One Lua state with its libraries.
pub(super) struct Machine {
    lua: Lua,
    budget: Arc<Budget>,
    run: Function,
    /// Runs a script for its last value.
    value: Function,
    /// `{__index = globals}`, for an environment that takes an event's globals with it.
    inherits: Table,
}

impl Machine {
    /// Makes a state with the libraries of a script filter and none that reaches outside.
    pub fn new() -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let budget = Arc::new(Budget::new());
        let own = budget.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_CHECK);
        lua.set_global_hook(triggers, move |lua, _| {
            own.charge(INSTRUCTIONS_PER_CHECK as usize)?;
            if is_deep(lua, &own)? {
                return Err(own.stop(Bound::Frames));
            }
            Ok(VmState::Continue)
        })?;
        budget.start();
        let (run, value) = install(&lua, &budget)?;
        let inherits = lua.create_table()?;
        inherits.raw_set("__index", lua.globals())?;
        Ok(Self {
            lua,
            budget,
            run,
            value,
            inherits,
        })
    }

    /// Compiles a script.
    pub fn load(&self, source: &str) -> mlua::Result<Function> {
        self.lua
            .load(source)
            .set_name("=<string>")
            .set_mode(ChunkMode::Text)
            .into_function()
    }

    /// Runs a script on an event that `convert` turns into a table; says whether its last value was `true`.
    ///
    /// With `fresh_globals` what the script sets is gone afterwards; without, it stays in the state.
    pub fn decide<E: From<mlua::Error>>(
        &self,
        script: &Function,
        fresh_globals: bool,
        convert: impl FnOnce(&Lua) -> Result<Table, E>,
        large: bool,
    ) -> Result<bool, E> {
        self.prepare(script, fresh_globals, convert, large)?;
        Ok(self.run.call(script)?)
    }

    /// Runs a script on an event as [`Machine::decide`] does, for its last value.
    pub fn value<E: From<mlua::Error>>(
        &self,
        script: &Function,
        fresh_globals: bool,
        convert: impl FnOnce(&Lua) -> Result<Table, E>,
        large: bool,
    ) -> Result<mlua::Value, E> {
        self.prepare(script, fresh_globals, convert, large)?;
        Ok(self.value.call(script)?)
    }

    fn prepare<E: From<mlua::Error>>(
        &self,
        script: &Function,
        fresh_globals: bool,
        convert: impl FnOnce(&Lua) -> Result<Table, E>,
        large: bool,
    ) -> Result<(), E> {
        // Without a limit the conversion skips a protected call per value; a large event is bounded instead.
        self.lua.set_memory_limit(if large {
            self.lua.used_memory() + EVENT_MEMORY
        } else {
            0
        })?;
        let event = convert(&self.lua)?;
        if fresh_globals {
            let environment = self.lua.create_table()?;
            environment.raw_set("event", event)?;
            environment.set_metatable(Some(self.inherits.clone()))?;
            script.set_environment(environment)?;
        } else {
            self.lua.globals().raw_set("event", event)?;
        }
        self.lua.set_memory_limit(self.lua.used_memory() + MEMORY)?;
        self.budget.start();
        Ok(())
    }

    /// The bound of this program at which the last event was stopped.
    pub fn stopped(&self) -> Option<Bound> {
        self.budget.stopped()
    }
}

/// Whether calls stand inside one another too deeply. A call that ended in another one still has a level, but takes no
/// room; upstream counts neither. There may be any number of such levels, so that looking at many is paid for, and of a loop
/// that consists of them not all are looked at.
fn is_deep(lua: &Lua, budget: &Budget) -> mlua::Result<bool> {
    let is_call = |level| lua.inspect_stack(level, |debug| debug.source().what != "tail");
    if is_call(MAX_FRAMES).is_none() {
        return Ok(false);
    }
    let mut calls = 0;
    for (level, is_call) in (0..).map_while(is_call).enumerate() {
        calls += usize::from(is_call);
        if calls > MAX_FRAMES {
            return Ok(true);
        }
        if level % MAX_LEVELS == MAX_LEVELS - 1 {
            if calls <= LOOP_FRAMES {
                return Ok(false);
            }
            budget.charge(MAX_LEVELS)?;
        }
    }
    Ok(false)
}

/// Replaces and adds library functions; returns the prelude's functions that run a
/// script: for whether it is true, and for its value.
fn install(lua: &Lua, budget: &Arc<Budget>) -> mlua::Result<(Function, Function)> {
    let globals = lua.globals();
    let internal = lua.create_table()?;
    strings::install(lua, &globals.raw_get("string")?, &internal, budget)?;
    base::install(lua, &internal, budget)?;
    let os = lua.create_table()?;
    system::install(lua, &os)?;
    globals.raw_set("os", os)?;
    internal.raw_set("stopped", budget::STOPPED)?;
    internal.raw_set("largest", f64::MAX)?;
    let check = |_: &Lua, (value, position, function): (mlua::Value, usize, String)| {
        base::check_table(&value, position, &function)
    };
    internal.raw_set("check_table", lua.create_function(check)?)?;
    let run = lua
        .load(include_str!("prelude.lua"))
        .set_name("=[library]")
        .set_mode(ChunkMode::Text)
        .call(internal.clone())?;
    Ok((run, internal.raw_get("value")?))
}

/// Returns the message of an error as a script would see it, without the stack.
pub(super) fn message_of(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(message) | mlua::Error::MemoryError(message) => message.clone(),
        mlua::Error::CallbackError { traceback, cause } => return failed_in(traceback, cause),
        other => other.to_string(),
    };
    match text.split_once(STACK) {
        Some((message, stack)) => match without_library(message) {
            Some(message) => at_line(line_in(stack), message),
            None => message.to_owned(),
        },
        None => text,
    }
}

/// What the machine puts behind an error that the script itself raised.
const STACK: &str = "\nstack traceback:";
/// How the stack names the script.
const SCRIPT: &str = "<string>";

/// The message of a library function that failed, with the line of the script that called it.
fn failed_in(traceback: &str, cause: &mlua::Error) -> String {
    let message = message_of(cause);
    match cause {
        mlua::Error::RuntimeError(text) if !text.contains(STACK) => {
            at_line(line_in(traceback), &message)
        }
        _ => message,
    }
}

/// The message of an error in the prelude, without its place there; `None` for any other.
fn without_library(message: &str) -> Option<&str> {
    let place = message.strip_prefix("[library]:")?;
    place.split_once(": ").map(|(_, message)| message)
}

fn at_line(line: Option<usize>, message: &str) -> String {
    match line {
        Some(line) => format!("{SCRIPT}:{line}: {message}"),
        None => message.to_owned(),
    }
}

/// The line at which the script stood, by a stack in words.
fn line_in(stack: &str) -> Option<usize> {
    let mut lines = stack.lines().filter_map(|line| {
        let place = line.trim_start().strip_prefix(SCRIPT)?;
        place.strip_prefix(':')?.split(':').next()?.parse().ok()
    });
    lines.next()
}

/// The line at which the script stands, where it is not far up.
fn script_line(lua: &Lua) -> Option<usize> {
    let line = |level| {
        lua.inspect_stack(level, |debug| {
            let is_script = debug.source().short_src.as_deref() == Some(SCRIPT);
            is_script.then(|| debug.current_line()).flatten()
        })
    };
    (0..MAX_CALLERS).map_while(line).find_map(|line| line)
}

/// Calls of the prelude between a script and what it calls.
const MAX_CALLERS: usize = 12;
