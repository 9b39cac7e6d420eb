//! Filters, scalars and paths against answers measured on the real components (`tests/golden/README.md`).

use eventlab::sensor::parameters::{self, ParameterError};
use eventlab::sensor::{Event, Filter, number};
use serde_json::Value;

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// The event of a line, with the context that the lines leave out where it does not matter.
fn event(line: &Value) -> Event {
    let or = |name: &str, usual: &str| {
        line["context"]
            .get(name)
            .map_or(usual.to_owned(), |_| text(&line["context"], name))
    };
    Event {
        id: or("id", "evt"),
        source: or("source", "webhook"),
        subject: or("subject", "orders"),
        r#type: or("type", "webhook"),
        specversion: or("specversion", "1.0"),
        datacontenttype: or("datacontenttype", "application/json"),
        time: or("time", "2026-01-02T03:04:05Z").parse().ok(),
        data: line["data"].as_str().map(|data| data.as_bytes().to_vec()),
    }
}

/// Whether the error's text must be equal: it is built only of texts that are Argo's own.
fn text_counts(error: &str) -> bool {
    let own = ["path '", "no values specified", "unsupported JSON type '"];
    let single = ["data filter error (", "expr filter error ("];
    if let Some(list) = error.strip_prefix("data filter errors [") {
        return list
            .trim_end_matches(']')
            .split(" / ")
            .all(|part| own.iter().any(|start| part.starts_with(start)));
    }
    single.iter().any(|frame| {
        error
            .strip_prefix(frame)
            .is_some_and(|rest| own.iter().any(|start| rest.starts_with(start)))
    })
}

#[test]
fn filters_decide_as_argo_events() {
    let all = lines("filters.jsonl");
    let (mut held, mut same_text, mut errors) = (0, 0, 0);
    let mut wrong = Vec::new();
    for line in &all {
        let filters = &line["filter"];
        let filter = Filter::compile(Some(filters), &text(line, "operator"))
            .unwrap_or_else(|error| panic!("{}: {error}", line["id"]));
        let event = event(line);
        let decision = filter.evaluate(&event);
        let got = decision.error.as_ref().map(|error| error.text.clone());
        let want = line["want"]
            .get("error")
            .map(|_| text(&line["want"], "error"));
        let equal = decision.passed == line["want"]["pass"].as_bool().unwrap()
            && got.is_some() == want.is_some()
            && (got == want || !want.as_deref().is_some_and(text_counts));
        held += usize::from(equal);
        errors += usize::from(want.is_some());
        same_text += usize::from(want.is_some() && got == want);
        if !equal {
            wrong.push(format!(
                "{}\n  want {}\n  got {decision:?}",
                line, line["want"]
            ));
        }
        let why = filter.explain(&event);
        assert_eq!(
            (why.passed, why.error),
            (decision.passed, got),
            "{}",
            line["id"]
        );
    }
    println!(
        "filters: {} lines, {held} hold; {same_text} of {errors} error texts equal",
        all.len()
    );
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert_eq!(held, all.len());
}

#[test]
fn scalars_read_as_go() {
    for line in lines("scalars.jsonl") {
        let (input, want) = (text(&line, "text"), &line["want"]);
        let error = want.get("error").map(|_| text(want, "error"));
        if line["kind"] == "parsebool" {
            let got = number::parse_bool(input.as_bytes());
            assert_eq!(
                got.as_ref().copied().unwrap_or(false),
                want["value"].as_bool().unwrap(),
                "{line}"
            );
            assert_eq!(got.err().map(|error| error.to_string()), error, "{line}");
        } else {
            assert_eq!(
                number::format_general(number::parse_float_or_zero(input.as_bytes())),
                text(want, "value"),
                "{line}"
            );
            assert_eq!(
                number::parse_float(input.as_bytes())
                    .err()
                    .map(|error| error.to_string()),
                error,
                "{line}"
            );
        }
    }
}

fn language(name: &str) -> String {
    std::fs::read_to_string(format!(
        "{}/tests/golden/language/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

#[test]
fn floats_read_as_go() {
    let inputs: Vec<String> = serde_json::from_str(&language("parsefloat_inputs.json")).unwrap();
    let answers = language("parsefloat_go.txt");
    assert_eq!(inputs.len(), answers.lines().count());
    for (input, answer) in inputs.iter().zip(answers.lines()) {
        let parts: Vec<&str> = answer.split('|').collect();
        let bits = u64::from_str_radix(parts[1], 16).unwrap();
        let got = number::parse_float(input.as_bytes());
        let status = got
            .as_ref()
            .map_or_else(|error| format!("err:{}", error.kind()), |_| "ok".to_owned());
        assert_eq!(status, parts[0], "{input}");
        let value = number::parse_float_or_zero(input.as_bytes());
        assert!(
            value.to_bits() == bits || value.is_nan() && f64::from_bits(bits).is_nan(),
            "{input}: {value}"
        );
        let boolean = number::parse_bool(input.as_bytes())
            .map_or_else(|_| "err".to_owned(), |value| value.to_string());
        assert_eq!(boolean, parts[2], "{input}");
    }
}

#[test]
fn floats_are_written_as_go() {
    for line in language("float_fmt_go.txt").lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let value = f64::from_bits(u64::from_str_radix(parts[0], 16).unwrap());
        let got = [
            number::format_general(value),
            number::format_plain(value),
            number::format_json(value),
        ];
        assert_eq!(got.as_slice(), &parts[1..], "{line}");
    }
}

#[test]
fn parameters_are_applied_as_argo_events() {
    let all = lines("parameters.jsonl");
    let (mut held, mut left_out) = (0, 0);
    let mut wrong = Vec::new();
    for line in &all {
        let events = line["events"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, of)| (name.clone(), event(of)))
            .collect();
        let got = match parameters::apply(&line["params"], &events, &line["object"]) {
            Ok(object) => serde_json::json!({ "object": object }),
            Err(ParameterError::Unsupported(_)) => {
                left_out += 1;
                continue;
            }
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
        if got == line["want"] {
            held += 1;
        } else {
            wrong.push(format!(
                "{} {}\n  want {}\n  got  {got}",
                line["id"], line["params"], line["want"]
            ));
        }
    }
    println!(
        "parameters: {} lines, {held} hold, {left_out} left out",
        all.len()
    );
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
    assert_eq!(left_out, 0);
}
