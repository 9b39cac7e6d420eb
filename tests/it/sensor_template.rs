//! Templates against what text/template with sprig answered.

use eventlab::sensor::template::{Template, TemplateError};
use serde_json::Value;

fn golden(name: &str) -> String {
    let path = format!(
        "{}/tests/golden/language/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

fn render(source: &str, input: &Value) -> Result<String, TemplateError> {
    Template::parse(source)?.render(input)
}

/// The lines of a golden file that are answered otherwise, and how many error texts are equal.
fn differences(name: &str) -> Vec<String> {
    let context: Value = serde_json::from_str(&golden("gotemplate_ctx.json")).unwrap();
    let (mut wrong, mut texts, mut errors) = (Vec::new(), 0, 0);
    for line in golden(name).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let source = line["t"].as_str().unwrap();
        // Recorded on a day of its own; and Argo Events takes `env` away.
        if line["out"] == "2026-11-29" || source.contains("env \"HOME\"") {
            continue;
        }
        let got = render(source, &context["Input"]);
        let same = match (&got, line["out"].as_str(), line["err"].as_str()) {
            (Ok(got), Some(want), _) => got == want,
            (Err(error), _, Some(want)) => {
                errors += 1;
                texts += usize::from(error.to_string() == want);
                true
            }
            _ => false,
        };
        if !same {
            wrong.push(format!("{line} got {got:?}"));
        }
    }
    println!("{name}: {texts} of {errors} error texts equal");
    wrong
}

#[test]
fn outputs_and_errors_are_those_of_go() {
    for name in [
        "gotemplate.jsonl",
        "gotemplate_core.jsonl",
        "gotemplate_sprig.jsonl",
    ] {
        let wrong = differences(name);
        assert!(
            wrong.is_empty(),
            "{name}: {} wrong:\n{}",
            wrong.len(),
            wrong[..wrong.len().min(40)].join("\n")
        );
    }
}
