//! `filter.expression` of an EventSource: expr over the event data, as upstream's `pkg/eventsources/eventing.go` and
//! `pkg/shared/expr/eval.go` evaluate it.
//!
//! Only [`Expression::parse`] and [`Expression::admits`] are called from above. What cannot be bounded (ranges, functions
//! that make values larger) is refused when the event is started, never misjudged. An event for which the expression is
//! false or fails is answered with 200 and goes nowhere.

mod guard;
mod names;

use expr::{Environment, Value};

use self::guard::Found;
use self::names::Names;

/// Largest event data in bytes that an expression is evaluated over.
const MAX_DATA: usize = 4 << 20;
/// Stack of the thread that evaluates; the guard holds nesting far below it.
const STACK: usize = 16 << 20;

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
    pub(super) fn admits(&self, data: &[u8]) -> Result<bool, String> {
        if data.len() > MAX_DATA {
            return Err(format!(
                "eventlab: the event data has {} bytes, and a filter expression is evaluated over {MAX_DATA} at most",
                data.len()
            ));
        }
        let (expression, data) = (self.clone(), data.to_vec());
        std::thread::Builder::new()
            .name("filter expression".to_owned())
            .stack_size(STACK)
            .spawn(move || expression.evaluate(&data))
            .map_err(|error| format!("eventlab: cannot start a thread: {error}"))?
            .join()
            .unwrap_or_else(|_| Err(self.failed("the expression cannot be evaluated")))
    }

    fn evaluate(&self, data: &[u8]) -> Result<bool, String> {
        let data: serde_json::Value = serde_json::from_slice(data)
            .map_err(|error| format!("failed to unmarshal data, {error}"))?;
        if let Some(name) = &self.found.unknown {
            return Err(self.failed(&format!("unknown name {name}")));
        }
        let names = Names::new(&data, self.found.has_predicate);
        let mut environment = Environment::new();
        for (alias, name) in [("asInt", "int"), ("asFloat", "float")] {
            environment.add_function(alias, move |call| {
                call.env.eval_func(call.ctx, name, call.args, None)
            });
        }
        let result = environment.eval(&self.text, &names);
        if names.exhausted() {
            return Err(self.failed("eventlab: it reads too much of the event too often"));
        }
        match result.map_err(|error| self.failed(&error.to_string()))? {
            Value::Bool(admitted) => Ok(admitted),
            other => Err(format!(
                "unable to cast expression result '{}' to bool",
                shown(&other)
            )),
        }
    }

    fn failed(&self, why: &str) -> String {
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
