//! Situations from the field, by kind: paths (A), patterns (B), coercion (C), operators (D), the webhook's intake (F) and
//! identities (G). Each table holds variations of one kind of mistake, with what upstream makes of each.

use std::collections::BTreeMap;

use eventlab::embedded::services::eventsource::payload;
use eventlab::evidence::Right;
use eventlab::sensor::{Event, Filter, Reason};
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};

fn event(data: &str) -> Event {
    Event {
        id: "e".into(),
        source: "web".into(),
        subject: "orders".into(),
        r#type: "webhook".into(),
        specversion: "1.0".into(),
        datacontenttype: "application/json".into(),
        time: "2026-01-02T03:04:05Z".parse().ok(),
        data: Some(data.as_bytes().to_vec()),
    }
}

/// A shop's request as the EventSource hands it on.
fn request(body: &str) -> String {
    format!(
        r#"{{"header":{{"X-Order-Id":["42"],"X-Order-Kind":["order"],"Content-Type":["application/json"]}},"body":{body}}}"#
    )
}

fn decide(filters: &Value, operator: &str, data: &str) -> (bool, Reason) {
    let decision = Filter::compile(Some(filters), operator)
        .unwrap()
        .evaluate(&event(data));
    assert_eq!(
        decision.passed,
        decision.reason == Reason::Match,
        "{decision:?}"
    );
    (decision.passed, decision.reason)
}

fn one(path: &str, kind: &str, comparator: &str, values: &[&str]) -> Value {
    json!({"data": [{"path": path, "type": kind, "comparator": comparator, "value": values}]})
}

fn string(path: &str, values: &[&str], data: &str) -> Reason {
    decide(&one(path, "string", "", values), "", data).1
}

/// A. A path that is not gjson's, or not the event's, is missing: an error, whatever the pattern.
#[test]
fn paths_of_other_languages_and_other_spellings_are_missing() {
    let nested =
        request(r#"{"kind":"order","items":[{"sku":"A1"},{"sku":"B2"}],"a":{"b":{"c":1}}}"#);
    for path in [
        // Another source's name, another case, a blank, a slash.
        "headers.X-Order-Id.0",
        "header.x-order-id.0",
        "header.X-Order-ID.0",
        "Header.X-Order-Id.0",
        "header.X-Order-Id.1",
        "body.Kind",
        "body. kind",
        "body/kind",
        "Body.kind",
        // JSONPath, jq, brackets, negative numbers.
        "$.body.kind",
        ".body.kind",
        "body.items[0].sku",
        "body.items.-1.sku",
        "body['kind']",
        "$..kind",
        // Two paths without brackets, a level too much, a level too little.
        "body.kind,body.a",
        "body.a.kind",
        "kind",
        "body.a.b.c.d",
        "body.items.sku",
    ] {
        assert_eq!(
            string(path, &[".*"], &nested),
            Reason::MissingPath,
            "{path}"
        );
    }
    for (path, value) in [
        ("header.X-Order-Id.0", "^42$"),
        ("body.kind", "^order$"),
        ("body.items.1.sku", "^B2$"),
        ("body.items.#", "^2$"),
        ("body.items.#(sku==\"B2\").sku", "^B2$"),
        ("[body.kind,body.a.b.c]", r#"^\["order",1\]$"#),
        ("b*.kind", "^order$"),
        ("bod?.kind", "^order$"),
    ] {
        assert_eq!(string(path, &[value], &nested), Reason::Match, "{path}");
    }
}

/// A. A dot in a key is a step unless it is escaped; a pipe is one, too.
#[test]
fn separators_in_keys_need_their_escape() {
    let data = request(r#"{"order.type":"x","a|b":"y","a.b.c":"z","w*":"v"}"#);
    for (path, wanted) in [
        ("body.order.type", Reason::MissingPath),
        (r"body.order\.type", Reason::Match),
        ("body.a|b", Reason::MissingPath),
        (r"body.a\|b", Reason::Match),
        ("body.a.b.c", Reason::MissingPath),
        (r"body.a\.b\.c", Reason::Match),
        (r"body.w\*", Reason::Match),
    ] {
        assert_eq!(string(path, &["^[xyzv]$"], &data), wanted, "{path}");
    }
}

/// A. A list is matched as its JSON text: unanchored patterns find words in it, anchors and numbers do not.
#[test]
fn lists_are_text_for_patterns_and_nothing_for_numbers() {
    let data = request(r#"{"items":[{"sku":"A1","qty":1},{"sku":"B2","qty":5}],"empty":[]}"#);
    for (path, kind, comparator, value, wanted) in [
        ("header.X-Order-Kind", "string", "", "order", Reason::Match),
        (
            "header.X-Order-Kind",
            "string",
            "",
            "^order$",
            Reason::Mismatch,
        ),
        (
            "header.X-Order-Kind.0",
            "string",
            "",
            "^order$",
            Reason::Match,
        ),
        ("body.items.#.sku", "string", "", "B2", Reason::Match),
        ("body.items.#.sku", "string", "", "^B2$", Reason::Mismatch),
        ("body.items.#.qty", "number", ">", "3", Reason::Mismatch),
        ("body.items.#.qty", "number", "=", "0", Reason::Match),
        (
            "body.items.#(sku==\"B2\").qty",
            "number",
            "=",
            "5",
            Reason::Match,
        ),
        ("body.items.#", "number", "=", "2", Reason::Match),
        ("body.empty.#", "number", "=", "0", Reason::Match),
        ("body.empty.0", "string", "", ".*", Reason::MissingPath),
    ] {
        let (_, reason) = decide(&one(path, kind, comparator, &[value]), "", &data);
        assert_eq!(reason, wanted, "{path} {kind} {comparator} {value}");
    }
}

/// A. Of two equal keys the data filter takes the first, a script the last.
#[test]
fn equal_keys_are_read_differently_by_path_and_script() {
    for (first, last) in [("order", "refund"), ("1", "2"), ("", "x")] {
        let data = request(&format!(r#"{{"kind":"{first}","kind":"{last}"}}"#));
        assert_eq!(
            string("body.kind", &[&format!("^{first}$")], &data),
            Reason::Match
        );
        assert_eq!(
            string("body.kind", &[&format!("^{last}$")], &data),
            Reason::Mismatch
        );
        let script = json!({"script": format!("return event.body.kind == '{last}'")});
        assert_eq!(decide(&script, "", &data).1, Reason::Match);
    }
}

/// B. A value is a pattern that is searched for: words inside words, any character for a dot, any of a list.
#[test]
fn patterns_match_more_than_they_say() {
    for (value, text, wanted) in [
        ("paid", "unpaid", Reason::Match),
        ("paid", "prepaid", Reason::Match),
        ("^paid$", "unpaid", Reason::Mismatch),
        ("labeled", "unlabeled", Reason::Match),
        ("^order.created$", "order-created", Reason::Match),
        (r"^order\.created$", "order-created", Reason::Mismatch),
        ("hey", "heyy", Reason::Match),
        ("$5", "$5", Reason::Mismatch),
        (r"\$5", "$5", Reason::Match),
        ("order(1)", "order(1)", Reason::Mismatch),
        (
            "https://a.example/x?y=1",
            "https://a.example/x?y=1",
            Reason::Mismatch,
        ),
        ("(?i)^PAID$", "paid", Reason::Match),
        ("", "anything", Reason::Match),
    ] {
        let data = request(&json!({"v": text}).to_string());
        assert_eq!(
            string("body.v", &[value], &data),
            wanted,
            "{value} on {text}"
        );
    }
    let data = request(r#"{"v":"heyy"}"#);
    assert_eq!(string("body.v", &["^hello$", "hey"], &data), Reason::Match);
}

/// B. A pattern that does not compile drops every event that reaches it, and only those.
#[test]
fn literals_that_are_no_patterns_drop_everything() {
    for value in [
        "*.txt",
        "c++",
        "(",
        "[",
        "a{2,1}",
        "^(?!test)",
        "(?<=a)b",
        r"\",
        r"(a)\1",
        "+1",
    ] {
        for text in ["c++", "", "test", "1"] {
            let data = request(&json!({"v": text}).to_string());
            assert_eq!(
                string("body.v", &[value], &data),
                Reason::BadRegex,
                "{value} on {text}"
            );
        }
    }
    let data = request(r#"{"v":"1"}"#);
    assert_eq!(string("body.v", &["(", "^1$"], &data), Reason::BadRegex);
    assert_eq!(
        string("body.v", &["^1$", "("], &data),
        Reason::Match,
        "never reached"
    );
}

/// B. `!=` holds where any value differs; a text knows no order.
#[test]
fn comparators_of_text() {
    for (comparator, values, text, wanted) in [
        ("!=", &["foo", "bar"][..], "foo", Reason::Match),
        ("!=", &["^(foo|bar)$"][..], "foo", Reason::Mismatch),
        ("!=", &["^(foo|bar)$"][..], "baz", Reason::Match),
        ("!=", &["foo"][..], "food", Reason::Mismatch),
        ("=", &["^foo$"][..], "foo", Reason::Match),
        (">", &["a"][..], "b", Reason::Mismatch),
        ("<", &["b"][..], "a", Reason::Mismatch),
        (">=", &["a"][..], "a", Reason::Mismatch),
    ] {
        let data = request(&json!({"v": text}).to_string());
        let (_, reason) = decide(&one("body.v", "string", comparator, values), "", &data);
        assert_eq!(reason, wanted, "{comparator} {values:?} on {text}");
    }
}

/// C. What a bool filter takes for true, and that everything else is false.
#[test]
fn bools_are_coerced() {
    let truthy = [
        "true", "\"true\"", "\"TRUE\"", "\"True\"", "\"1\"", "\"t\"", "1", "2", "0.1", "-1",
    ];
    let falsy = [
        "false",
        "\"false\"",
        "0",
        "\"yes\"",
        "\"on\"",
        "\" true\"",
        "\"\"",
        "\"no\"",
        "null",
        "[true]",
        "{\"a\":1}",
        "\"2\"",
    ];
    for (values, wants, not) in [
        (&truthy[..], "true", "false"),
        (&falsy[..], "false", "true"),
    ] {
        for value in values {
            let data = request(&format!(r#"{{"v":{value}}}"#));
            let ask = |wanted: &str| decide(&one("body.v", "bool", "", &[wanted]), "", &data).1;
            assert_eq!(ask(wants), Reason::Match, "{value} as {wants}");
            assert_eq!(ask(not), Reason::Mismatch, "{value} as {not}");
            // The comparator of a bool is not read.
            let unequal = decide(&one("body.v", "bool", "!=", &[wants]), "", &data).1;
            assert_eq!(unequal, Reason::Match, "{value} != {wants}");
        }
    }
    let data = request(r#"{"v":true}"#);
    for (values, wanted) in [
        (&["yes"][..], Reason::BadValue),
        (&["tRuE"][..], Reason::BadValue),
        (&["on"][..], Reason::BadValue),
        (&["True"][..], Reason::Match),
        (&["1"][..], Reason::Match),
        (&["yes", "true"][..], Reason::BadValue),
        (&["true", "yes"][..], Reason::Match),
    ] {
        assert_eq!(
            decide(&one("body.v", "bool", "", values), "", &data).1,
            wanted,
            "{values:?}"
        );
    }
}

/// C. Text that is no number is 0, also where that lets an order through.
#[test]
fn numbers_are_coerced() {
    for (value, comparator, limit, wanted) in [
        ("\"150.00\"", "=", "150", Reason::Match),
        ("\"150 EUR\"", "<", "100", Reason::Match),
        ("\"1,500\"", ">", "100", Reason::Mismatch),
        ("\" 5 \"", "=", "0", Reason::Match),
        ("\"\"", "=", "0", Reason::Match),
        ("null", "=", "0", Reason::Match),
        ("[5]", "=", "0", Reason::Match),
        ("{}", "=", "0", Reason::Match),
        ("true", "=", "1", Reason::Match),
        ("\"1e3\"", "=", "1000", Reason::Match),
        ("\"Inf\"", ">", "100", Reason::Match),
        ("\"NaN\"", "!=", "5", Reason::Match),
        ("\"NaN\"", "=", "5", Reason::Mismatch),
        ("150", ">=", "150", Reason::Match),
    ] {
        let data = request(&format!(r#"{{"v":{value}}}"#));
        let (_, reason) = decide(&one("body.v", "number", comparator, &[limit]), "", &data);
        assert_eq!(reason, wanted, "{value} {comparator} {limit}");
    }
    // Any of several values is enough, for != as well.
    let data = request(r#"{"v":1}"#);
    assert_eq!(
        decide(&one("body.v", "number", "!=", &["1", "2"]), "", &data).1,
        Reason::Match
    );
}

/// C. null is there: empty as a text, 0 as a number, false as a bool. A field that is not there is an error.
#[test]
fn null_is_not_missing() {
    let (null, absent) = (request(r#"{"v":null}"#), request("{}"));
    for (kind, value, of_null) in [
        ("string", "^$", Reason::Match),
        ("string", "^null$", Reason::Mismatch),
        ("number", "0", Reason::Match),
        ("bool", "false", Reason::Match),
        ("bool", "true", Reason::Mismatch),
    ] {
        let filter = one("body.v", kind, "", &[value]);
        assert_eq!(decide(&filter, "", &null).1, of_null, "{kind} {value}");
        assert_eq!(
            decide(&filter, "", &absent).1,
            Reason::MissingPath,
            "{kind} {value}"
        );
    }
}

/// C. Types that nobody knows go live and drop everything.
#[test]
fn unknown_types_drop_everything() {
    for kind in ["float", "int", "boolean", "String", "Bool", "json", "text"] {
        for value in ["1", "true", "\"x\""] {
            let data = request(&format!(r#"{{"v":{value}}}"#));
            let (_, reason) = decide(&one("body.v", kind, "", &["1"]), "", &data);
            assert_eq!(reason, Reason::BadType, "{kind} on {value}");
        }
    }
}

fn two(first: (&str, &str, &str), second: (&str, &str, &str), operator: &str) -> Value {
    let condition = |(path, kind, value): (&str, &str, &str)| json!({"path": path, "type": kind, "value": [value]});
    json!({"dataLogicalOperator": operator, "data": [condition(first), condition(second)]})
}

/// D. Under *and* the first condition that does not hold decides, and says why; under *or* errors change nothing.
#[test]
fn order_decides_the_reason_and_or_forgives_errors() {
    let (vip, large) = (
        ("body.vip", "bool", "true"),
        ("body.amount", "number", "150"),
    );
    for (first, second, operator, body, wanted) in [
        (vip, large, "", r#"{"amount":150}"#, Reason::MissingPath),
        (vip, large, "and", r#"{"amount":150}"#, Reason::MissingPath),
        (large, vip, "", r#"{"amount":9}"#, Reason::Mismatch),
        (vip, large, "", r#"{"amount":9}"#, Reason::MissingPath),
        (vip, large, "or", r#"{"amount":150}"#, Reason::Match),
        (large, vip, "or", r#"{"amount":150}"#, Reason::Match),
        (vip, large, "or", r#"{"amount":50}"#, Reason::MissingPath),
        (vip, large, "or", r#"{"vip":true}"#, Reason::Match),
        // Only the exact word is an operator.
        (
            vip,
            large,
            "OR",
            r#"{"vip":true,"amount":9}"#,
            Reason::Mismatch,
        ),
        (
            vip,
            large,
            "Or",
            r#"{"vip":true,"amount":9}"#,
            Reason::Mismatch,
        ),
        (
            vip,
            large,
            "||",
            r#"{"vip":true,"amount":9}"#,
            Reason::Mismatch,
        ),
    ] {
        let (_, reason) = decide(&two(first, second, operator), "", &request(body));
        assert_eq!(reason, wanted, "{first:?} {operator} {second:?} on {body}");
    }
}

/// D. Between groups *or* forgives a "no" and no error; a group that is not there is no yes, an empty list is one.
#[test]
fn errors_between_groups_are_not_forgiven() {
    let data = |value: &str| json!([{"path": "body.a", "type": "string", "value": [value]}]);
    let (holds, fails) = (data("^1$"), data("^2$"));
    let exprs = json!([{"expr": "x == 'z'", "fields": [{"name": "x", "path": "body.x"}]}]);
    for (filters, operator, body, passed) in [
        (
            json!({"data": holds, "exprs": exprs}),
            "or",
            r#"{"a":"1"}"#,
            false,
        ),
        (
            json!({"data": holds, "exprs": exprs}),
            "or",
            r#"{"a":"1","x":"y"}"#,
            true,
        ),
        (
            json!({"data": fails, "exprs": exprs}),
            "or",
            r#"{"a":"1","x":"z"}"#,
            true,
        ),
        (
            json!({"data": holds, "exprs": exprs}),
            "",
            r#"{"a":"1","x":"y"}"#,
            false,
        ),
        (
            json!({"data": holds, "script": "error('no')"}),
            "or",
            r#"{"a":"1"}"#,
            false,
        ),
        (
            json!({"data": holds, "script": "return false"}),
            "or",
            r#"{"a":"1"}"#,
            true,
        ),
        (json!({"data": fails}), "or", r#"{"a":"1"}"#, false),
        (json!({"data": []}), "or", r#"{"a":"1"}"#, true),
        (json!({"data": []}), "", r#"{"a":"1"}"#, true),
        (json!({}), "", r#"{"a":"1"}"#, true),
        (json!({}), "", "[]", true),
    ] {
        assert_eq!(
            decide(&filters, operator, &request(body)).0,
            passed,
            "{filters} {operator} {body}"
        );
    }
}

/// D. A key that is misspelt or misplaced is no filter, and no filter lets everything pass.
#[test]
fn misspelt_keys_are_no_filter() {
    let data = json!([{"path": "body.a", "type": "string", "value": ["^1$"]}]);
    for filters in [
        json!({"Data": data}),
        json!({"datas": data}),
        json!({"filters": {"data": data}}),
        json!({"scripts": "return false"}),
        json!({"dataLogicalOperater": "or"}),
    ] {
        assert!(
            decide(&filters, "", &request(r#"{"a":"2"}"#)).0,
            "{filters}"
        );
    }
    // A misspelt operator beside a filter leaves it at *and*.
    let mut filters = two(("body.a", "string", "^1$"), ("body.b", "string", "^1$"), "");
    filters["dataLogicaloperator"] = json!("or");
    assert!(!decide(&filters, "", &request(r#"{"a":"1","b":"2"}"#)).0);
}

fn taken(content_type: Option<&str>, body: &str) -> Result<String, String> {
    let mut headers = HeaderMap::new();
    if let Some(text) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(text).unwrap());
    }
    let content = match payload::is_form(&headers) {
        true => payload::form_content(body.as_bytes(), "")?,
        false => body.as_bytes().to_vec(),
    };
    let data = payload::event_data(&headers, &content, &BTreeMap::new())?;
    String::from_utf8(data).map_err(|error| error.to_string())
}

/// F. curl's own content type makes a form of the JSON: taken with 200, and its fields are gone.
#[test]
fn a_body_that_curl_calls_a_form_has_no_fields() {
    const FORM: &str = "application/x-www-form-urlencoded";
    for (content_type, body, wanted) in [
        (Some(FORM), r#"{"kind":"order"}"#, Reason::MissingPath),
        (
            Some(FORM),
            r#"{"kind":"order","a":"b=c&d"}"#,
            Reason::MissingPath,
        ),
        (Some(FORM), "kind=order", Reason::Mismatch),
        (
            Some("application/x-www-form-urlencoded; charset=utf-8"),
            r#"{"kind":"order"}"#,
            Reason::Match,
        ),
        (None, r#"{"kind":"order"}"#, Reason::Match),
        (Some("text/plain"), r#"{"kind":"order"}"#, Reason::Match),
        (
            Some("application/json; charset=utf-8"),
            r#"{"kind":"order"}"#,
            Reason::Match,
        ),
        (Some("application/xml"), "null", Reason::MissingPath),
        (None, "123", Reason::MissingPath),
        (None, "\"order\"", Reason::MissingPath),
        (None, r#"[{"kind":"order"}]"#, Reason::MissingPath),
    ] {
        let data = taken(content_type, body).unwrap();
        assert_eq!(
            string("body.kind", &["^order$"], &data),
            wanted,
            "{content_type:?} {body}"
        );
    }
    assert_eq!(
        string(
            "body.0.kind",
            &["^order$"],
            &taken(None, r#"[{"kind":"order"}]"#).unwrap()
        ),
        Reason::Match
    );
    assert_eq!(
        string(
            "body.kind.0",
            &["^order$"],
            &taken(Some(FORM), "kind=order").unwrap()
        ),
        Reason::Match
    );
    for body in ["a;b=c", "kind=%", "%zz=1"] {
        assert!(taken(Some(FORM), body).is_err(), "{body}");
    }
}

/// F. What is not JSON is not taken; what is JSON and odd is.
#[test]
fn bodies_that_are_no_json_are_refused() {
    for body in [
        "",
        "  ",
        "\n",
        "{\"a\":1,}",
        "{'a':1}",
        "NaN",
        "\u{feff}{}",
        "{}{}",
        "<order/>",
        "--x\r\n",
        "{",
        "tru",
        "01",
        "{\"a\":undefined}",
    ] {
        assert!(taken(None, body).is_err(), "{body:?}");
    }
    for body in [
        "null",
        "0",
        "\"\"",
        "[]",
        "{\"a\":1,\"a\":2}",
        " {\"a\" : 1 } ",
        "1e999",
    ] {
        assert!(taken(None, body).is_ok(), "{body:?}");
    }
}

/// G. A right is asked for without a name: a grant limited to names is no grant of `create`.
#[test]
fn rights_are_asked_for_without_a_name() {
    for (resource, group, wanted) in [
        ("workflows", "argoproj.io", "workflows.argoproj.io"),
        ("pods/exec", "", "pods/exec"),
        (
            "workflows/status",
            "argoproj.io",
            "workflows.argoproj.io/status",
        ),
        ("secrets", "", "secrets"),
    ] {
        let right = Right {
            account: "a".into(),
            verb: "create".into(),
            group: group.into(),
            resource: resource.into(),
        };
        assert_eq!(right.resource_in_group(), wanted);
    }
}

/// G. A refusal is one, whichever resource it names; what to grant is the line's business, not a guess of ours.
#[test]
fn every_refusal_of_the_api_is_forbidden() {
    use eventlab::evidence::Reason as Why;
    use eventlab::evidence::reason::of_trigger;
    for (error, wanted) in [
        (
            "failed to execute trigger, workflows.argoproj.io is forbidden: User \"system:serviceaccount:n:s\" cannot create resource \"workflows\" in API group \"argoproj.io\" in the namespace \"n\"",
            Why::Forbidden,
        ),
        (
            "eventlab is forbidden: User \"system:serviceaccount:n:s\" cannot create resource \"eventlab\" in API group \"\" in the namespace \"n\"",
            Why::Forbidden,
        ),
        (
            "workflows.argoproj.io \"order-1\" already exists",
            Why::AlreadyExists,
        ),
        (
            "the server could not find the requested resource",
            Why::TriggerFailed,
        ),
        ("unable to resolve '' parameter value", Why::TriggerFailed),
    ] {
        assert_eq!(of_trigger(error), wanted, "{error}");
    }
}
