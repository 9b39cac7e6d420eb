//! `eventlab explain`: what the triggers do with an event, and what cannot be judged here.

use serde_json::{Value, json};

use crate::explain::{FLAT, changes, data, explain_with, sensor, walk};

/// The Sensor with this trigger alone.
pub fn with_trigger(trigger: &Value) -> Value {
    let mut sensor = sensor(&Value::Null);
    let mut trigger = trigger.clone();
    if trigger["template"]["name"].is_null() {
        trigger["template"]["name"] = "run".into();
    }
    sensor["spec"]["triggers"] = json!([trigger]);
    sensor
}

fn from(key: &str) -> Value {
    json!({"src": {"dependencyName": "order", "dataKey": key}, "dest": "p"})
}

/// Triggers of every kind that calls a service, with this payload or these parameters.
fn calls(list: &str, parameter: &Value) -> Vec<Value> {
    let mut kinds = vec![
        json!({"http": {"url": "http://a"}}),
        json!({"awsLambda": {"functionName": "a", "region": "b"}}),
        json!({"azureEventHubs": {"fqdn": "a", "hubName": "b"}}),
        json!({"azureServiceBus": {"queueName": "a"}}),
        json!({"kafka": {"url": "a", "topic": "b"}}),
        json!({"pulsar": {"url": "a", "topic": "b"}}),
        json!({"nats": {"url": "a", "subject": "b"}}),
        json!({"openWhisk": {"host": "a", "actionName": "b"}}),
        json!({"custom": {"serverURL": "a", "spec": {"b": "c"}}}),
    ];
    if list == "parameters" {
        kinds.push(json!({"slack": {"slackToken": {"name": "a", "key": "b"}}}));
        kinds.push(json!({"email": {"host": "a", "port": 25}}));
    }
    for template in &mut kinds {
        let (_, given) = template.as_object_mut().unwrap().iter_mut().next().unwrap();
        given["payload"] = json!([from("body.kind")]);
        given[list] = json!([parameter]);
    }
    kinds
}

/// What upstream resolves before it calls anything fails here, too.
#[test]
fn a_call_whose_values_are_missing_fails_before_the_service_is_asked() {
    let unresolved = "unable to resolve 'order' parameter value. err: <nil>";
    for list in ["parameters", "payload"] {
        for template in calls(list, &from("body.missing")) {
            let (code, walk) = walk(
                &with_trigger(&json!({"template": template})),
                &["--body", FLAT],
            );
            assert_eq!(
                (code, &walk["stopped_at"]),
                (1, &json!("submit")),
                "{template}: {walk:#}"
            );
            let error = walk["triggers"][0]["error"].as_str().unwrap();
            let prefix = if list == "payload" {
                "failed to execute trigger, "
            } else {
                ""
            };
            assert_eq!(error, format!("{prefix}{unresolved}"), "{template}");
            assert!(
                changes(&walk).contains("body.missing"),
                "{}",
                walk["change"]
            );
        }
        for template in calls(list, &from("body.orderId")) {
            let (code, walk) = walk(
                &with_trigger(&json!({"template": template})),
                &["--body", FLAT],
            );
            assert_eq!(
                (code, &walk["passed"], &walk["judged"], &walk["stopped_at"]),
                (3, &json!(false), &json!(false), &Value::Null),
                "{template}"
            );
        }
    }
    let header = json!({"http": {"url": "http://a", "dynamicHeaders": [{"src": {"dependencyName": "order", "dataKey": "body.no"}, "dest": "X-A"}]}});
    let (code, walk) = walk(
        &with_trigger(&json!({"template": header})),
        &["--body", FLAT],
    );
    let error = walk["triggers"][0]["error"].as_str().unwrap();
    assert!(code == 1 && error.contains("dynamicHeader X-A"), "{walk:#}");
}

#[test]
fn an_object_that_is_not_read_here_is_judged_as_far_as_it_goes() {
    let workflow = |metadata: Value| json!({"resource": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata}});
    let missing = json!([{"src": {"dependencyName": "order", "dataKey": "body.missing"}, "dest": "metadata.name"}]);
    let git = json!({"git": {"url": "http://a", "filePath": "b", "cloneDirectory": "c"}});
    let configmap = json!({"configmap": {"name": "a", "key": "b"}});
    for (template, code, said) in [
        (
            json!({"argoWorkflow": {"operation": "resubmit", "source": workflow(json!({"name": "a"}))}}),
            3,
            "operation resubmit",
        ),
        (
            json!({"argoWorkflow": {"operation": "retry", "source": workflow(json!({"name": "a"})), "parameters": missing}}),
            1,
            "unable to resolve",
        ),
        (
            json!({"argoWorkflow": {"operation": "resume", "source": workflow(json!({"generateName": "a-"}))}}),
            1,
            "failed to execute trigger, failed to execute the workflow resume operation, no name is given",
        ),
        (
            json!({"argoWorkflow": {"operation": "submit", "args": ["--wait"], "source": workflow(json!({"generateName": "a-"}))}}),
            3,
            "args",
        ),
        (
            json!({"argoWorkflow": {"operation": "submit", "args": ["--wait"], "source": workflow(json!({}))}}),
            1,
            "neither name nor generateName",
        ),
        (json!({"k8s": {"source": git}}), 3, "source.git"),
        (json!({"k8s": {"source": configmap}}), 3, "source.configmap"),
        (
            json!({"k8s": {"source": git, "parameters": missing}}),
            1,
            "unable to resolve",
        ),
        (
            json!({"k8s": {"source": configmap, "parameters": missing}}),
            1,
            "unable to resolve",
        ),
    ] {
        let sensor = with_trigger(&json!({"template": template}));
        let (exit, walk) = walk(&sensor, &["--body", FLAT]);
        let error = walk["triggers"][0]["error"].as_str().unwrap_or_default();
        assert!(exit == code && error.contains(said), "{exit}: {walk:#}");
        let (_, out, _) = explain_with(&["-f", "-", "--body", FLAT], &sensor.to_string());
        let verdict = "passes as far as eventlab can judge";
        assert_eq!(
            out.lines().next().unwrap().contains(verdict),
            code == 3,
            "{out}"
        );
    }
}

/// A Sensor with two dependencies on one event and a label from each.
fn two(conditions: &str) -> Value {
    let label = |dependency: &str, key: &str, label: &str| json!({"src": {"dependencyName": dependency, "dataKey": key}, "dest": format!("metadata.labels.{label}")});
    let resource = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "order-"}, "spec": {}});
    let mut sensor = with_trigger(
        &json!({"template": {"conditions": conditions, "k8s": {"source": {"resource": resource},
        "parameters": [label("a", "body.orderId", "x"), label("b", "body.kind", "y")]}}}),
    );
    let dependency =
        |name: &str| json!({"name": name, "eventSourceName": "web", "eventName": "orders"});
    sensor["spec"]["dependencies"] = json!([dependency("b"), dependency("a"), {"name": "c", "eventSourceName": "web", "eventName": "other"}]);
    sensor
}

#[test]
fn each_dependency_acts_by_itself_unless_one_waits_for_the_other() {
    let labels = |made: &Value| {
        let labels = &made["object"]["metadata"]["labels"];
        json!([made["by"], labels["x"], labels["y"]])
    };
    let both = json!([["a", "b"], "o-1", "order.created"]);
    for (conditions, objects, waits) in [
        (
            "a || b",
            vec![
                json!([["a"], "o-1", null]),
                json!([["b"], null, "order.created"]),
            ],
            json!([]),
        ),
        (
            "b || a",
            vec![
                json!([["b"], null, "order.created"]),
                json!([["a"], "o-1", null]),
            ],
            json!([]),
        ),
        ("a && b", vec![both.clone()], json!([])),
        ("(a && c) || b", vec![both], json!([])),
        (
            "a || (b && c)",
            vec![json!([["a"], "o-1", null])],
            json!(["a", "c"]),
        ),
        ("a && c", vec![], json!(["c"])),
    ] {
        let (_, walk) = walk(&two(conditions), &["--body", FLAT]);
        assert_eq!(walk["passed"], true, "{conditions}: {walk:#}");
        let trigger = &walk["triggers"][0];
        let made: Vec<Value> = trigger["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(labels)
            .collect();
        assert_eq!(
            (&made, &trigger["waits_for"]),
            (&objects, &waits),
            "{conditions}"
        );
        let note = walk["notes"].to_string();
        assert_eq!(
            note.contains("2 objects from one event"),
            objects.len() == 2,
            "{note}"
        );
    }
}

#[test]
fn of_dependencies_with_one_name_the_last_counts() {
    let mut twice = sensor(&Value::Null);
    let mut other = twice["spec"]["dependencies"][0].clone();
    other["filters"] = data("body.kind", "string", &["^zzz$"]);
    twice["spec"]["dependencies"]
        .as_array_mut()
        .unwrap()
        .push(other);
    for more in [&["--body", FLAT][..], &["--body", FLAT, "-d", "order"]] {
        let (code, walk) = walk(&twice, more);
        assert_eq!(
            (code, &walk["stopped_at"]),
            (1, &json!("filter")),
            "{walk:#}"
        );
        assert_eq!(walk["dependencies"].as_array().unwrap().len(), 1);
        assert!(
            walk["notes"].to_string().contains("only the last"),
            "{walk:#}"
        );
    }
    twice["spec"]["dependencies"]
        .as_array_mut()
        .unwrap()
        .reverse();
    let (code, walk) = walk(&twice, &["--body", FLAT]);
    assert_eq!(
        (code, &walk["triggers"][0]["triggered_by"]),
        (0, &json!(["order"]))
    );
}

#[test]
fn a_name_or_label_that_the_api_refuses_stops_at_submit() {
    let resource = |metadata: Value| json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": {}});
    let to = |dest: &str| json!([{"src": {"dependencyName": "order", "dataKey": "body.id"}, "dest": dest}]);
    let refused = |template: Value, id: &str| {
        let body = json!({"id": id}).to_string();
        let (code, walk) = walk(
            &with_trigger(&json!({"template": template})),
            &["--body", &body],
        );
        let error = walk["triggers"][0]["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_eq!(code == 1, !error.is_empty(), "{walk:#}");
        assert!(
            code == 0 || !walk["change"].as_array().unwrap().is_empty(),
            "{walk:#}"
        );
        error
    };
    let long = "a".repeat(280);
    for operation in ["create", "update", "patch"] {
        let named = |id: &str| {
            refused(
                json!({"k8s": {"operation": operation, "source": {"resource": resource(json!({"name": "x"}))}, "parameters": to("metadata.name")}}),
                id,
            )
        };
        for id in ["ORD_1", "a b", "ü", long.as_str()] {
            let start = format!(
                "failed to execute trigger, Workflow.argoproj.io {id:?} is invalid: metadata.name: Invalid value: "
            );
            assert!(
                named(id).starts_with(&start),
                "{operation} {id}: {}",
                named(id)
            );
        }
        assert_eq!(named("ord-1"), "");
    }
    let label = |id: &str| {
        refused(
            json!({"k8s": {"source": {"resource": resource(json!({"generateName": "x-"}))}, "parameters": to("metadata.labels.order")}}),
            id,
        )
    };
    assert!(label("a b/c!").contains(r#"is invalid: metadata.labels: Invalid value: "a b/c!""#));
    assert_eq!(label("a_b.C"), "");
    let trigger = json!({"name": "My trigger!", "k8s": {"source": {"resource": resource(json!({"generateName": "x-"}))}}});
    assert!(refused(trigger, "1").contains(r#"metadata.labels: Invalid value: "My trigger!""#));
    let submit = json!({"argoWorkflow": {"operation": "submit", "source": {"resource": resource(json!({"name": "x"}))}, "parameters": to("metadata.name")}});
    assert_eq!(
        refused(submit.clone(), "ORD_1"),
        "failed to execute trigger, failed to execute submit command for workflow ORD_1, exit status 1"
    );
    assert_eq!(refused(submit, "ord-1"), "");
    let wrong = json!({"apiVersion": "argoproj.io/v1", "kind": "Workflow", "metadata": {"name": "x"}, "spec": {}});
    assert!(
        refused(json!({"k8s": {"source": {"resource": wrong}}}), "1")
            .contains("could not find the requested resource")
    );
}

#[test]
fn a_policy_that_cannot_be_met_fails_after_the_work() {
    let source = json!({"resource": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "x"}, "spec": {}}});
    let policy = json!({"k8s": {"labels": {"workflows.argoproj.io/phase": "Succeeded"}}});
    for (template, code) in [
        (
            json!({"argoWorkflow": {"operation": "submit", "source": source}}),
            1,
        ),
        (json!({"k8s": {"operation": "delete", "source": source}}), 1),
        (json!({"k8s": {"operation": "create", "source": source}}), 0),
    ] {
        let (exit, walk) = walk(
            &with_trigger(&json!({"template": template, "policy": policy})),
            &["--body", FLAT],
        );
        assert_eq!(exit, code, "{walk:#}");
        let error = walk["triggers"][0]["error"].as_str();
        assert_eq!(
            error,
            (code == 1).then_some("failed to interpret the trigger resource")
        );
        assert_eq!(walk["triggers"][0]["objects"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_sensor_that_the_api_refuses_is_no_sensor() {
    let valid = sensor(&Value::Null);
    let mut named = valid.clone();
    named["metadata"]["name"] = "Bad_Name".into();
    let mut versioned = valid.clone();
    versioned["apiVersion"] = "argoproj.io/v1beta1".into();
    for (sensor, said) in [
        (named, "metadata.name: Invalid value"),
        (versioned, "argoproj.io/v1alpha1"),
    ] {
        let (code, out, err) = explain_with(&["-f", "-", "--body", FLAT], &sensor.to_string());
        assert!(
            code == 2 && out.is_empty() && err.contains(said),
            "{code}: {err}"
        );
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [valid], "metadata": {"resourceVersion": ""}});
    let (code, out, err) = explain_with(&["-f", "-", "--body", FLAT], &list.to_string());
    assert!(
        code == 0 && out.starts_with("Sensor/orders"),
        "{code}: {err}"
    );
}

/// A limit of this program says nothing of what Argo would do: no verdict, and no line of its log.
#[test]
fn what_is_stopped_here_is_no_verdict() {
    let template = |template: &str, value: Value| {
        let parameter = json!([{"src": {"dependencyName": "order", "dataTemplate": template, "value": value}, "dest": "metadata.labels.x"}]);
        let resource = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "x-"}, "spec": {}});
        with_trigger(
            &json!({"template": {"k8s": {"source": {"resource": resource}, "parameters": parameter}}}),
        )
    };
    let endless = "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}x";
    let mut cases: Vec<Value> = [
        "{{ (urlParse .Input.body.kind).host }}",
        "{{ env \"HOME\" }}",
        endless,
    ]
    .into_iter()
    .flat_map(|text| {
        [
            template(text, Value::Null),
            template(text, json!("default")),
        ]
    })
    .collect();
    let endless_script = json!({"script": "while true do end"});
    cases.push(sensor(&endless_script));
    let condition =
        json!({"path": "body.kind", "type": "string", "value": ["a"], "template": endless});
    cases.push(sensor(&json!({"data": [condition]})));
    let mut transformed = sensor(&Value::Null);
    transformed["spec"]["dependencies"][0]["transform"] = json!({"script": "while true do end"});
    cases.push(transformed);
    for sensor in &cases {
        let (code, walk) = walk(sensor, &["--body", FLAT]);
        assert_eq!(
            (code, &walk["passed"], &walk["judged"], &walk["stopped_at"]),
            (3, &json!(false), &json!(false), &Value::Null),
            "{walk:#}"
        );
        let logs = walk["logs"].to_string();
        assert!(
            !logs.contains("discarded") && !logs.contains("Failed"),
            "{logs}"
        );
        let (_, out, _) = explain_with(&["-f", "-", "--body", FLAT], &sensor.to_string());
        assert!(
            out.lines().next().unwrap().contains("eventlab can"),
            "{out}"
        );
    }
    // Another group settles it, whatever the script would say.
    let mut settled = data("body.kind", "string", &["^refund$"]);
    settled["script"] = endless_script["script"].clone();
    let (code, walk) = walk(&sensor(&settled), &["--body", FLAT]);
    assert_eq!((code, &walk["judged"]), (1, &json!(true)), "{walk:#}");
}
