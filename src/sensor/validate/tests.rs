use super::*;
use proptest::prelude::*;
use serde_json::json;

fn sensor(filters: Value) -> Value {
    json!({"spec": {
        "dependencies": [{"name": "order", "eventSourceName": "webhook", "eventName": "orders", "filters": filters}],
        "triggers": [{"template": {"name": "run", "k8s": {"operation": "create", "source": {"resource": {"kind": "Workflow"}}}}}],
    }})
}

fn check(sensor: &Value) -> Result<(), Invalid> {
    validate(
        sensor,
        &json!({"spec": {"jetstream": {}}}),
        "2026-01-02T03:04:05Z".parse().unwrap(),
    )
}

fn refusal(sensor: &Value) -> (&'static str, &'static str, String) {
    match check(sensor) {
        Err(Invalid::Refused {
            condition,
            reason,
            message,
        }) => (condition.as_str(), reason, message),
        other => panic!("{other:?}"),
    }
}

fn data(changed: Value) -> Value {
    let mut filter = json!({"path": "body.kind", "type": "string", "value": ["a"]});
    for (key, value) in changed.as_object().unwrap() {
        filter[key] = value.clone();
    }
    sensor(json!({"data": [filter]}))
}

#[test]
fn a_right_sensor_is_valid() {
    assert_eq!(check(&data(json!({}))), Ok(()));
    assert_eq!(check(&sensor(Value::Null)), Ok(()));
}

#[test]
fn unknown_types_of_data_filters_go_live() {
    assert_eq!(check(&data(json!({"type": "float"}))), Ok(()));
}

#[test]
fn wrong_filters_are_refused_on_the_dependencies_condition() {
    let message = |sensor: Value| {
        let (condition, reason, message) = refusal(&sensor);
        assert_eq!(
            (condition, reason),
            ("DependenciesProvided", "InvalidDependencies")
        );
        message
    };
    assert_eq!(
        message(data(json!({"comparator": "=="}))),
        "comparator == not supported"
    );
    assert_eq!(
        message(data(json!({"path": ""}))),
        "one of data filters is not valid (type, path and value must be not empty)"
    );
    assert_eq!(
        message(data(json!({"value": []}))),
        "one of data filters is not valid (type, path and value must be not empty)"
    );
    assert_eq!(
        message(data(json!({"value": ["a", ""]}))),
        "one of data filters is not valid (value must be not empty)"
    );
    assert_eq!(
        message(sensor(json!({"dataLogicalOperator": "OR"}))),
        "logical operator OR not supported"
    );
    assert_eq!(
        message(sensor(json!({"context": {}}))),
        "no fields specified in ctx filter (aka all events will be discarded)"
    );
    assert_eq!(
        message(sensor(
            json!({"time": {"start": "01:00:00", "stop": "1:00:00"}})
        )),
        "invalid event time filter: stop '1:00:00' is equal to start '01:00:00"
    );
    assert_eq!(
        message(sensor(
            json!({"time": {"start": "x", "stop": "y", "timezone": "Nowhere/Land"}})
        )),
        "invalid timezone 'Nowhere/Land': unknown time zone Nowhere/Land"
    );
    assert_eq!(message(json!({"spec": {}})), "no event dependencies found");
}

#[test]
fn wrong_triggers_are_refused_on_the_triggers_condition() {
    let message = |triggers: Value| {
        let mut sensor = sensor(Value::Null);
        sensor["spec"]["triggers"] = triggers;
        let (condition, reason, message) = refusal(&sensor);
        assert_eq!((condition, reason), ("TriggersProvided", "InvalidTriggers"));
        message
    };
    let k8s = |name: &str| json!({"template": {"name": name, "k8s": {"source": {"resource": {}}}}});
    assert_eq!(message(json!([])), "no triggers found");
    assert_eq!(message(json!([{}])), "trigger template can't be nil");
    assert_eq!(message(json!([k8s("")])), "trigger must define a name");
    assert_eq!(
        message(json!([k8s("a"), k8s("a")])),
        "duplicate trigger name: a"
    );
    assert_eq!(
        message(json!([{"template": {"name": "a", "k8s": {"operation": "make", "source": {}}}}])),
        "trigger for template a is invalid, unknown operation type make"
    );
    assert_eq!(
        message(
            json!([{"template": {"name": "a", "k8s": {"source": {}, "parameters": [{"src": {"dependencyName": "d"}}]}}}])
        ),
        "trigger for template a is invalid, resource parameter index: 0. err: parameter destination can't be empty"
    );
    assert_eq!(
        message(
            json!([{"template": {"name": "a", "conditionsReset": [{"byTime": {"cron": "@daily"}}]}}])
        ),
        "invalid cron expression \"@daily\""
    );
}

#[test]
fn a_value_that_is_no_string_cannot_be_decoded() {
    let error = check(&data(json!({"value": [true]}))).unwrap_err();
    assert!(
        matches!(&error, Invalid::Decode(error) if error.path == "spec.dependencies[0].filters.data[0].value[0]"),
        "{error}"
    );
    let error = check(&data(json!({"value": "a"}))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.dependencies[0].filters.data[0].value: wants a list, found a string; the controller cannot decode the object"
    );
}

#[test]
fn only_nats_streaming_refuses_two_dependencies_on_one_event() {
    let mut twice = sensor(Value::Null);
    let first = twice["spec"]["dependencies"][0].clone();
    twice["spec"]["dependencies"]
        .as_array_mut()
        .unwrap()
        .push(first);
    assert_eq!(check(&twice), Ok(()));
    let on_stan = validate(
        &twice,
        &json!({"spec": {"nats": {"native": {}}}}),
        "2026-01-02T03:04:05Z".parse().unwrap(),
    );
    assert!(
        on_stan
            .unwrap_err()
            .to_string()
            .contains("is referenced for more than one dependency")
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let keys = vec![
        "spec",
        "dependencies",
        "triggers",
        "template",
        "name",
        "k8s",
        "source",
        "parameters",
        "src",
        "dlqTrigger",
        "policy",
        "conditionsReset",
        "byTime",
        "cron",
        "filters",
        "data",
        "time",
        "context",
        "exprs",
        "retryStrategy",
        "rateLimit",
        "http",
        "email",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        "[a-z/*]{0,3}".prop_map(Value::from)
    ];
    leaf.prop_recursive(6, 40, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::vec((proptest::sample::select(keys.clone()), inner), 0..5)
                .prop_map(|members| Value::Object(
                    members
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect()
                )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_object_is_judged_without_panic(spec in any_json()) {
        let _ = check(&json!({"spec": spec}));
    }
}
