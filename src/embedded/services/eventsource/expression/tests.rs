use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn admits(expression: &str, body: &str) -> Result<bool, String> {
    let data = format!(r#"{{"header":{{"X-Kind":["order"]}},"body":{body}}}"#);
    Expression::parse(expression)?
        .admits(data.as_bytes())
        .map_err(|failure| failure.to_string())
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

/// Upstream's lexer reads escapes as Go does.
#[test]
fn texts_are_read_as_upstream_reads_them() {
    let body = r#"{"path":"C:\\new","quote":"it's","tab":"a\tb","e":"é","tick":"a`b"}"#;
    for (expression, wanted) in [
        (r"body.path == 'C:\\new'", Some(true)),
        (r#"body.path == "C:\\new""#, Some(true)),
        (r"body.quote == 'it\'s'", Some(true)),
        (r#"body.quote == "it's""#, Some(true)),
        (r"body.tab == 'a\tb'", Some(true)),
        (r"body.tab == 'a\x09b'", Some(true)),
        (r"body.tab == 'a\011b'", Some(true)),
        (r"body.e == '\u00e9'", Some(true)),
        (r"body.e == '\U000000e9'", Some(true)),
        (r"/* 'it\'s' */ body.quote == 'it\'s'", Some(true)),
        ("body.tick == 'a`b'", Some(true)),
        // None of these is an escape, and a backquote is no quote.
        (r"body.path == 'C:\new\q'", None),
        (r#"body.quote == "it\'s""#, None),
        (r"body.e == '\xe'", None),
        (r"body.e == '\u{e9}'", None),
        ("body.e == `é`", None),
    ] {
        assert_eq!(admits(expression, body).ok(), wanted, "{expression}");
    }
    assert!(Expression::parse(r"body.tick == 'a`\x62'").is_err());
}

/// The same pattern in both languages does not mean the same.
#[test]
fn patterns_are_those_of_go() {
    for (pattern, text, wanted) in [
        (r"^\\d$", "٣", Some(false)),
        (r"^\\w$", "é", Some(false)),
        (r"\\bé", "aé", Some(true)),
        (r"^[a&&b]$", "&", Some(true)),
        (r"^[[a]]$", "[]", Some(true)),
        (r"^a$", "a\\n", Some(false)),
        (r"^\\Qa.b\\E$", "a.b", Some(true)),
        (r"^\\pL+$", "éa", Some(true)),
        (r"(?i)^k$", "\u{212a}", Some(true)),
        (r"^\x41$", "A", Some(true)),
        ("`", "`", None),
        (r"^(?x) a$", "a", None),
        (r"^(?=a)", "a", None),
        (r"\\u0041", "A", None),
        (r"(", "(", None),
        (r"a{1001}", "a", None),
    ] {
        let expression = format!("body matches '{pattern}'");
        let Ok(filter) = Expression::parse(&expression) else {
            assert_eq!(pattern, "`");
            continue;
        };
        let data = format!("{{\"body\":\"{text}\"}}");
        assert_eq!(filter.admits(data.as_bytes()).ok(), wanted, "{expression}");
    }
    assert_eq!(
        admits(
            "body.matches == 'x' && body.matches matches 'x'",
            r#"{"matches":"x"}"#
        ),
        Ok(true)
    );
    assert_eq!(
        admits("(body.a matches 'x') == true", r#"{"a":"x"}"#),
        Ok(true)
    );
}

/// Neither an expression nor an event makes a pattern that takes long to compile or to search for.
#[test]
fn patterns_are_bounded() {
    for expression in [
        "body matches '' + body",
        "body matches ('a')",
        "body matches 'a' | lower()",
        "body matches 'a' ?? body",
        "body matches lower('a')",
        r"body matches '(?:\\pL{100}){10}'",
        r"all(body, {# matches '(?:\\pL{100}){5}'})",
        r"/* body matches 'a' */ body matches '(?:\\pL{90}){9}'",
    ] {
        let Err(error) = Expression::parse(expression) else {
            panic!("{expression}");
        };
        assert!(
            error.contains("matches") || error.contains("too large"),
            "{error}"
        );
    }
    // Small enough for a short event, too large for a long one and for every element of a list.
    let slow = Expression::parse("body matches 'a[ab]{900}c|b[ab]{900}d'").unwrap();
    assert_eq!(slow.admits(br#"{"body":"ab"}"#), Ok(false));
    let long = format!(r#"{{"body":"{}"}}"#, "ab".repeat(1_800_000));
    assert!(matches!(
        slow.admits(long.as_bytes()),
        Err(Failure::Stopped(_))
    ));
    let slow = Expression::parse("any(body, {# matches 'a[ab]{900}c|b[ab]{900}d'})").unwrap();
    assert!(matches!(
        slow.admits(br#"{"body":["ab"]}"#),
        Err(Failure::Stopped(_))
    ));
    assert_eq!(
        admits(
            "any(body, {# matches '^order[.]'})",
            r#"["x","order.created"]"#
        ),
        Ok(true)
    );
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
                    let error = error.to_string();
                    prop_assert!(!error.contains("cannot be evaluated"), "a panic at {text:?}: {error}");
                }
            }
        }
    }
}
