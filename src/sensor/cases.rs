//! Answers to single questions in the shape of the golden files: one JSON line in, one out.
//!
//! From above: [`answer`].

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::expression::{ExprValue, Expression};
use super::parameters::{self, Events};
use super::regex::Regex;
use super::{Event, Filter, number, path};

/// Why a line is no case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// It is not JSON.
    #[error("not a JSON object: {0}")]
    Json(String),
    /// It asks for something unknown.
    #[error("unknown kind {0:?}; use filter, gjson, regex, parsebool, parsefloat, expr or params")]
    Kind(String),
    /// A field is not there or has another type.
    #[error("`{0}` must be {1}")]
    Field(&'static str, &'static str),
}

/// Answers one line: an object with its `id` and the fields that the line's `want` has or would have.
///
/// # Errors
/// [`CaseError`] for a line that asks nothing known.
pub fn answer(line: &str) -> Result<Value, CaseError> {
    let line: Value =
        serde_json::from_str(line).map_err(|error| CaseError::Json(error.to_string()))?;
    let kind = line.get("kind").and_then(Value::as_str).unwrap_or_default();
    let fields = match kind {
        "filter" => filter(&line),
        "gjson" => gjson(&line)?,
        "regex" => regex(&line)?,
        "parsebool" => parse_bool(text(&line, "text")?),
        "parsefloat" => parse_float(text(&line, "text")?),
        "expr" => expression(&line)?,
        "params" => params(&line)?,
        other => return Err(CaseError::Kind(other.to_owned())),
    };
    let mut answer = Map::new();
    if let Some(id) = line.get("id") {
        answer.insert("id".to_owned(), id.clone());
    }
    if let Value::Object(fields) = fields {
        answer.extend(fields);
    }
    Ok(Value::Object(answer))
}

fn text<'l>(line: &'l Value, name: &'static str) -> Result<&'l str, CaseError> {
    line.get(name)
        .and_then(Value::as_str)
        .ok_or(CaseError::Field(name, "a text"))
}

fn error(error: impl ToString) -> Value {
    json!({ "error": error.to_string() })
}

fn filter(line: &Value) -> Value {
    let operator = line.get("operator").and_then(Value::as_str);
    let decision = match Filter::compile(line.get("filter"), operator.unwrap_or_default()) {
        Ok(filter) => filter.evaluate(&event(line)),
        Err(error) => return json!({"pass": false, "error": error.to_string()}),
    };
    let mut answer = json!({ "pass": decision.passed });
    if let Some(error) = decision.error {
        answer["error"] = json!(error.text);
    }
    answer
}

/// The event of a line; what its context leaves out is that of the recorded event.
fn event(line: &Value) -> Event {
    let or = |name: &str, usual: &str| {
        let given = line.get("context").and_then(|context| context.get(name));
        given
            .map_or(usual, |given| given.as_str().unwrap_or_default())
            .to_owned()
    };
    Event {
        id: or("id", "evt"),
        source: or("source", "webhook"),
        subject: or("subject", "orders"),
        r#type: or("type", "webhook"),
        specversion: or("specversion", "1.0"),
        datacontenttype: or("datacontenttype", "application/json"),
        time: or("time", "2026-01-02T03:04:05Z").parse().ok(),
        data: line
            .get("data")
            .and_then(Value::as_str)
            .map(|data| data.as_bytes().to_vec()),
    }
}

fn gjson(line: &Value) -> Result<Value, CaseError> {
    let (data, path) = (text(line, "data")?, text(line, "path")?);
    let value = match path::get(data.as_bytes(), path.as_bytes()) {
        Ok(value) if value.exists() => value,
        Ok(_) => return Ok(json!({"exists": false})),
        Err(limit) => return Ok(json!({"exists": false, "error": limit.to_string()})),
    };
    Ok(json!({
        "exists": true,
        "type": value.kind().as_str(),
        "raw": String::from_utf8_lossy(value.raw()),
        "string": String::from_utf8_lossy(&value.text()),
        "float": number::format_general(value.number()),
        "bool": value.boolean(),
    }))
}

fn regex(line: &Value) -> Result<Value, CaseError> {
    let (pattern, subject) = (text(line, "pattern")?, text(line, "text")?);
    Ok(match Regex::new(pattern) {
        Ok(regex) => json!({"match": regex.is_match(subject.as_bytes())}),
        Err(why) => error(why),
    })
}

fn parse_bool(text: &str) -> Value {
    match number::parse_bool(text.as_bytes()) {
        Ok(value) => json!({ "value": value }),
        Err(error) => json!({"value": false, "error": error.to_string()}),
    }
}

fn parse_float(text: &str) -> Value {
    let value = number::format_general(number::parse_float_or_zero(text.as_bytes()));
    match number::parse_float(text.as_bytes()) {
        Ok(_) => json!({ "value": value }),
        Err(error) => json!({"value": value, "error": error.to_string()}),
    }
}

fn expression(line: &Value) -> Result<Value, CaseError> {
    let written = text(line, "expr")?;
    let variables: HashMap<String, ExprValue> = match line.get("vars") {
        None | Some(Value::Null) => HashMap::new(),
        Some(Value::Object(members)) => members
            .iter()
            .map(|(name, value)| (name.clone(), from_json(value)))
            .collect(),
        Some(_) => return Err(CaseError::Field("vars", "an object")),
    };
    let result = Expression::parse(written).and_then(|parsed| parsed.evaluate(&variables));
    Ok(match result {
        Ok(value) => json!({"type": type_name(&value), "result": shown(&value)}),
        Err(why) => error(why),
    })
}

fn from_json(value: &Value) -> ExprValue {
    match value {
        Value::Null => ExprValue::Nil,
        Value::Bool(value) => ExprValue::Bool(*value),
        Value::Number(number) => ExprValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => ExprValue::Text(text.clone()),
        Value::Array(items) => ExprValue::List(items.iter().map(from_json).collect()),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| (key.clone(), from_json(value)));
            ExprValue::Map(members.collect::<BTreeMap<_, _>>())
        }
    }
}

/// The type's name; of containers Go's.
fn type_name(value: &ExprValue) -> &'static str {
    match value {
        ExprValue::Nil => "<nil>",
        ExprValue::Bool(_) => "bool",
        ExprValue::Number(_) => "number",
        ExprValue::Text(_) => "string",
        ExprValue::List(_) => "[]interface {}",
        ExprValue::Map(_) => "map[string]interface {}",
    }
}

/// A number is written as a text, since JSON has no infinities.
fn shown(value: &ExprValue) -> Value {
    match value {
        ExprValue::Number(_) => json!(value.to_string()),
        other => inner(other),
    }
}

fn inner(value: &ExprValue) -> Value {
    match value {
        ExprValue::Nil => Value::Null,
        ExprValue::Bool(value) => json!(value),
        ExprValue::Number(number) => {
            let text = number::format_json(*number);
            serde_json::from_str(&text).unwrap_or_else(|_| json!(value.to_string()))
        }
        ExprValue::Text(text) => json!(text),
        ExprValue::List(items) => items.iter().map(inner).collect(),
        ExprValue::Map(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), inner(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

fn params(line: &Value) -> Result<Value, CaseError> {
    let events = line
        .get("events")
        .and_then(Value::as_object)
        .ok_or(CaseError::Field("events", "an object"))?;
    let events: Events = events
        .iter()
        .map(|(name, of)| (name.clone(), event(of)))
        .collect();
    let (list, object) = (
        line.get("params").unwrap_or(&Value::Null),
        line.get("object").unwrap_or(&Value::Null),
    );
    Ok(match parameters::apply(list, &events, object) {
        Ok(object) => json!({ "object": object }),
        Err(why) => error(why),
    })
}
