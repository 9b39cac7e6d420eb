//! Reading typed fields out of a manifest as Go's JSON decoder would: wrong types are errors with a path, `null` is
//! absence, unknown keys are ignored and names are case-sensitive.

use serde_json::Value;

/// A field of a manifest has a type that the controller cannot decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: wants {wanted}, found {found}; the controller cannot decode the object")]
pub struct DecodeError {
    /// Where, such as `spec.dependencies[0].filters.data[0].value[0]`.
    pub path: String,
    /// What the field must be, with its article.
    pub wanted: &'static str,
    /// What stands there, with its article.
    pub found: String,
}

/// A place in a manifest.
#[derive(Debug, Clone)]
pub(super) struct Node<'v> {
    value: &'v Value,
    path: String,
}

impl<'v> Node<'v> {
    pub(super) fn new(value: &'v Value, path: impl Into<String>) -> Self {
        Self {
            value,
            path: path.into(),
        }
    }

    pub(super) fn value(&self) -> &'v Value {
        self.value
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn wrong(&self, wanted: &'static str) -> DecodeError {
        DecodeError {
            path: self.path.clone(),
            wanted,
            found: describe(self.value),
        }
    }

    /// A field of this object; `None` where it is absent or null.
    pub(super) fn field(&self, name: &str) -> Result<Option<Node<'v>>, DecodeError> {
        let Value::Object(members) = self.value else {
            return Err(self.wrong("an object"));
        };
        let value = members.get(name).filter(|value| !value.is_null());
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        };
        Ok(value.map(|value| Node { value, path }))
    }

    /// A field that must be an object.
    pub(super) fn object(&self, name: &str) -> Result<Option<Node<'v>>, DecodeError> {
        let Some(node) = self.field(name)? else {
            return Ok(None);
        };
        if node.value.is_object() {
            Ok(Some(node))
        } else {
            Err(node.wrong("an object"))
        }
    }

    /// A text field, empty where it is absent.
    pub(super) fn text(&self, name: &str) -> Result<String, DecodeError> {
        Ok(self.optional_text(name)?.unwrap_or_default())
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<String>, DecodeError> {
        self.field(name)?.map(|node| node.as_text()).transpose()
    }

    pub(super) fn as_text(&self) -> Result<String, DecodeError> {
        match self.value {
            Value::String(text) => Ok(text.clone()),
            Value::Null => Ok(String::new()),
            _ => Err(self.wrong("a string")),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, DecodeError> {
        match self.field(name)? {
            None => Ok(false),
            Some(node) => node.value.as_bool().ok_or_else(|| node.wrong("a boolean")),
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, DecodeError> {
        self.field(name)?
            .map(|node| node.value.as_i64().ok_or_else(|| node.wrong("an integer")))
            .transpose()
    }

    /// A list field; `None` where it is absent, which is not the same as empty.
    pub(super) fn list(&self, name: &str) -> Result<Option<Vec<Node<'v>>>, DecodeError> {
        let Some(node) = self.field(name)? else {
            return Ok(None);
        };
        let Value::Array(items) = node.value else {
            return Err(node.wrong("a list"));
        };
        let item = |(index, value)| Node {
            value,
            path: format!("{}[{index}]", node.path),
        };
        Ok(Some(items.iter().enumerate().map(item).collect()))
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, DecodeError> {
        self.list(name)?
            .unwrap_or_default()
            .iter()
            .map(Node::as_text)
            .collect()
    }

    /// A field of text values by name, such as labels; `None` where it is absent.
    pub(super) fn text_map(
        &self,
        name: &str,
    ) -> Result<Option<Vec<(String, String)>>, DecodeError> {
        let Some(node) = self.object(name)? else {
            return Ok(None);
        };
        let Value::Object(members) = node.value else {
            return Ok(None);
        };
        let member = |(key, value): (&String, &'v Value)| {
            let text = Node {
                value,
                path: format!("{}.{key}", node.path),
            }
            .as_text()?;
            Ok((key.clone(), text))
        };
        members
            .iter()
            .map(member)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
