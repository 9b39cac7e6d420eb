//! Trigger parameters: values out of events, written into the object that a trigger submits.
//!
//! From above: [`apply`], or [`Parameters::decode`] once and [`Parameters::apply`] for every execution.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::decode::{DecodeError, Node};
use super::event::Event;
use super::go_json;
use super::json;
use super::path::{self, Kind, LimitExceeded};
use super::set::{Insert, SetError, set};
use super::template::{Template, TemplateError, is_no_value};

/// Events by the name of the dependency that they satisfied.
pub type Events = BTreeMap<String, Event>;

/// Why parameters cannot be applied; the trigger then fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A field of a parameter has a type that the controller could not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A parameter without `src`, which validation refuses.
    #[error("parameter source can't be empty")]
    NoSource,
    /// Neither the key nor a default gives a value.
    #[error("unable to resolve '{0}' parameter value. err: <nil>")]
    Unresolved(String),
    /// The dependency of this name has no event and no default stands in; upstream uses the value all the same.
    #[error("panic: runtime error: invalid memory address or nil pointer dereference")]
    NoValue(String),
    /// The event's data cannot be looked into, and there is no default.
    #[error("{0}")]
    Payload(String),
    /// An operation that does not exist.
    #[error("unsupported trigger parameter operation: {0}")]
    Operation(String),
    /// The value cannot be written at the destination.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The key or destination asks for too much work.
    #[error(transparent)]
    TooComplex(#[from] LimitExceeded),
    /// The result is not JSON any more.
    #[error("the object with its parameters is not valid JSON: {0}")]
    Result(String),
    /// Something that upstream can do and this program cannot yet.
    #[error("eventlab: {0} is not supported yet; use a key or a value instead")]
    Unsupported(String),
}

impl ParameterError {
    /// Whether upstream might have gone on where this program stopped.
    #[must_use]
    pub fn is_own(&self) -> bool {
        match self {
            Self::TooComplex(_) | Self::Unsupported(_) => true,
            Self::Set(error) => error.is_own(),
            _ => false,
        }
    }
}

/// A list of parameters, decoded.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    list: Vec<Parameter>,
}

#[derive(Debug, Clone)]
struct Parameter {
    source: Option<Source>,
    dest: String,
    operation: String,
}

#[derive(Debug, Clone)]
struct Source {
    dependency: String,
    context: Choice,
    data: Choice,
    value: Option<String>,
    use_raw_data: bool,
}

/// How a value is taken from the context or from the data: by a template, else at a key.
#[derive(Debug, Clone)]
struct Choice {
    key: String,
    /// A mistake in the template counts only when the value is wanted; then the key or the default stands in.
    template: Option<Result<Template, TemplateError>>,
}

/// Applies a list of parameters to an object.
///
/// # Errors
/// [`ParameterError`], with upstream's text where upstream has one.
pub fn apply(parameters: &Value, events: &Events, object: &Value) -> Result<Value, ParameterError> {
    Parameters::decode(parameters)?.apply(events, object)
}

/// Whether a parameter's `src` may show the type of its event: data before context, and both before the whole event.
#[must_use]
pub fn may_show_type(source: &Value) -> bool {
    let text = |key: &str| source.get(key).and_then(Value::as_str).unwrap_or_default();
    if !text("dataKey").is_empty() || !text("dataTemplate").is_empty() {
        return false;
    }
    match (text("contextKey"), text("contextTemplate")) {
        ("", "") => source.get("value").is_none_or(Value::is_null),
        (key, "") => !OTHER_ATTRIBUTES.contains(&key),
        _ => true,
    }
}

/// Attributes of the context beside the type.
const OTHER_ATTRIBUTES: [&str; 6] = [
    "id",
    "source",
    "specversion",
    "datacontenttype",
    "subject",
    "time",
];

impl Parameters {
    /// Reads a list of parameters; `null` is an empty list.
    ///
    /// # Errors
    /// [`ParameterError::Decode`] for wrong types.
    pub fn decode(list: &Value) -> Result<Self, ParameterError> {
        let wrapped = serde_json::json!({ "parameters": list });
        Self::of(&Node::new(&wrapped, ""), "parameters")
    }

    pub(super) fn of(owner: &Node<'_>, name: &str) -> Result<Self, ParameterError> {
        let items = owner.list(name)?.unwrap_or_default();
        let list = items
            .iter()
            .filter(|item| !item.value().is_null())
            .map(Parameter::decode)
            .collect::<Result<_, _>>()?;
        Ok(Self { list })
    }

    /// Whether there is nothing to apply.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Resolves the parameters where what they are written into is not known.
    ///
    /// # Errors
    /// [`ParameterError`] of the first parameter without a value.
    pub(super) fn resolve(&self, events: &Events) -> Result<(), ParameterError> {
        for parameter in &self.list {
            parameter.source()?.resolve(events)?;
        }
        Ok(())
    }

    /// Resolves the parameters where each of them must have a value.
    ///
    /// # Errors
    /// [`ParameterError`] of the first parameter without a value, [`ParameterError::NoValue`] where its dependency has no event.
    pub(super) fn values(&self, events: &Events) -> Result<(), ParameterError> {
        for parameter in &self.list {
            let source = parameter.source()?;
            source.resolve(events)?.ok_or_else(|| source.no_value())?;
        }
        Ok(())
    }

    /// Makes the payload of a message; a parameter without a destination is all of it, if it has a value.
    ///
    /// # Errors
    /// [`ParameterError`] of the first parameter that cannot be applied.
    pub(super) fn payload(&self, events: &Events) -> Result<Vec<u8>, ParameterError> {
        let mut json = Vec::new();
        for parameter in &self.list {
            let source = parameter.source()?;
            let value = source.resolve(events)?;
            if parameter.dest.is_empty() {
                match value {
                    Some(value) => return Ok(value.text),
                    None => continue,
                }
            }
            let value = value.ok_or_else(|| source.no_value())?;
            json = set(&json, parameter.dest.as_bytes(), value.insert(source))?;
        }
        Ok(json)
    }

    /// Applies the parameters in order.
    ///
    /// # Errors
    /// [`ParameterError`] of the first parameter that cannot be applied.
    pub fn apply(&self, events: &Events, object: &Value) -> Result<Value, ParameterError> {
        let mut json = go_json::to_vec(object);
        for parameter in &self.list {
            json = parameter.apply(events, json)?;
        }
        // Like Go's decoder, take every byte that is not UTF-8 for U+FFFD.
        let text = String::from_utf8_lossy(&json);
        let mut result = serde_json::from_str(&text)
            .map_err(|error| ParameterError::Result(error.to_string()))?;
        go_json::as_kubernetes_decodes(&mut result);
        Ok(result)
    }
}

impl Parameter {
    fn decode(node: &Node<'_>) -> Result<Self, ParameterError> {
        let source = node
            .object("src")?
            .as_ref()
            .map(Source::decode)
            .transpose()?;
        Ok(Self {
            source,
            dest: node.text("dest")?,
            operation: node.text("operation")?,
        })
    }

    fn apply(&self, events: &Events, json: Vec<u8>) -> Result<Vec<u8>, ParameterError> {
        let source = self.source()?;
        let Some(mut value) = source.resolve(events)? else {
            return Ok(json);
        };
        match self.operation.as_str() {
            "" | "overwrite" => {}
            "append" | "prepend" => self.join(&json, &mut value)?,
            other => return Err(ParameterError::Operation(other.to_owned())),
        }
        Ok(set(&json, self.dest.as_bytes(), value.insert(source))?)
    }

    fn source(&self) -> Result<&Source, ParameterError> {
        self.source.as_ref().ok_or(ParameterError::NoSource)
    }

    /// Puts the value behind or before the text that stands at the destination.
    fn join(&self, json: &[u8], value: &mut Resolved) -> Result<(), ParameterError> {
        let current = path::get(json, self.dest.as_bytes())?;
        if !current.exists() {
            return Ok(());
        }
        let current = current.text().into_owned();
        value.raw = false;
        if self.operation == "append" {
            value.text.splice(0..0, current);
        } else {
            value.text.extend_from_slice(&current);
        }
        Ok(())
    }
}

/// A parameter's value.
struct Resolved {
    text: Vec<u8>,
    /// It may be written without quotes, if `useRawData` asks for that.
    raw: bool,
}

impl Resolved {
    fn text(text: impl Into<Vec<u8>>) -> Self {
        Self {
            text: text.into(),
            raw: false,
        }
    }

    fn insert(&self, source: &Source) -> Insert<'_> {
        if self.raw && source.use_raw_data {
            Insert::Raw(&self.text)
        } else {
            Insert::Text(&self.text)
        }
    }
}

impl Source {
    fn decode(node: &Node<'_>) -> Result<Self, ParameterError> {
        Ok(Self {
            dependency: node.text("dependencyName")?,
            context: Choice::decode(node, "contextKey", "contextTemplate")?,
            data: Choice::decode(node, "dataKey", "dataTemplate")?,
            value: node.optional_text("value")?,
            use_raw_data: node.flag("useRawData")?,
        })
    }

    fn no_value(&self) -> ParameterError {
        ParameterError::NoValue(self.dependency.clone())
    }

    /// The value, or `None` where the dependency has no event and no default: nothing is written into an object then.
    fn resolve(&self, events: &Events) -> Result<Option<Resolved>, ParameterError> {
        let default = self
            .value
            .as_ref()
            .map(|value| Resolved::text(value.as_bytes()));
        let Some(event) = events.get(&self.dependency) else {
            return Ok(default);
        };
        if self.context.is_absent() && self.data.is_absent() {
            return Ok(Some(
                default.unwrap_or_else(|| Resolved::text(whole_event(event))),
            ));
        }
        let (payload, choice) = if self.data.is_absent() {
            let context = go_json::to_vec_in_order(&event.context_json());
            (Ok(context), &self.context)
        } else {
            (data_json(event), &self.data)
        };
        let payload = match (payload, default) {
            (Ok(payload), _) => payload,
            (Err(error @ ParameterError::Unsupported(_)), _) | (Err(error), None) => {
                return Err(error);
            }
            (Err(_), Some(default)) => return Ok(Some(default)),
        };
        match (choice.resolve(&payload)?, &self.value) {
            (Some(value), _) => Ok(Some(value)),
            (None, Some(value)) => Ok(Some(Resolved::text(value.as_bytes()))),
            (None, None) => Err(ParameterError::Unresolved(self.dependency.clone())),
        }
    }
}

impl Choice {
    fn decode(node: &Node<'_>, key: &str, template: &str) -> Result<Self, DecodeError> {
        let template = Some(node.text(template)?).filter(|template| !template.is_empty());
        Ok(Self {
            key: node.text(key)?,
            template: template.map(|template| Template::parse(&template)),
        })
    }

    fn is_absent(&self) -> bool {
        self.key.is_empty() && self.template.is_none()
    }

    fn resolve(&self, payload: &[u8]) -> Result<Option<Resolved>, ParameterError> {
        let rendered = match &self.template {
            None => None,
            Some(Err(TemplateError::Outside(what))) => {
                let what = format!("{what} in a template");
                return Err(ParameterError::Unsupported(what));
            }
            Some(Err(error)) => Some(Err(error.clone())),
            Some(Ok(template)) => Some(template.render_json(payload)),
        };
        match rendered {
            Some(Ok(output)) if !is_no_value(&output) => {
                return Ok(Some(Resolved::text(output)));
            }
            // Upstream might have rendered it, so neither the key nor the default is known to stand in.
            Some(Err(error)) if error.is_own() => {
                let what = format!("a template that goes so far ({error})");
                return Err(ParameterError::Unsupported(what));
            }
            _ => {}
        }
        if self.key.is_empty() {
            return Ok(None);
        }
        value_at(payload, &self.key)
    }
}

/// The event as upstream writes it to JSON, data in base64.
fn whole_event(event: &Event) -> Vec<u8> {
    let data = event.data.as_ref().map(|data| STANDARD.encode(data));
    go_json::to_vec_in_order(&serde_json::json!({ "context": event.context_json(), "data": data }))
}

fn data_json(event: &Event) -> Result<Vec<u8>, ParameterError> {
    match event.datacontenttype.as_str() {
        "application/json" => match &event.data {
            Some(data) if json::is_valid(data) => Ok(data.clone()),
            _ => Err(ParameterError::Payload(
                "event data is not valid JSON".to_owned(),
            )),
        },
        "application/yaml" => Err(ParameterError::Unsupported(
            "event data of type application/yaml".to_owned(),
        )),
        other => Err(ParameterError::Payload(format!(
            "unsupported event content type: {other}"
        ))),
    }
}

/// The value at a key: objects, arrays and null as JSON, everything else as text.
fn value_at(payload: &[u8], key: &str) -> Result<Option<Resolved>, ParameterError> {
    let value = path::get(payload, key.as_bytes())?;
    if !value.exists() {
        return Ok(None);
    }
    let text = match value.kind() {
        Kind::Json | Kind::Null => value.raw().to_vec(),
        _ => value.text().into_owned(),
    };
    Ok(Some(Resolved {
        text,
        raw: value.kind() != Kind::String,
    }))
}
