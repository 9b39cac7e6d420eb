//! Expressions against what govaluate answered.

use std::collections::{BTreeMap, HashMap};

use eventlab::sensor::expression::{ExprError, ExprValue, Expression};
use serde_json::{Value, json};

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let text =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn from_json(value: &Value) -> ExprValue {
    match value {
        Value::Null => ExprValue::Nil,
        Value::Bool(value) => ExprValue::Bool(*value),
        Value::Number(number) => ExprValue::Number(number.as_f64().unwrap()),
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

fn evaluate(text: &str, variables: &Value) -> Result<ExprValue, ExprError> {
    let variables = variables
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), from_json(value)));
    Expression::parse(text)?.evaluate(&variables.collect::<HashMap<_, _>>())
}

/// What the recorded expressions had for names.
fn recorded_variables() -> Value {
    json!({
        "a": 5, "s": "str", "b": true, "c": false, "n": null, "l": [1, "a", true], "o": {"k": "v"}, "d": "2024-01-02",
        "weird-name": 1, "a b": 2, "a_b": 3, "a.b": 4, "été": 1, "big": 9007199254740993u64, "f": 1.5,
    })
}

#[test]
fn values_and_errors_are_those_of_govaluate() {
    let mut wrong = Vec::new();
    for line in lines("language/govaluate.jsonl") {
        let text = line["e"].as_str().unwrap();
        let got = evaluate(text, &recorded_variables());
        let same = match &got {
            Err(ExprError::Parse(error)) => line["perr"] == json!(error),
            Err(ExprError::Evaluate(error)) => line["eerr"] == json!(error),
            Err(ExprError::Limit(_)) => false,
            Ok(ExprValue::Number(number)) if line.get("t").is_none() => {
                line["v"] == json!(number_text(*number))
            }
            Ok(value) => line.get("v").is_some_and(|want| from_json(want) == *value),
        };
        if !same {
            wrong.push(format!("{line} got {got:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// JSON has no infinities; they were recorded as text.
fn number_text(number: f64) -> String {
    ExprValue::Number(number).to_string()
}

#[test]
fn expressions_of_filters_evaluate_as_recorded() {
    let mut wrong = Vec::new();
    for line in lines("expressions.jsonl") {
        let got = evaluate(line["expr"].as_str().unwrap(), &line["vars"]);
        let want = &line["want"];
        let same = match &got {
            Err(error) => want["error"] == json!(error.to_string()),
            Ok(ExprValue::Number(number)) => {
                want["type"] == "number" && want["result"] == json!(number_text(*number))
            }
            Ok(value) => want
                .get("result")
                .is_some_and(|want| from_json(want) == *value),
        };
        if !same {
            wrong.push(format!("{line} got {got:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
