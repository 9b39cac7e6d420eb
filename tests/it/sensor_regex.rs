//! Go's regular expressions against what Go answered.

use eventlab::sensor::regex::Regex;
use serde_json::Value;

fn golden(name: &str) -> String {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

fn lines(name: &str) -> Vec<Value> {
    let text = golden(name);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn patterns_match_as_in_go() {
    let mut wrong = Vec::new();
    for line in lines("regex.jsonl") {
        let (pattern, text) = (
            line["pattern"].as_str().unwrap(),
            line["text"].as_str().unwrap(),
        );
        let got = match Regex::new(pattern) {
            Ok(regex) => serde_json::json!({"match": regex.is_match(text.as_bytes())}),
            Err(error) => serde_json::json!({"error": error.to_string()}),
        };
        if got != line["want"] {
            wrong.push(format!("{line} got {got}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn matches_and_groups_are_where_go_finds_them() {
    let cases: Value = serde_json::from_str(&golden("language/regex_cases.json")).unwrap();
    let texts: Vec<&str> = cases["h"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t.as_str().unwrap())
        .collect();
    let mut wrong = Vec::new();
    for line in lines("language/regex.jsonl") {
        let pattern = line["p"].as_str().unwrap();
        match (Regex::new(pattern), line["err"].as_str()) {
            (Ok(regex), None) => {
                let names: Vec<&str> = regex
                    .names()
                    .iter()
                    .map(|n| n.as_deref().unwrap_or(""))
                    .collect();
                if serde_json::json!(names) != line["names"] {
                    wrong.push(format!("{pattern:?}: names {names:?}"));
                }
                for (text, want) in texts.iter().zip(line["r"].as_array().unwrap()) {
                    let got = as_go_reports(&regex, text);
                    if got != *want {
                        wrong.push(format!("{pattern:?} on {text:?}: got {got}, want {want}"));
                    }
                }
            }
            (Err(error), Some(want)) if error.to_string() == want => {}
            (got, want) => wrong.push(format!(
                "{pattern:?}: got {:?}, want {want:?}",
                got.err().map(|e| e.to_string())
            )),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Flat index pairs for each match, −1 for a group that took no part; null without a match.
fn as_go_reports(regex: &Regex, text: &str) -> Value {
    let found = regex.find_submatches(text.as_bytes(), usize::MAX).unwrap();
    if found.is_empty() {
        return Value::Null;
    }
    let flat = |groups: Vec<Option<(usize, usize)>>| {
        let pair =
            |group: Option<(usize, usize)>| group.map_or([-1, -1], |(s, e)| [s as i64, e as i64]);
        groups.into_iter().flat_map(pair).collect::<Vec<i64>>()
    };
    serde_json::json!(found.into_iter().map(flat).collect::<Vec<_>>())
}
