use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn admits(expression: &str, body: &str) -> Result<bool, String> {
    let data = format!(r#"{{"header":{{"X-Kind":["order"]}},"body":{body}}}"#);
    Expression::parse(expression)?.admits(data.as_bytes())
}

#[test]
fn expressions_are_true_false_or_fail_as_upstream() {
    let body = r#"{"kind":"order.created","amount":4200,"ratio":0.5,"vip":true,"none":null,"items":[{"sku":"A1","qty":1},{"sku":"B2","qty":5}]}"#;
    for (expression, wanted) in [
        ("body.kind == 'order.created'", Some(true)),
        ("(body.amount == 4200) && (body.kind != \"x\")", Some(true)),
        ("body.amount > 4200", Some(false)),
        ("body.ratio * 2 == 1", Some(true)),
        ("body.vip", Some(true)),
        ("not body.vip", Some(false)),
        ("header[\"X-Kind\"][0] == 'order'", Some(true)),
        // Header values are lists, and names have their canonical form.
        ("header[\"X-Kind\"] == 'order'", Some(false)),
        ("header[\"x-kind\"] == nil", Some(true)),
        ("body.missing == nil", Some(true)),
        ("body.missing == 'x'", Some(false)),
        ("nobody == nil", Some(true)),
        ("body.none == nil", Some(true)),
        ("body.kind matches '^order[.]'", Some(true)),
        (
            "body.kind startsWith 'order' and body.kind endsWith 'created'",
            Some(true),
        ),
        ("body.kind in ['order.created', 'order.paid']", Some(true)),
        ("len(body.items) == 2", Some(true)),
        ("any(body.items, {#.qty > 3})", Some(true)),
        ("all(body.items, {#.qty > 3})", Some(false)),
        ("asInt('5') + asFloat('1.5') == 6.5", Some(true)),
        ("body.vip ? body.amount > 1 : false", Some(true)),
        // A field of nothing, a word that is no truth, and text that is no expression.
        ("body.missing.field == 1", None),
        ("body.kind", None),
        ("nobody", None),
        ("body.kind ==", None),
        ("", None),
        ("foo(1)", None),
        ("body.kind > 1", None),
    ] {
        assert_eq!(admits(expression, body).ok(), wanted, "{expression}");
    }
    assert_eq!(
        admits("nobody", body).unwrap_err(),
        "unable to cast expression result '%!s(<nil>)' to bool"
    );
}

/// Only the names of the top level lose their hyphen.
#[test]
fn hyphens_are_replaced_at_the_top_only() {
    let expression = Expression::parse("body_x == 1 && body['a-b'] == 2").unwrap();
    assert_eq!(
        expression.admits(br#"{"body-x":1,"body":{"a-b":2}}"#),
        Ok(true)
    );
}

#[test]
fn what_cannot_be_bounded_is_refused_by_name() {
    for (expression, what) in [
        ("len(1..1000000000) > 1", ".."),
        ("len(map(body.items, {body})) > 1", "map"),
        ("repeat('x', 1000000) == body", "repeat"),
        ("body.kind | split(',') == 1", "split"),
        ("let x = 1; x == 1", "let"),
        ("sprig.trim(body.kind) == 'x'", "sprig"),
        ("jsonpath(body.kind, '$.x') == 1", "jsonpath"),
        ("$env.body == 1", "$env"),
        ("body.kind matches body.pattern", "matches"),
        ("body.at.Year() == 2026", "Year"),
    ] {
        let error = Expression::parse(expression).unwrap_err();
        assert!(
            error.starts_with("eventlab: the filter expression") && error.contains(what),
            "{expression}: {error}"
        );
    }
    for expression in [
        "(".repeat(11),
        format!("{}1", "a ? ".repeat(40)),
        "all(a,{all(b,{all(c,{true})})})".to_owned(),
        format!("[{}] == 1", "#,".repeat(17)),
        "x".repeat(1025),
    ] {
        assert!(Expression::parse(&expression).is_err(), "{expression}");
    }
    // In quotes, and as names of fields, all of it is text.
    for expression in [
        "body.map == '..'",
        "body.filter == \"sprig\"",
        "'((((((((((((' == body",
    ] {
        assert!(Expression::parse(expression).is_ok(), "{expression}");
    }
}

#[test]
fn reading_too_much_too_often_ends() {
    let items = "1,".repeat(20_000);
    let body = format!("[{}0]", items);
    let error = admits("all(body, {any(body, {# == 1})})", &body).unwrap_err();
    assert!(error.contains("too much"), "{error}");
    let large = format!("\"{}\"", "x".repeat(5 << 20));
    assert!(admits("body == 1", &large).unwrap_err().contains("bytes"));
}

#[test]
fn deep_and_wrong_expressions_end_soon() {
    let started = Instant::now();
    for expression in [
        format!("{}1{}", "a[".repeat(10), "]".repeat(10)),
        "a[".repeat(10),
        "if(".repeat(3),
        format!("{}true", "not ".repeat(200)),
        format!("1{} == 1", " + 1".repeat(240)),
        format!("1{} == 1", " ** 1".repeat(190)),
        format!("{}1{} == 1", "(".repeat(10), ")".repeat(10)),
        format!("{}1", "a ?? ".repeat(16)),
        format!("{}1{}", "a ? b : ".repeat(30), ""),
        "\"never closed".to_owned(),
        "/* never closed".to_owned(),
    ] {
        if let Ok(expression) = Expression::parse(&expression) {
            let _ = expression.admits(br#"{"body":{"a":[1]}}"#);
        }
    }
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_text_and_no_data_panics(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "body", ".", "a", "[", "]", "(", ")", "{", "}", "#", "?", ":", "??", "?.", "not", "in", "and", "||",
                "==", "<", "-", "**", "%", "/", "'", "\"", "`", "..", "1", "0x", "1e9", "9223372036854775807", "nil",
                "true", "len", "all", "any", "count", "indexOf", "matches", "contains", ",", "|", "//", "é", " ", "\n",
            ]),
            0..24,
        ),
        data in prop::sample::select(vec![
            "", "null", "{}", "[]", r#"{"body":null}"#, r#"{"body":{"a":[1,"x",null,{"a":1e308}]}}"#, r#"{"body":"é"}"#,
        ]),
    ) {
        let text = pieces.join(" ");
        for text in [text.clone(), pieces.concat()] {
            if let Ok(expression) = Expression::parse(&text) {
                let result = expression.admits(data.as_bytes());
                if let Err(error) = result {
                    prop_assert!(!error.contains("cannot be evaluated"), "a panic at {text:?}: {error}");
                }
            }
        }
    }
}
