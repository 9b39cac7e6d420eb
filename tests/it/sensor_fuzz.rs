//! Specs, payloads, paths, patterns, templates, expressions, scripts and jq programs out of random pieces: nothing
//! panics or hangs, an explanation says what the judgement says, and what is mended stays readable.
//!
//! `EVENTLAB_FUZZ_CASES` sets how many (`.ci/fuzz` takes many).

use eventlab::lint::{Input, Options, fix, lint};
use eventlab::sensor::transform::Transform;
use eventlab::sensor::validate::validate;
use eventlab::sensor::{Event, Filter};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

fn cases() -> u32 {
    let asked = std::env::var("EVENTLAB_FUZZ_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(60)
}

fn pieces(list: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => proptest::sample::select(list).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..most).prop_map(|parts| parts.concat())
}

fn path() -> impl Strategy<Value = String> {
    pieces(
        &[
            "body",
            "header",
            ".",
            "..",
            "#",
            "#(",
            ")",
            "#.",
            "a",
            "0",
            "-1",
            "*",
            "?",
            "\\",
            "|",
            "@this",
            "@reverse",
            "@flatten:{\"deep\":true}",
            "[",
            "]",
            "{",
            "}",
            ",",
            "!\"x\"",
            "==",
            "~true",
            "$",
            "X-Kind",
            "items",
            "\"",
            " ",
        ],
        9,
    )
}

fn pattern() -> impl Strategy<Value = String> {
    pieces(
        &[
            "a", "order", ".", "*", "+", "?", "(", ")", "|", "[", "]", "^", "$", "\\d", "\\.",
            "{2}", "{1,1000}", "(?i)", "(?P<n>", "\\pL", "\\Q", "\\E", "[^a-z]", "\\b", "{", "}",
            "é",
        ],
        12,
    )
}

fn template() -> impl Strategy<Value = String> {
    pieces(
        &[
            "{{",
            "}}",
            " .Input ",
            "| upper ",
            "if true ",
            "else ",
            "end ",
            "range .Input ",
            "with 1 ",
            "printf \"%d%v\" 1 ",
            "define \"x\" ",
            "template \"x\" ",
            "(",
            ")",
            "$x := 1 ",
            "repeat 100000 ",
            "1",
            "\"a\"",
            "a",
            "{{-",
            "-}}",
            "/* */",
            "index . 0 ",
            "toJson ",
        ],
        14,
    )
}

fn expression() -> impl Strategy<Value = String> {
    pieces(
        &[
            "a",
            "b",
            " ",
            "==",
            " && ",
            "||",
            "!",
            "(",
            ")",
            "1",
            "2.5",
            "'x'",
            "'2024-01-01'",
            "+",
            " - ",
            "*",
            "**",
            "/",
            "%",
            "<",
            ">=",
            "=~",
            "in",
            "(1,2)",
            "?",
            ":",
            "??",
            "[a b]",
            "a.B",
            "0x1",
            "~",
            "<<",
            "\\",
        ],
        14,
    )
}

fn script() -> impl Strategy<Value = String> {
    pieces(
        &[
            "return ",
            "true",
            "event",
            ".body",
            "[1]",
            "if ",
            " then ",
            " end ",
            "while ",
            " do ",
            "for i=1,1e9 do ",
            "local x = ",
            "function() ",
            "string.rep('a', 1e9)",
            "('x'):find('.-.-b')",
            "{",
            "}",
            "(",
            ")",
            "..",
            "==",
            "nil",
            "x",
            "error('e')",
            "pcall(",
            "coroutine.wrap(",
            "goto a ",
            "::a:: ",
            "goto b ",
            "::b:: ",
            "repeat ",
            "until event ",
            "::a::",
            "--",
            "[[",
            "]]",
            "\n",
            "#",
            "setmetatable({}, {__index = event})",
            "table.concat(",
        ],
        12,
    )
}

fn jq() -> impl Strategy<Value = String> {
    pieces(
        &[
            ".",
            ".body",
            "[]",
            "|",
            ",",
            "map(",
            ")",
            "(",
            "{a: ",
            "}",
            "select(",
            ". == 1",
            "..",
            "add",
            "\"\\(.)\"",
            "if . then 1 else 2 end",
            "// 1",
            "* 2",
            "* .",
            "reduce .[] as $x (0; . + 1)",
            "reduce range(9) as $i (.; [., .])",
            "foreach .[] as $x (1; . + .)",
            "def f: f; ",
            "def f: [f]; ",
            "def g: if . then . else g end; ",
            "f",
            "g",
            "range(100000000)",
            "recurse",
            "until(false; ",
            "first(",
            "limit(2; ",
            "fromjson",
            "tojson",
            "join(.)",
            "tostring",
            "try error catch .",
            "?",
            "as $x | ",
            "$x",
            "to_entries",
            "-",
            "[",
            "]",
            "\"a\"",
            "1",
            "@base64",
        ],
        12,
    )
}

fn payload() -> impl Strategy<Value = String> {
    prop_oneof![
        pieces(&["{", "}", "[", "]", "\"a\"", ":", ",", "1", "null", "true", "\"body\":", "{\"body\":{\"a\":1}}", " ", "1e999", "\"\\u0000\""], 12),
        Just(r#"{"header":{"X-Kind":["order"]},"body":{"a":1,"b":"x","items":[{"sku":"a","qty":1}],"order.id":null}}"#.to_owned()),
        Just(r#"[{"body":1}]"#.to_owned()),
        Just("null".to_owned()),
    ]
}

fn data() -> impl Strategy<Value = Value> {
    let kind = proptest::sample::select(&["string", "bool", "number", "float", ""][..]);
    let comparator = proptest::sample::select(&["", "=", "!=", "<", ">=", "=="][..]);
    let values = proptest::collection::vec(
        prop_oneof![pattern(), Just("true".to_owned()), Just("1e3".to_owned())],
        0..3,
    );
    (path(), kind, comparator, values, proptest::option::of(template())).prop_map(
        |(path, kind, comparator, value, template)| {
            json!({"path": path, "type": kind, "comparator": comparator, "value": value, "template": template})
        },
    )
}

fn exprs() -> impl Strategy<Value = Value> {
    (expression(), path()).prop_map(|(expr, path)| {
        json!({"expr": expr, "fields": [{"name": "a", "path": path}, {"name": "b", "path": "body.b"}]})
    })
}

fn filters() -> impl Strategy<Value = Value> {
    let operator = || proptest::sample::select(&["", "and", "or", "OR"][..]);
    let data = proptest::collection::vec(data(), 0..4);
    let exprs = proptest::collection::vec(exprs(), 0..2);
    (data, exprs, proptest::option::of(script()), operator(), operator()).prop_map(
        |(data, exprs, script, of_data, of_exprs)| {
            json!({"data": data, "exprs": exprs, "script": script, "dataLogicalOperator": of_data, "exprLogicalOperator": of_exprs})
        },
    )
}

fn sensor(filters: &Value, operator: &str, transform: &Value) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Sensor", "metadata": {"name": "a"}, "spec": {
        "dependencies": [{"name": "order", "eventSourceName": "web", "eventName": "orders", "filters": filters, "filtersLogicalOperator": operator, "transform": transform}],
        "triggers": [{"template": {"name": "t", "conditions": "order", "k8s": {"source": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}}}}]}})
}

#[test]
fn nothing_panics_or_hangs_and_explanations_agree() {
    let mut runner = TestRunner::new(Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    });
    let operator = proptest::sample::select(&["", "and", "or"][..]);
    let inputs = (filters(), operator, payload(), jq());
    let result = runner.run(&inputs, |(filters, operator, payload, program)| {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let event = Event {
            data: Some(payload.into_bytes()),
            ..Event::default()
        };
        if let Ok(filter) = Filter::compile(Some(&filters), operator) {
            let decision = filter.evaluate(&event);
            let why = filter.explain(&event);
            prop_assert_eq!(decision.passed, why.passed);
            prop_assert_eq!(decision.error.map(|error| error.text), why.error);
        }
        let transform = json!({ "jq": program });
        if let Ok(Some(transform)) = Transform::compile(Some(&transform))
            && let Ok(made) = transform.apply(&event)
        {
            let made: Value = serde_json::from_slice(&made.data.unwrap()).unwrap();
            prop_assert!(made.is_object());
        }
        let sensor = sensor(&filters, operator, &transform);
        let _ = validate(&sensor, &Value::Null, now);
        let input = Input {
            name: "a".into(),
            text: sensor.to_string(),
            named: true,
        };
        let report = lint(std::slice::from_ref(&input), &[], &Options::default(), now);
        for finding in &report.findings {
            prop_assert!(finding.line == 1 && finding.column >= 1 && !finding.what.is_empty());
        }
        let mended = fix::apply(&[input], 0, true, &Options::default(), now);
        prop_assert_eq!(&mended.left_alone, &None);
        prop_assert!(
            serde_json::from_str::<Value>(&mended.text).is_ok(),
            "{}",
            mended.text
        );
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
