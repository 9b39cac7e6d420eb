//! The names an expression can use: the top-level fields of the event data, as Go's decoder gives them.

use std::cell::Cell;
use std::collections::HashMap;

use expr::{Context, ContextProvider, Value};

/// How much of the event may be copied out of it during one evaluation, in bytes or so.
pub(super) const BUDGET: usize = 64 << 20;
/// What a value costs beside its text.
const VALUE: usize = 64;

/// Event data with the names that an expression sees.
pub(super) struct Names {
    values: HashMap<String, (Value, usize)>,
    /// What a name is that nobody has; `None` where it may be a field of the element of a predicate.
    nobody: Option<Value>,
    left: Cell<Option<usize>>,
}

impl Names {
    /// Upstream replaces `-` in the names of the top level, and only there.
    pub(super) fn new(data: &serde_json::Value, has_predicate: bool) -> Names {
        let fields = data.as_object().cloned().unwrap_or_default();
        let values = fields.into_iter().map(|(name, value)| {
            let value = value_of(value);
            let size = size_of(&value);
            (name.replace('-', "_"), (value, size))
        });
        Names {
            values: values.collect(),
            nobody: (!has_predicate).then_some(Value::Nil),
            left: Cell::new(Some(BUDGET)),
        }
    }

    /// Whether the evaluation was ended because it copied too much.
    pub(super) fn exhausted(&self) -> bool {
        self.left.get().is_none()
    }
}

impl ContextProvider for Names {
    fn get(&self, key: &str) -> Option<&Value> {
        if key.starts_with('#') {
            return None;
        }
        let Some((value, size)) = self.values.get(key) else {
            return self.nobody.as_ref();
        };
        let left = self.left.get().and_then(|left| left.checked_sub(*size));
        self.left.set(left);
        left.map(|_| value)
    }

    /// Asked for by `$env` alone, which the guard refuses.
    fn to_context(&self) -> Context {
        Context::default()
    }
}

/// Every number is a float64, as Go decodes JSON without a type.
fn value_of(value: serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(truth) => Value::Bool(truth),
        serde_json::Value::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Value::String(text),
        serde_json::Value::Array(items) => Value::Array(items.into_iter().map(value_of).collect()),
        serde_json::Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, value_of(value)))
            .collect(),
    }
}

fn size_of(value: &Value) -> usize {
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size_of).sum(),
            Value::Map(fields) => fields
                .iter()
                .map(|(name, value)| VALUE + name.len() + size_of(value))
                .sum(),
            _ => 0,
        }
}
