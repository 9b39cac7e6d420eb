//! `filter.expression` of an EventSource: expr over the event data, as upstream's `pkg/eventsources/eventing.go` and
//! `pkg/shared/expr/eval.go` evaluate it.
//!
//! Only [`Expression::parse`] and [`Expression::admits`] are called from above. What cannot be bounded (ranges, functions
//! that make values larger) is refused when the event is started, never misjudged. An event for which the expression is
//! false or fails is answered with 200 and goes nowhere.

mod guard;
mod literals;
mod names;

use expr::{Environment, Value};

use self::guard::Found;
use self::names::Names;

/// Largest event data in bytes that an expression is evaluated over.
const MAX_DATA: usize = 4 << 20;
/// Stack of the thread that evaluates; the guard holds nesting far below it.
const STACK: usize = 16 << 20;

/// Steps that patterns may take over the data of one event.
const MAX_STEPS: usize = 4 << 30;

/// Why an event has no verdict of its filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// Upstream fails, too, and drops the event.
    #[error("{0}")]
    Failed(String),
    /// It asks for more than this program does.
    #[error("{0}")]
    Stopped(String),
}

/// The expression of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    text: String,
    found: Found,
}

impl Expression {
    /// Takes an expression that can be evaluated within bounds. One that is merely wrong is taken too: upstream evaluates
    /// it anew for every event, and fails each time.
    ///
    /// # Errors
    /// What of the expression is not supported.
    pub(super) fn parse(text: &str) -> Result<Expression, String> {
        let found = guard::inspect(text).map_err(|what| {
            format!("eventlab: the filter expression {text:?} of an EventSource is not supported: {what}")
        })?;
        Ok(Expression {
            text: text.to_owned(),
            found,
        })
    }

    /// The expression as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether event data goes on to the bus.
    ///
    /// # Errors
    /// The expression could not be evaluated to a boolean; upstream drops the event then, too.
    pub(super) fn admits(&self, data: &[u8]) -> Result<bool, Failure> {
        if data.len() > MAX_DATA {
            return Err(Failure::Stopped(format!(
                "eventlab: the event data has {} bytes, and a filter expression is evaluated over {MAX_DATA} at most",
                data.len()
            )));
        }
        // In a predicate a text is read again for every element, as often as the budget of copies allows.
        let read = if self.found.has_predicate {
            names::BUDGET
        } else {
            data.len()
        };
        if self.found.steps.saturating_mul(read) > MAX_STEPS {
            return Err(self.stopped("eventlab: its patterns are too large, inside of a predicate or for data of this size"));
        }
        let (expression, data) = (self.clone(), data.to_vec());
        std::thread::Builder::new()
            .name("filter expression".to_owned())
            .stack_size(STACK)
            .spawn(move || expression.evaluate(&data))
            .map_err(|error| Failure::Stopped(format!("eventlab: cannot start a thread: {error}")))?
            .join()
            .unwrap_or_else(|_| Err(self.stopped("the expression cannot be evaluated")))
    }

    fn evaluate(&self, data: &[u8]) -> Result<bool, Failure> {
        let data: serde_json::Value = serde_json::from_slice(data)
            .map_err(|error| Failure::Failed(format!("failed to unmarshal data, {error}")))?;
        if let Some(why) = &self.found.broken {
            return Err(self.failed(why));
        }
        let names = Names::new(&data, self.found.has_predicate);
        let mut environment = Environment::new();
        for (alias, name) in [("asInt", "int"), ("asFloat", "float")] {
            environment.add_function(alias, move |call| {
                call.env.eval_func(call.ctx, name, call.args, None)
            });
        }
        let result = environment.eval(&self.found.text, &names);
        if names.exhausted() {
            return Err(self.stopped("eventlab: it reads too much of the event too often"));
        }
        match result.map_err(|error| self.failed(&error.to_string()))? {
            Value::Bool(admitted) => Ok(admitted),
            other => Err(Failure::Failed(format!(
                "unable to cast expression result '{}' to bool",
                shown(&other)
            ))),
        }
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::Failed(self.told(why))
    }

    fn stopped(&self, why: &str) -> Failure {
        Failure::Stopped(self.told(why))
    }

    fn told(&self, why: &str) -> String {
        format!("unable to evaluate expression '{}': {why}", self.text)
    }
}

/// A value as Go's `%s` shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Nil => "%!s(<nil>)".to_owned(),
        Value::String(text) => text.clone(),
        Value::Integer(number) => format!("%!s(int={number})"),
        Value::Float(number) => format!("%!s(float64={number})"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
