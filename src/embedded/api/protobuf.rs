//! Request bodies in `application/vnd.kubernetes.protobuf`, as kubectl from 1.32 and client-go from 0.32 send them.
//!
//! From above: [`decode`] turns a body into the JSON object that the same client would have sent as JSON. Answers stay
//! JSON, which every such client accepts.

mod schema;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use schema::{Field, Shape, Type};
use wire::{Reader, Wire};

/// First bytes of every body.
const MAGIC: &[u8] = b"k8s\0";
/// Deepest nesting of messages.
const MAX_DEPTH: usize = 64;
/// Most values in one object: an empty message takes two bytes on the wire and far more in memory.
const MAX_VALUES: usize = 300_000;

/// Why a body cannot be read; the texts are for a 400.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProtobufError {
    #[error(
        "the body of the request does not begin with the prefix of Kubernetes' protobuf encoding"
    )]
    Prefix,
    #[error("the body of the request is not valid protobuf: {0}")]
    Wire(#[from] wire::WireError),
    #[error("kind {kind:?} of {api_version:?} cannot be read from protobuf here; send it as JSON")]
    UnknownKind { api_version: String, kind: String },
    #[error("the body of the request is encoded as {0:?}, which is not supported")]
    Encoding(String),
    #[error("field {0} holds no valid value")]
    Value(&'static str),
    #[error(
        "the object is nested deeper than {MAX_DEPTH} messages or holds more than {MAX_VALUES} values"
    )]
    TooLarge,
}

/// The JSON object in a protobuf body, `apiVersion` and `kind` included.
///
/// # Errors
/// The body is damaged, too large, or of a kind that is not in the table.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = Envelope::read(body.strip_prefix(MAGIC).ok_or(ProtobufError::Prefix)?)?;
    if !envelope.encoding.is_empty() {
        return Err(ProtobufError::Encoding(envelope.encoding.to_owned()));
    }
    let (api_version, kind) = (envelope.api_version, envelope.kind);
    let unknown = || ProtobufError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    };
    let message = schema::root(api_version, kind).ok_or_else(unknown)?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Decoder { values: 0 }.fields(envelope.raw, message, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// `runtime.Unknown`.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
    encoding: &'a str,
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Envelope<'a>, ProtobufError> {
        let mut envelope = Envelope::default();
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.next()? {
            match number {
                1 => {
                    let mut type_meta = Reader::new(value.bytes()?);
                    while let Some((number, value)) = type_meta.next()? {
                        match number {
                            1 => envelope.api_version = value.text()?,
                            2 => envelope.kind = value.text()?,
                            _ => {}
                        }
                    }
                }
                2 => envelope.raw = value.bytes()?,
                3 => envelope.encoding = value.text()?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}

struct Decoder {
    values: usize,
}

impl Decoder {
    /// Reads a message's fields into `object`.
    fn fields(
        &mut self,
        bytes: &[u8],
        message: &[Field],
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if depth > MAX_DEPTH {
            return Err(ProtobufError::TooLarge);
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            let Some(field) = message.iter().find(|field| field.number == number) else {
                continue;
            };
            self.count()?;
            match field.shape {
                Shape::Inline => self.fields(wire.bytes()?, field.message(), object, depth + 1)?,
                Shape::One => {
                    let value = self.value(&wire, field, depth)?;
                    if !(value.is_null() || field.zero_is_absent && is_zero(&value)) {
                        object.insert(field.name.to_owned(), value);
                    }
                }
                Shape::List => {
                    let value = self.value(&wire, field, depth)?;
                    let list = object.entry(field.name).or_insert_with(|| json!([]));
                    if let Some(list) = list.as_array_mut() {
                        list.push(value);
                    }
                }
                Shape::Map => {
                    let (key, value) = self.entry(wire.bytes()?, field, depth)?;
                    let map = object.entry(field.name).or_insert_with(|| json!({}));
                    if let Some(map) = map.as_object_mut() {
                        map.insert(key, value);
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), ProtobufError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            Err(ProtobufError::TooLarge)
        } else {
            Ok(())
        }
    }

    /// One entry of a map: key and value are fields 1 and 2, zero when left out.
    fn entry(
        &mut self,
        bytes: &[u8],
        field: &Field,
        depth: usize,
    ) -> Result<(String, Value), ProtobufError> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            match number {
                1 => key = wire.text()?.to_owned(),
                2 => value = Some(self.value(&wire, field, depth)?),
                _ => {}
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.value(&Wire::Bytes(&[]), field, depth)?,
        };
        Ok((key, value))
    }

    fn value(
        &mut self,
        wire: &Wire<'_>,
        field: &Field,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        let invalid = || ProtobufError::Value(field.name);
        Ok(match field.kind {
            Type::Text => json!(wire.text()?),
            Type::Integer => json!(wire.integer()?),
            Type::Bool => json!(wire.integer()? != 0),
            Type::Double => json!(wire.double()?),
            Type::Bytes => json!(STANDARD.encode(wire.bytes()?)),
            Type::Time => time(wire.bytes()?, Precision::Seconds)?.ok_or_else(invalid)?,
            Type::MicroTime => time(wire.bytes()?, Precision::Micros)?.ok_or_else(invalid)?,
            Type::Quantity => json!(first_text(wire.bytes()?)?),
            Type::IntOrString => int_or_string(wire.bytes()?)?,
            Type::Json => raw_json(wire.bytes()?)?.ok_or_else(invalid)?,
            Type::Strings => self.strings(wire.bytes()?)?,
            Type::Message(_) => {
                let mut object = Map::new();
                self.fields(wire.bytes()?, field.message(), &mut object, depth + 1)?;
                Value::Object(object)
            }
        })
    }

    fn strings(&mut self, bytes: &[u8]) -> Result<Value, ProtobufError> {
        let mut items = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            self.count()?;
            if number == 1 {
                items.push(json!(wire.text()?));
            }
        }
        Ok(Value::Array(items))
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// Field 1 as text: `resource.Quantity`.
fn first_text(bytes: &[u8]) -> Result<&str, ProtobufError> {
    let mut text = "";
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            text = wire.text()?;
        }
    }
    Ok(text)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    Seconds,
    Micros,
}

/// Go's zero time, an empty message, is null; `None` for a time beyond the calendar.
fn time(bytes: &[u8], precision: Precision) -> Result<Option<Value>, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Some(Value::Null));
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => seconds = wire.integer()?,
            2 => nanos = wire.integer()?,
            _ => {}
        }
    }
    let nanos = if precision == Precision::Micros {
        i32::try_from(nanos).unwrap_or_default()
    } else {
        0
    };
    let time = Timestamp::new(seconds, nanos).ok();
    Ok(time.map(|time| match precision {
        Precision::Seconds => json!(time.to_string()),
        Precision::Micros => json!(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()),
    }))
}

/// `intstr.IntOrString`: type 1 says that it is a string.
fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut kind, mut number_value, mut text) = (0, 0, "");
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => kind = wire.integer()?,
            2 => number_value = wire.integer()?,
            3 => text = wire.text()?,
            _ => {}
        }
    }
    Ok(if kind == 1 {
        json!(text)
    } else {
        json!(number_value)
    })
}

/// JSON inside field 1 (`runtime.RawExtension`, `FieldsV1`); none at all is null, `None` what does not parse.
fn raw_json(bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            raw = wire.bytes()?;
        }
    }
    Ok(if raw.is_empty() {
        Some(Value::Null)
    } else {
        serde_json::from_slice(raw).ok()
    })
}

#[cfg(test)]
mod tests;
