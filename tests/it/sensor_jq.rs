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

/// Compares what programs make with what gojq made; answers those that were refused.
fn compared(cases: &str, data: &str) -> Vec<String> {
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for line in golden(cases).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let got = run(line["prog"].as_str().unwrap(), data);
        let same = match (&got, line["out"].as_str()) {
            (Ok(got), Some(want)) => got == want,
            (Err(TransformError::Failed(_)), None) => true,
            (Err(TransformError::Unsupported(_)), _) => {
                refused.push(line["prog"].as_str().unwrap().to_owned());
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
    refused
}

#[test]
fn programs_do_what_gojq_does_or_are_refused() {
    let refused = compared("jq.jsonl", &golden("jq_data.json"));
    assert!(refused.len() < 15, "refused:\n{}", refused.join("\n"));
}

#[test]
fn functions_do_what_those_of_gojq_do() {
    let data = r#"{"a":2,"s":"ab","l":[1,2,3],"m":[[1,2],[3]]}"#;
    let refused = compared("jq_functions.jsonl", data);
    assert!(refused.len() <= 30, "refused:\n{}", refused.join("\n"));
}

/// Products of what the event holds are those of floating point; what would grow without bound, or differ, is refused.
#[test]
fn fields_are_multiplied_as_numbers() {
    let data = r#"{"body":{"items":[{"price":2.5,"qty":2},{"price":1,"qty":3}],"n":3,"s":"ab","o":{"a":1},"t":0.1,"big":3037000500,"z":null}}"#;
    for (program, want) in [
        (
            "{t: (.body.items | map(.price * .qty) | add)}",
            r#"{"t":8}"#,
        ),
        ("{t: (.body.n * .body.n * .body.n)}", r#"{"t":27}"#),
        ("{t: (.body.n * 86400)}", r#"{"t":259200}"#),
        ("{t: (.body.n * 1000 * 60)}", r#"{"t":180000}"#),
        ("{t: (.body.t * .body.n)}", r#"{"t":0.30000000000000004}"#),
        ("{t: (.body.n * (0 - 2.5))}", r#"{"t":-7.5}"#),
        ("{t: (.body.s * 3)}", r#"{"t":"ababab"}"#),
        ("{t: ([.body.items[].qty] | .[0] * .[1])}", r#"{"t":6}"#),
        ("{t: (.body.n *= .body.n | .body.n)}", r#"{"t":9}"#),
        (".body |= {n: (.n *= 5000 | .n)}", r#"{"body":{"n":15000}}"#),
        (
            "{t: (reduce .body.items[] as $i (0; . + $i.price * $i.qty))}",
            r#"{"t":8}"#,
        ),
    ] {
        assert_eq!(run(program, data).as_deref(), Ok(want), "{program}");
    }
    for program in ["{t: (.body.z * .body.n)}", "{t: ([1] * .body.n)}"] {
        let failed = run(program, data);
        assert!(
            matches!(failed, Err(TransformError::Failed(_))),
            "{program}: {failed:?}"
        );
    }
    let text = format!(r#"{{"s":"{}","n":1000000}}"#, "a".repeat(1 << 20));
    for (program, data) in [
        ("{t: (.body.s * .body.n)}", data),
        ("{t: (.body.n * .body.s)}", data),
        ("{t: (.body.s * 5000)}", data),
        ("{t: (.body.o * .body.o)}", data),
        ("{t: (.body.big * .body.big)}", data),
        ("{t: (reduce range(0; 100) as $i (2; . * .))}", data),
        ("{t: (.s * .n)}", &text),
        ("{t: (.s * 1000)}", &text),
        (".s *= 1000", &text),
        (".s *= .n", &text),
        (".n *= .s", &text),
    ] {
        let refused = run(program, data);
        assert!(
            matches!(
                refused,
                Err(TransformError::Unsupported(_) | TransformError::Stopped(_))
            ),
            "{program}: {:.200?}",
            refused
        );
    }
}
