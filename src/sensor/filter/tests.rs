use super::*;
use proptest::prelude::*;
use serde_json::json;

fn event(data: &str) -> Event {
    Event {
        data: Some(data.as_bytes().to_vec()),
        r#type: "webhook".into(),
        ..Event::default()
    }
}

fn judge(filters: Value, operator: &str, data: &str) -> Decision {
    Filter::compile(Some(&filters), operator)
        .unwrap()
        .evaluate(&event(data))
}

fn condition(path: &str, kind: &str, values: &[&str]) -> Value {
    json!({"path": path, "type": kind, "value": values})
}

#[test]
fn no_filters_pass_everything() {
    let filter = Filter::compile(None, "or").unwrap();
    assert!(filter.evaluate(&event("not json")).passed);
    assert!(judge(json!({}), "", "{}").passed);
    assert!(!judge(json!({}), "or", "{}").passed);
}

/// An empty list of conditions is no list, an empty list of expressions is one.
#[test]
fn empty_lists_are_looked_at_or_not() {
    for (filters, operator, data, passed, error) in [
        (json!({"data": []}), "", "x", true, false),
        (json!({"data": []}), "or", "x", true, false),
        (json!({"data": null}), "or", "{}", false, false),
        (json!({"exprs": []}), "", "{}", true, false),
        (json!({"exprs": []}), "or", "{}", true, false),
        (json!({"exprs": []}), "", "x", false, true),
        (json!({"exprs": []}), "", "", false, true),
        (json!({"exprs": []}), "or", "x", false, true),
        (json!({"exprs": null}), "", "x", true, false),
        (
            json!({"exprs": [], "exprLogicalOperator": "or"}),
            "",
            "{}",
            false,
            false,
        ),
        (
            json!({"exprs": [], "exprLogicalOperator": "or"}),
            "or",
            "{}",
            false,
            false,
        ),
    ] {
        let decision = judge(filters.clone(), operator, data);
        assert_eq!(
            (decision.passed, decision.error.is_some()),
            (passed, error),
            "{filters} {operator} {data}"
        );
    }
    let none =
        Filter::compile(Some(&json!({"exprs": [], "exprLogicalOperator": "or"})), "").unwrap();
    assert!(none.evaluate(&Event::default()).passed);
}

/// The controller leaves empty lists out, so they are no group in the pod, whatever stands beside them.
#[test]
fn empty_lists_of_a_manifest_are_as_if_they_were_not_there() {
    let other = condition("x", "number", &["2"]);
    let expression = json!({"expr": "x == 2", "fields": [{"name": "x", "path": "x"}]});
    for with in [
        json!({"exprs": []}),
        json!({"data": []}),
        json!({"exprs": [], "exprLogicalOperator": "or"}),
        json!({"exprs": [], "data": []}),
        json!({"exprs": [], "data": [other]}),
        json!({"data": [], "exprs": [expression]}),
        json!({"data": [], "context": {"type": "other"}}),
    ] {
        let mut without = with.clone();
        let members = without.as_object_mut().unwrap();
        members.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        for operator in ["", "and", "or"] {
            for data in [r#"{"x":1}"#, r#"{"x":2}"#, "{}", "x", ""] {
                let judged = |filters: &Value| {
                    let filter = Filter::of_manifest(Some(filters), operator).unwrap();
                    filter.evaluate(&event(data))
                };
                let decision = judged(&with);
                assert_eq!(decision, judged(&without), "{with} {operator} {data}");
                let compiled = Filter::compile(Some(&without), operator).unwrap();
                assert_eq!(decision, compiled.evaluate(&event(data)), "{without}");
            }
        }
    }
}

/// A limit of this program is told by its kind, and never by words that anybody can write.
#[test]
fn only_this_programs_own_limits_are_too_complex() {
    let words = "eventlab: value is too large; build smaller";
    let long = format!("(?:{}){{9}}", r"\pL".repeat(900));
    for (filters, reason) in [
        (
            json!({"data": [condition(words, "string", &["x"])]}),
            Reason::MissingPath,
        ),
        (
            json!({"data": [condition("v", words, &["x"])]}),
            Reason::BadType,
        ),
        (
            json!({"data": [condition("v", "number", &[words])]}),
            Reason::BadValue,
        ),
        (
            json!({"data": [condition("v", "string", &["(eventlab: "])]}),
            Reason::BadRegex,
        ),
        (
            json!({"exprs": [{"expr": format!("'{words}' + "), "fields": [{"name": "v", "path": "v"}]}]}),
            Reason::BadExpression,
        ),
        (
            json!({"data": [condition("v", "string", &[&long])]}),
            Reason::TooComplex,
        ),
        (
            json!({"dataLogicalOperator": "or", "data": [condition("w", "string", &["x"]), condition("v", "string", &[&long])]}),
            Reason::TooComplex,
        ),
        (
            json!({"exprs": [{"expr": format!("v =~ '{}'", long.replace('\\', r"\\")), "fields": [{"name": "v", "path": "v"}]}]}),
            Reason::TooComplex,
        ),
        (
            json!({"exprs": [{"expr": format!("{}v{}", "(".repeat(70), ")".repeat(70)), "fields": [{"name": "v", "path": "v"}]}]}),
            Reason::TooComplex,
        ),
        (json!({"script": "while true do end"}), Reason::TooComplex),
        (
            json!({"script": "local t = {} for i = 1, 1e9 do t[i] = i end"}),
            Reason::TooComplex,
        ),
    ] {
        assert_eq!(
            judge(filters.clone(), "", r#"{"v":"1"}"#).reason,
            reason,
            "{filters}"
        );
    }
}

#[test]
fn a_bad_pattern_counts_only_when_it_is_reached() {
    assert!(
        judge(
            json!({"data": [condition("v", "string", &["^1$", "("])]}),
            "",
            r#"{"v":"1"}"#
        )
        .passed
    );
    let decision = judge(
        json!({"data": [condition("v", "string", &["(", "^1$"])]}),
        "",
        r#"{"v":"1"}"#,
    );
    assert_eq!(decision.reason, Reason::BadRegex);
    assert!(
        decision
            .error
            .unwrap()
            .text
            .starts_with("data filter error (error parsing regexp: ")
    );
}

#[test]
fn values_are_missed_before_the_template_runs() {
    let filters = json!({"data": [{"path": "v", "type": "string", "value": [], "template": "{{ upper 1 }}"}]});
    let decision = judge(filters, "", r#"{"v":"1"}"#);
    assert_eq!(
        decision.error.map(|error| error.text).as_deref(),
        Some("data filter error (no values specified)")
    );
}

#[test]
fn an_error_in_one_group_drops_what_another_passed() {
    let filters =
        json!({"data": [condition("a", "string", &["^1$"])], "time": {"start": "x", "stop": "y"}});
    let decision = judge(filters, "or", r#"{"a":"1"}"#);
    assert!(!decision.passed);
    assert_eq!(decision.reason, Reason::BadTime);
}

#[test]
fn an_error_of_the_script_stands_alone() {
    let filters = json!({"time": {"start": "x", "stop": "y"}, "script": "error('boom')"});
    let decision = judge(filters, "or", "{}");
    assert_eq!(decision.reason, Reason::ScriptError);
    assert!(!decision.error.unwrap().text.contains("time filter"));
}

#[test]
fn only_true_passes_a_script() {
    assert!(judge(json!({"script": "return event.a == 1"}), "", r#"{"a":1}"#).passed);
    assert_eq!(
        judge(json!({"script": "return 1"}), "", "{}").reason,
        Reason::ScriptFalse
    );
    assert!(
        judge(json!({"script": "return"}), "", "[1]")
            .error
            .is_some()
    );
    assert!(
        judge(json!({"script": "return true"}), "", "")
            .error
            .is_some()
    );
}

#[test]
fn a_filter_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Filter>();
}

#[test]
fn wrong_types_are_refused_with_their_place() {
    let error = Filter::compile(
        Some(&json!({"data": [{"path": "a", "type": "bool", "value": [true]}]})),
        "",
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "filters.data[0].value[0]: wants a string, found the boolean true; the controller cannot decode the object"
    );
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let error = |filters: Value| Filter::compile(Some(&filters), "").unwrap_err().to_string();
    assert!(
        error(json!({"script": "goto a ::b:: do return true end ::a:: goto b"})).starts_with(
            "eventlab: a goto that crosses another one in filters.script is not supported yet"
        )
    );
}

#[test]
fn the_explanation_names_what_was_found_and_what_decided() {
    let filters = json!({"data": [condition("b.vip", "bool", &["true"]), condition("b.amount", "number", &["7", "x", "8"])]});
    let filter = Filter::compile(Some(&filters), "").unwrap();
    let why = filter.explain(&event(r#"{"b":{"vip":"TRUE","amount":"150 EUR"}}"#));
    let group = why.deciding_group().unwrap();
    assert_eq!((group.group, group.outcome), (Group::Data, Outcome::Error));
    let first = &group.conditions[0];
    assert_eq!(
        (first.found.as_ref().unwrap().raw.as_str(), first.outcome),
        ("\"TRUE\"", Outcome::Passed)
    );
    let second = why.deciding_condition().unwrap();
    assert_eq!(
        (
            second.path.as_str(),
            second.reason,
            second.found.as_ref().unwrap().coerced.as_str()
        ),
        ("b.amount", Reason::BadValue, "0")
    );
    let outcomes: Vec<_> = second.values.iter().map(|value| value.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Failed, Outcome::Error, Outcome::NotReached]
    );
}

#[test]
fn the_explanation_says_that_a_bool_ignores_its_comparator() {
    let filters =
        json!({"data": [{"path": "v", "type": "bool", "value": ["true"], "comparator": "!="}]});
    let why = Filter::compile(Some(&filters), "")
        .unwrap()
        .explain(&event(r#"{"v":true}"#));
    assert!(why.passed && why.groups[0].conditions[0].comparator_ignored);
}

fn spec() -> impl Strategy<Value = Value> {
    let text = || {
        proptest::sample::select(vec![
            "",
            "a",
            "a.b",
            "a.#(b==1)",
            "@this",
            "string",
            "number",
            "bool",
            "or",
            "and",
            "!=",
            ">",
            "1",
            "(",
            "^a",
            "true",
            "08:00:00",
            "UTC",
        ])
    };
    let leaf = prop_oneof![
        text().prop_map(|text| json!(text)),
        any::<bool>().prop_map(|flag| json!(flag)),
        Just(Value::Null),
        any::<i32>().prop_map(|number| json!(number))
    ];
    let keys = proptest::sample::select(vec![
        "data",
        "context",
        "time",
        "exprs",
        "script",
        "dataLogicalOperator",
        "path",
        "type",
        "value",
        "comparator",
        "start",
        "stop",
        "timezone",
    ]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::vec((keys.clone(), inner), 0..5).prop_map(|members| {
                Value::Object(
                    members
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

fn good_spec() -> impl Strategy<Value = Value> {
    let paths = || {
        proptest::sample::select(vec![
            "a",
            "a.b",
            "b.0",
            "a.*",
            "b.#",
            "b.#(a>1)#.a",
            "@this",
            "nope",
            "a.@keys",
            "b.#.a",
        ])
    };
    let kinds = || proptest::sample::select(vec!["string", "number", "bool", "text"]);
    let values = || {
        proptest::collection::vec(
            proptest::sample::select(vec!["1", "true", "^a$", "(", ".*", "0"]),
            0..3,
        )
    };
    let comparators = || proptest::sample::select(vec!["", "=", "!=", ">", ">=", "<", "<=", "=="]);
    let one = (paths(), kinds(), values(), comparators())
        .prop_map(|(path, kind, value, comparator)| json!({"path": path, "type": kind, "value": value, "comparator": comparator}));
    (
        proptest::collection::vec(one, 0..4),
        proptest::sample::select(vec!["", "or", "and"]),
        any::<bool>(),
    )
        .prop_map(|(data, operator, timed)| {
            let mut spec = json!({"data": data, "dataLogicalOperator": operator});
            if timed {
                spec["time"] = json!({"start": "25:00:00", "stop": "1:00:00"});
            }
            spec
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_spec_compiles_or_is_refused(filters in spec(), operator in "or|and|OR|", data: Vec<u8>) {
        if let Ok(filter) = Filter::compile(Some(&filters), &operator) {
            let _ = filter.evaluate(&Event { data: Some(data), ..Event::default() });
        }
    }

    #[test]
    fn the_explanation_tells_the_decision(
        filters in good_spec(),
        operator in "or|and|",
        data in proptest::sample::select(vec![r#"{"a":{"b":1},"b":[{"a":1},{"a":2}]}"#, r#"{"a":"a","b":["1"]}"#, "[]", "{", "\"a\"", "null"]),
    ) {
        let filter = Filter::compile(Some(&filters), &operator).unwrap();
        let decision = filter.evaluate(&event(data));
        let why = filter.explain(&event(data));
        prop_assert_eq!((why.passed, why.reason, why.error), (decision.passed, decision.reason, decision.error.map(|error| error.text)));
    }
}

#[test]
fn an_expression_is_explained_with_its_fields_and_value() {
    let filters = json!({"exprs": [
        {"expr": "1 == 2", "fields": []},
        {"expr": "amount > 50", "fields": [{"name": "amount", "path": "b.amount"}]},
        {"expr": "amount", "fields": [{"name": "amount", "path": "b.amount"}]},
    ]});
    let filter = Filter::compile(Some(&filters), "").unwrap();
    let why = filter.explain(&event(r#"{"b":{"amount":60}}"#));
    assert_eq!((why.passed, why.reason), (false, Reason::Mismatch));
    let conditions = &why.deciding_group().unwrap().conditions;
    assert_eq!(conditions[0].outcome, Outcome::NotReached);
    assert_eq!(conditions[1].outcome, Outcome::Passed);
    let last = why.deciding_condition().unwrap();
    assert_eq!(
        (last.path.as_str(), last.outcome),
        ("b.amount", Outcome::Failed)
    );
    let found = last.found.as_ref().unwrap();
    assert_eq!(
        (found.raw.as_str(), found.coerced.as_str()),
        ("map[amount:60]", "60")
    );
}

#[test]
fn a_script_decides_last_and_its_error_stands_alone() {
    let filters =
        json!({"data": [condition("b.x", "string", &["y"])], "script": "return event.b.n.m"});
    let filter = Filter::compile(Some(&filters), "or").unwrap();
    let decision = filter.evaluate(&event(r#"{"b":{}}"#));
    assert_eq!(decision.reason, Reason::ScriptError);
    assert_eq!(
        decision.error.unwrap().text,
        "<string>:1: attempt to index field 'n' (a nil value)"
    );
}

#[test]
fn a_template_changes_what_is_compared() {
    let templated = |template: &str| {
        let data = json!({"path": "b.m", "type": "number", "value": ["5"], "template": template});
        let filter = Filter::compile(Some(&json!({ "data": [data] })), "").unwrap();
        filter.explain(&event(r#"{"b":{"m":"$5"}}"#))
    };
    let why = templated("{{ trimPrefix \"$\" .Input }}");
    assert!(why.passed);
    let found = why.groups[0].conditions[0].found.as_ref().unwrap();
    assert_eq!(
        (found.raw.as_str(), found.coerced.as_str()),
        ("\"$5\"", "5")
    );
    let why = templated("{{ .Nope }}");
    assert_eq!(why.reason, Reason::BadTemplate);
    assert_eq!(
        why.error.unwrap(),
        "data filter error (template '{{ .Nope }}' evaluated to empty string or no value)"
    );
}
