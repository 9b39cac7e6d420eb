//! Situations that people reported in public, each as a kind: not only the input shown, but its neighbours.

use eventlab::sensor::parameters::{self, Events};
use eventlab::sensor::{Event, Filter, Reason};
use serde_json::{Value, json};

fn event(data: &str) -> Event {
    Event {
        id: "i".into(),
        source: "web".into(),
        subject: "orders".into(),
        r#type: "webhook".into(),
        datacontenttype: "application/json".into(),
        data: Some(data.as_bytes().to_vec()),
        ..Event::default()
    }
}

/// Whether it passes, why not, and whether there is an error.
fn judge(filters: &Value, operator: &str, data: &str) -> (bool, Reason, bool) {
    let filter = Filter::compile(Some(filters), operator).unwrap();
    let decision = filter.evaluate(&event(data));
    (decision.passed, decision.reason, decision.error.is_some())
}

fn condition(path: &str, kind: &str, comparator: &str, values: &[&str]) -> Value {
    json!({"path": path, "type": kind, "comparator": comparator, "value": values})
}

fn one(
    path: &str,
    kind: &str,
    comparator: &str,
    values: &[&str],
    data: &str,
) -> (bool, Reason, bool) {
    let filters = json!({"data": [condition(path, kind, comparator, values)]});
    judge(&filters, "", data)
}

const PASSES: (bool, Reason, bool) = (true, Reason::Match, false);
const DIFFERS: (bool, Reason, bool) = (false, Reason::Mismatch, false);
const MISSING: (bool, Reason, bool) = (false, Reason::MissingPath, true);
const BAD_REGEX: (bool, Reason, bool) = (false, Reason::BadRegex, true);

#[test]
fn paths_lead_where_gjson_leads() {
    let data = r#"{"header":{"X-Order-Id":["42"],"X-Order-Kind":["order"]},"body":{"kind":"order","order.type":"x","a|b":"x","@type":"x","action":"opened","items":[{"sku":"A1","qty":1},{"sku":"B2","qty":5}]}}"#;
    for (path, value, wanted) in [
        // Letter case of headers, not their dashes.
        ("header.X-Order-ID.0", ".*", MISSING),
        ("header.x-order-id.0", ".*", MISSING),
        ("header.X-Order-Id.0", "^42$", PASSES),
        ("headers.X-Order-Id.0", "^42$", MISSING),
        // A header is a list.
        ("header.X-Order-Kind", "^order$", DIFFERS),
        ("header.X-Order-Kind", "order", PASSES),
        ("header.X-Order-Kind.0", "^order$", PASSES),
        // Keys with dots and pipes.
        ("body.order.type", "^x$", MISSING),
        (r"body.order\.type", "^x$", PASSES),
        ("body.a|b", "^x$", MISSING),
        (r"body.a\|b", "^x$", PASSES),
        ("body.@type", "^x$", PASSES),
        // Habits of other languages.
        ("$.body.kind", "order", MISSING),
        (".body.kind", "order", MISSING),
        ("body.items[0].sku", "A1", MISSING),
        ("body.items.-1.sku", "B2", MISSING),
        ("body.items.0.sku", "^A1$", PASSES),
        // Lists of values.
        ("body.items.#.sku", "B2", PASSES),
        ("body.items.#.sku", "^B2$", DIFFERS),
        // Several paths.
        ("body.action,body.kind", "opened", MISSING),
        (
            "[body.action,body.kind]",
            r#"^\["opened","order"\]$"#,
            PASSES,
        ),
        // Wildcards.
        ("b*.kind", "^order$", PASSES),
        ("bod?.kind", "^order$", PASSES),
    ] {
        assert_eq!(
            one(path, "string", "", &[value], data),
            wanted,
            "{path} {value}"
        );
    }
    for (path, comparator, value, passes) in [
        ("body.items.#.qty", ">", "3", false),
        (r#"body.items.#(sku=="B2").qty"#, "=", "5", true),
        ("body.items.#", "=", "2", true),
    ] {
        assert_eq!(
            one(path, "number", comparator, &[value], data).0,
            passes,
            "{path}"
        );
    }
}

#[test]
fn of_two_equal_keys_filter_and_script_read_different_ones() {
    let data = r#"{"header":{},"body":{"kind":"order","kind":"refund"}}"#;
    assert_eq!(one("body.kind", "string", "", &["^order$"], data), PASSES);
    let script = json!({"script": "return event.body.kind == \"refund\""});
    assert_eq!(judge(&script, "", data), PASSES);
}

#[test]
fn strings_are_patterns_that_match_anywhere() {
    for (comparator, values, text, wanted) in [
        ("", vec!["paid"], "unpaid", PASSES),
        ("", vec!["paid"], "prepaid", PASSES),
        ("", vec!["^paid$"], "unpaid", DIFFERS),
        ("", vec!["hello", "hey"], "heyy", PASSES),
        ("", vec!["^order.created$"], "order-created", PASSES),
        ("", vec![r"^order\.created$"], "order-created", DIFFERS),
        ("", vec!["c++"], "c++", BAD_REGEX),
        ("", vec!["*.txt"], "a.txt", BAD_REGEX),
        ("", vec!["$5"], "$5", DIFFERS),
        ("", vec![r"\$5"], "$5", PASSES),
        ("", vec!["order(1)"], "order(1)", DIFFERS),
        ("", vec!["(", "^1$"], "1", BAD_REGEX),
        ("", vec!["^1$", "("], "1", PASSES),
        ("", vec!["^(?!b)"], "a", BAD_REGEX),
        ("", vec!["(?i)^ORDER$"], "order", PASSES),
        ("!=", vec!["foo", "bar"], "foo", PASSES),
        ("!=", vec!["^(foo|bar)$"], "foo", DIFFERS),
        (">", vec!["a"], "b", DIFFERS),
        ("<=", vec!["a"], "a", DIFFERS),
    ] {
        let data = json!({"body": {"v": text}}).to_string();
        assert_eq!(
            one("body.v", "string", comparator, &values, &data),
            wanted,
            "{comparator} {values:?} on {text}"
        );
    }
}

#[test]
fn booleans_are_coerced() {
    let truthy = [
        json!(true),
        json!("true"),
        json!("TRUE"),
        json!("True"),
        json!("1"),
        json!("t"),
        json!(1),
        json!(2),
        json!(0.1),
    ];
    let falsy = [
        json!(false),
        json!("false"),
        json!(0),
        json!("yes"),
        json!("on"),
        json!(" true"),
        json!(""),
        json!("no"),
        json!(null),
        json!([true]),
        json!({"a": 1}),
    ];
    for (values, is_true) in [(&truthy[..], true), (&falsy[..], false)] {
        for value in values {
            let data = json!({"body": {"v": value}}).to_string();
            assert_eq!(
                one("body.v", "bool", "", &["true"], &data).0,
                is_true,
                "{value}"
            );
            assert_eq!(
                one("body.v", "bool", "", &["false"], &data).0,
                !is_true,
                "{value}"
            );
            // The comparator does nothing.
            assert_eq!(
                one("body.v", "bool", "!=", &["true"], &data).0,
                is_true,
                "{value}"
            );
        }
    }
    assert_eq!(
        one("body.v", "bool", "", &["false"], r#"{"body":{}}"#),
        MISSING
    );
    let data = r#"{"body":{"v":true}}"#;
    for (values, passes) in [
        (vec!["yes"], false),
        (vec!["tRuE"], false),
        (vec!["True"], true),
        (vec!["1"], true),
        (vec!["yes", "true"], false),
        (vec!["true", "yes"], true),
    ] {
        assert_eq!(
            one("body.v", "bool", "", &values, data).0,
            passes,
            "{values:?}"
        );
    }
}

#[test]
fn numbers_are_coerced_and_null_is_there() {
    for (value, comparator, wanted, passes) in [
        (json!("150 EUR"), "<", "100", true),
        (json!("1,500"), ">", "100", false),
        (json!("150.00"), "=", "150", true),
        (json!("1e3"), "=", "1000", true),
        (json!(null), "=", "0", true),
        (json!(" 5 "), "=", "0", true),
        (json!([5]), "=", "0", true),
        (json!(true), "=", "1", true),
        (json!("Inf"), ">", "100", true),
        (json!("NaN"), "!=", "5", true),
        (json!("NaN"), "=", "NaN", false),
    ] {
        let data = json!({"body": {"v": value}}).to_string();
        assert_eq!(
            one("body.v", "number", comparator, &[wanted], &data).0,
            passes,
            "{value} {comparator} {wanted}"
        );
    }
    let null = r#"{"body":{"v":null}}"#;
    assert_eq!(one("body.v", "string", "", &["^$"], null), PASSES);
    assert_eq!(one("body.v", "string", "", &["^null$"], null), DIFFERS);
    for kind in ["float", "int", "boolean", "String"] {
        assert_eq!(
            one("body.v", kind, "", &["1"], null).1,
            Reason::BadType,
            "{kind}"
        );
    }
}

#[test]
fn missing_fields_are_errors_and_order_changes_the_words() {
    let vip = condition("body.vip", "bool", "", &["true"]);
    let amount = condition("body.amount", "number", ">", &["100"]);
    let filters = |operator: &str| json!({"data": [vip, amount], "dataLogicalOperator": operator});
    assert_eq!(
        judge(&filters(""), "", r#"{"body":{"amount":150}}"#),
        MISSING
    );
    assert_eq!(
        judge(&filters("or"), "", r#"{"body":{"amount":150}}"#),
        PASSES
    );
    assert_eq!(
        judge(&filters("or"), "", r#"{"body":{"amount":50}}"#),
        MISSING
    );
    // Upper case counts as `and` where it is judged at all.
    assert_eq!(
        judge(&filters("OR"), "", r#"{"body":{"amount":150}}"#),
        MISSING
    );
    let (a, b) = (
        condition("a", "string", "", &["^1$"]),
        condition("b", "string", "", &["^1$"]),
    );
    assert_eq!(judge(&json!({"data": [a, b]}), "", r#"{"a":"9"}"#), DIFFERS);
    assert_eq!(judge(&json!({"data": [b, a]}), "", r#"{"a":"9"}"#), MISSING);
}

#[test]
fn an_error_in_one_group_undoes_another() {
    let filters = json!({"data": [condition("a", "string", "", &["^1$"])],
        "exprs": [{"expr": "x == 'y'", "fields": [{"name": "x", "path": "body.x"}]}]});
    assert_eq!(judge(&filters, "or", r#"{"a":"1"}"#), MISSING);
    assert_eq!(
        judge(&filters, "or", r#"{"a":"1","body":{"x":"z"}}"#),
        PASSES
    );
    let with_script =
        json!({"data": [condition("a", "string", "", &["^1$"])], "script": "return event.x.y"});
    assert!(!judge(&with_script, "or", r#"{"a":"1"}"#).0);
    // Groups that are not there do not count; a list that is empty holds.
    let only = |data: Value| json!({ "data": data });
    assert!(
        !judge(
            &only(json!([condition("a", "string", "", &["^1$"])])),
            "or",
            r#"{"a":"9"}"#
        )
        .0
    );
    assert_eq!(judge(&only(json!([])), "or", r#"{"a":"9"}"#), PASSES);
}

#[test]
fn a_key_that_is_not_known_is_no_filter() {
    for filters in [
        json!({}),
        json!({"datas": [condition("a", "string", "", &["^1$"])]}),
        json!({"name": "x"}),
    ] {
        assert_eq!(judge(&filters, "", r#"{"a":"9"}"#), PASSES, "{filters}");
    }
    let misspelt = json!({"data": [condition("a", "string", "", &["^1$"]), condition("b", "string", "", &["^1$"])], "dataLogicalOperater": "or"});
    assert_eq!(judge(&misspelt, "", r#"{"b":"1"}"#), MISSING);
}

#[test]
fn expressions_templates_and_scripts_have_their_traps() {
    let expr =
        |expr: &str| json!({"exprs": [{"expr": expr, "fields": [{"name": "x", "path": "x"}]}]});
    assert_eq!(
        judge(&expr("x == '2024-01-01'"), "", r#"{"x":"2024-01-01"}"#),
        DIFFERS
    );
    assert!(judge(&expr("x >= '2024-01-01'"), "", r#"{"x":"2024-01-01"}"#).2);
    assert_eq!(
        one(
            "x",
            "string",
            "",
            &["^2024-01-01$"],
            r#"{"x":"2024-01-01"}"#
        ),
        PASSES
    );
    let template = |text: &str, value: &str| json!({"data": [{"path": "x", "type": "string", "template": text, "value": [value]}]});
    for (text, value, data, passes, error) in [
        ("{{ .body.m }}", ".*", r#"{"x":"a"}"#, false, true),
        (
            "{{ if false }}a{{ end }}",
            "^$",
            r#"{"x":"a"}"#,
            false,
            true,
        ),
        ("{{ .Input | nosuch }}", ".*", r#"{"x":"a"}"#, false, true),
        (
            "{{ default \"none\" .Input }}",
            "^none$",
            r#"{"x":null}"#,
            true,
            false,
        ),
        (
            "{{ .Input | b64dec }}",
            "^order$",
            r#"{"x":"b3JkZXI="}"#,
            true,
            false,
        ),
    ] {
        let (passed, _, failed) = judge(&template(text, value), "", data);
        assert_eq!((passed, failed), (passes, error), "{text}");
    }
    let data =
        r#"{"header":{"X-K":["v"]},"body":{"kind":"order","n":"5","gone":null,"grid":[[1]]}}"#;
    for (script, passes, error) in [
        (
            "if event.body.kind == 'order' then return true end",
            true,
            false,
        ),
        (
            "if event.body.kind == 'x' then return true end",
            false,
            false,
        ),
        ("return 'true'", false, false),
        ("return event.body.kind != 'x'", false, true),
        ("return event.header['X-K'][1] == 'v'", true, false),
        ("return event.header['X-K'][0] == 'v'", false, false),
        ("return event.nothing.kind == 'x'", false, true),
        ("return event.body.gone == nil", true, false),
        ("return event.body.grid[1] == nil", true, false),
        ("return event.body.n > 4", false, true),
    ] {
        let (passed, _, failed) = judge(&json!({ "script": script }), "", data);
        assert_eq!((passed, failed), (passes, error), "{script}");
    }
    assert!(judge(&json!({"script": "return true"}), "", "[1]").2);
}

#[test]
fn a_missing_parameter_fails_or_is_merged_by_its_default() {
    let events = Events::from([("order".to_owned(), event(r#"{"body":{"n":null}}"#))]);
    let apply = |source: Value| {
        let list = json!([{"src": source, "dest": "metadata.name"}]);
        parameters::apply(&list, &events, &json!({"metadata": {"name": "a"}}))
            .map(|object| object["metadata"]["name"].clone())
    };
    let missing = apply(json!({"dependencyName": "order", "dataKey": "body.order_id"}));
    assert!(
        missing
            .unwrap_err()
            .to_string()
            .starts_with("unable to resolve 'order' parameter value")
    );
    let merged =
        apply(json!({"dependencyName": "order", "dataKey": "body.order_id", "value": "unknown"}));
    assert_eq!(merged.unwrap(), "unknown");
    let absent = apply(json!({"dependencyName": "nobody", "dataKey": "body.n"}));
    assert_eq!(absent.unwrap(), "a");
}
