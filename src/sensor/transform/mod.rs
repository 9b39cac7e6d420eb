//! A dependency's `transform`: the event's data made anew by jq or Lua, before its filters see it.
//!
//! From above: [`Transform::compile`] and [`Transform::apply`]. An event whose transform fails is gone, upstream too.

mod jq;
mod lua_value;

use serde_json::Value;

use super::event::Event;
use super::script::{Script, ScriptError};
pub(super) use lua_value::to_json;

/// Media type of what a transform makes.
const JSON: &str = "application/json";

/// A transform, ready for many events.
#[derive(Debug)]
pub struct Transform {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A program, or why it cannot be read: that is an error at every event, as upstream.
    Jq(Result<jq::Program, String>),
    Script(Result<Script, ScriptError>),
}

/// Why an event cannot be transformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// Upstream fails, too.
    #[error("{0}")]
    Failed(String),
    /// This program stopped a script that upstream might have run to its end.
    #[error("{0}")]
    Stopped(String),
    /// Upstream may have an answer, this program has none.
    #[error("eventlab: {0}")]
    Unsupported(String),
}

impl Transform {
    /// Reads a dependency's `transform`; none where neither `jq` nor `script` is set. With both, `jq` counts.
    ///
    /// # Errors
    /// [`TransformError::Unsupported`] for a program that this program does not run as upstream does.
    pub fn compile(transform: Option<&Value>) -> Result<Option<Self>, TransformError> {
        let text = |key: &str| {
            transform
                .and_then(|transform| transform.get(key))
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let kind = if let Some(program) = text("jq") {
            match jq::Program::compile(program) {
                Err(TransformError::Failed(error)) => Kind::Jq(Err(error)),
                Err(other) => return Err(other),
                Ok(program) => Kind::Jq(Ok(program)),
            }
        } else if let Some(source) = text("script") {
            let script = Script::compile(source);
            if let Err(ScriptError::Outside(what)) = &script {
                return Err(TransformError::Unsupported(format!(
                    "{what} in transform.script is not supported; write it as a loop"
                )));
            }
            Kind::Script(script)
        } else {
            return Ok(None);
        };
        Ok(Some(Self { kind }))
    }

    /// Why its jq program cannot be read, which upstream finds at every event.
    #[must_use]
    pub fn unreadable(&self) -> Option<&str> {
        match &self.kind {
            Kind::Jq(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// Transforms an event; one without data stays as it is.
    ///
    /// # Errors
    /// [`TransformError`]; the event is then gone.
    pub fn apply(&self, event: &Event) -> Result<Event, TransformError> {
        let Some(data) = event.data.as_deref() else {
            return Ok(event.clone());
        };
        let made = match &self.kind {
            Kind::Jq(Ok(program)) => program.run(data)?,
            Kind::Jq(Err(error)) => return Err(TransformError::Failed(error.clone())),
            Kind::Script(Ok(script)) => script.transform(data).map_err(script_error)?,
            Kind::Script(Err(error)) => return Err(script_error(error.clone())),
        };
        Ok(Event {
            datacontenttype: JSON.to_owned(),
            data: Some(made),
            ..event.clone()
        })
    }
}

fn script_error(error: ScriptError) -> TransformError {
    if error.is_own() {
        TransformError::Stopped(error.to_string())
    } else {
        TransformError::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests;
