//! What fixes make of files: of JSON, of YAML in one line, of anchors, and of patterns with a meaning.

use proptest::prelude::*;
use serde_json::Value;

use super::super::rule::{self, Place, example};
use super::super::{Options, fix};
use super::{filters, fixed, found, input, now};

/// The one document of a YAML text.
fn value(text: &str) -> Option<Value> {
    serde_saphyr::from_str(text).ok()
}

#[test]
fn a_file_of_json_stays_one_and_is_mended_as_yaml_is() {
    let more = [
        "data:\n  - {path: ' body.kind', type: text, comparator: \"==\", value: [order.created, \"it's \\\"x.y\\\"\"]}",
        "dataLogicalOperator: OR\ndatas:\n  - {path: body.vip, type: bool, value: [True, \"Yes\"]}",
    ];
    let rules = rule::all().filter(|rule| !matches!(rule.place, Place::None));
    let examples = rules
        .map(|rule| example(rule.place, rule.bad))
        .chain(more.iter().map(|lines| example(Place::Filters, lines)));
    let mut mended_ones = 0;
    for yaml in examples {
        let Some(object) = value(&yaml) else {
            continue;
        };
        for suggestions in [false, true] {
            let wanted = value(&fixed(&yaml, suggestions)).unwrap();
            for json in [
                serde_json::to_string_pretty(&object).unwrap(),
                object.to_string(),
            ] {
                let mended = fixed(&json, suggestions);
                let read: Value = serde_json::from_str(&mended).unwrap();
                assert_eq!(read, wanted, "{mended}");
                mended_ones += usize::from(mended != json);
            }
        }
    }
    assert!(mended_ones > 40, "{mended_ones}");
}

#[test]
fn yaml_in_one_line_is_mended_in_its_manner() {
    let text = "{apiVersion: argoproj.io/v1alpha1, kind: Sensor, metadata: {name: a}, spec: {dependencies: [{name: order, eventSourceName: web, eventName: a, filters: {data: [{path: body.kind, type: string, value: [order.created]}]}}], triggers: [{template: {name: run, k8s: {source: {resource: {kind: Workflow, apiVersion: argoproj.io/v1alpha1, metadata: {generateName: a-}}}}}, retryStrategy: {steps: 3}}]}}\n";
    let mended = fixed(text, true);
    let object = value(&mended).unwrap();
    assert_eq!(
        object["spec"]["dependencies"][0]["filters"]["data"][0]["value"][0], r"^order\.created$",
        "{mended}"
    );
    assert_eq!(
        object["spec"]["triggers"][0]["atLeastOnce"], true,
        "{mended}"
    );
}

#[test]
fn what_a_fix_would_change_elsewhere_keeps_the_file_as_it_is() {
    let text = example(
        Place::Filters,
        "data:\n  - {path: body.kind, type: string, value: [&kind order.created]}\n  - {path: body.note, type: string, value: [*kind]}",
    );
    assert!(found(&text).contains(&"unescaped-dot"));
    let mended = fix::apply(&[input(&text)], 0, true, &Options::default(), now());
    assert_eq!((mended.text, mended.applied), (text, 0));
}

/// A part of a pattern and what is meant by it.
fn part() -> impl Strategy<Value = (&'static str, &'static str)> {
    proptest::sample::select(vec![
        ("order", "order"),
        ("order", "order"),
        (".", "."),
        (".", "."),
        ("-", "-"),
        ("colou?r", "colour"),
        ("(ed)", "ed"),
        ("(?:paid)", "paid"),
        ("a+", "aa"),
        ("s?", ""),
        ("[0-9]", "7"),
        ("[]a.b]", "."),
        (r"\.", "."),
        (r"\d", "4"),
        (r"\Qa.b\E", "a.b"),
        ("(a|b)", "b"),
        (".*", "any"),
        ("5", "5"),
    ])
}

proptest! {
    #[test]
    fn a_safe_fix_accepts_what_was_meant(
        parts in proptest::collection::vec(part(), 1..6),
        start in proptest::bool::ANY,
        end in proptest::bool::ANY,
        json in proptest::bool::ANY,
    ) {
        let pattern: String = parts.iter().map(|(pattern, _)| *pattern).collect();
        let meant: String = parts.iter().map(|(_, text)| *text).collect();
        let pattern = format!("{}{pattern}{}", if start { "^" } else { "" }, if end { "$" } else { "" });
        prop_assert!(crate::sensor::regex::Regex::new(&pattern).unwrap().is_match(meant.as_bytes()));
        let quoted = serde_json::to_string(&pattern).unwrap();
        let condition = format!("data: [{{path: body.kind, type: string, value: [{quoted}]}}]");
        let mut text = example(Place::Filters, &condition);
        if json {
            text = value(&text).unwrap().to_string();
        }
        let mended = value(&fixed(&text, false)).unwrap();
        let pattern = mended["spec"]["dependencies"][0]["filters"]["data"][0]["value"][0].as_str().unwrap();
        let regex = crate::sensor::regex::Regex::new(pattern).unwrap();
        prop_assert!(regex.is_match(meant.as_bytes()), "{} no longer accepts {}", pattern, meant);
    }
}

#[test]
fn what_is_written_as_a_pattern_is_not_made_a_text() {
    for pattern in [
        "colou?r",
        "order(ed)",
        "a+b",
        "orders?.created",
        "(^order$)",
        "ord(er)s",
        r"^\Qa.b\E$",
        "$5",
    ] {
        let condition =
            serde_json::json!({"path": "body.kind", "type": "string", "value": [pattern]});
        let lines = format!("data: [{condition}]");
        let text = example(Place::Filters, &lines);
        let mended = value(&fixed(&text, false)).unwrap();
        let written = &mended["spec"]["dependencies"][0]["filters"]["data"][0]["value"][0];
        assert_eq!(written, pattern, "{:?}", filters(&lines));
    }
}
