//! jq transforms against what gojq answered.

use eventlab::sensor::Event;
use eventlab::sensor::transform::{Transform, TransformError};
use serde_json::{Value, json};

fn golden(name: &str) -> String {
    let path = format!(
        "{}/tests/golden/language/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

fn run(program: &str, data: &str) -> Result<String, TransformError> {
    let transform = Transform::compile(Some(&json!({ "jq": program })))?;
    let event = Event {
        data: Some(data.trim_end().as_bytes().to_vec()),
        ..Event::default()
    };
    let made = transform.unwrap().apply(&event)?;
    Ok(String::from_utf8(made.data.unwrap_or_default()).unwrap())
}

#[test]
fn programs_do_what_gojq_does_or_are_refused() {
    let data = golden("jq_data.json");
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for line in golden("jq.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let got = run(line["prog"].as_str().unwrap(), &data);
        let same = match (&got, line["out"].as_str()) {
            (Ok(got), Some(want)) => got == want,
            (Err(TransformError::Failed(_)), None) => true,
            (Err(TransformError::Unsupported(_)), _) => {
                refused.push(line["prog"].to_string());
                true
            }
            _ => false,
        };
        if !same {
            wrong.push(format!("{line}\n    got {got:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(refused.len() < 15, "refused:\n{}", refused.join("\n"));
}
