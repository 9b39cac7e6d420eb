//! `eventlab explain`: what becomes of a manifest on its way into the Sensor's pod, and of a source on its way into an object.

use serde_json::{Value, json};

use crate::explain::{FLAT, changes, explain_with, json_of, sensor, walk};
use crate::explain_acts::with_trigger;

/// The walk of one body through a Sensor that is written in YAML.
fn of_yaml(yaml: &str, more: &[&str]) -> (i32, Value) {
    let arguments = [&["-f", "-", "--format", "json"], more].concat();
    let (code, out, err) = explain_with(&arguments, yaml);
    assert!(code != 2 && !out.is_empty(), "{code}: {err}");
    (code, json_of(&out))
}

/// A Sensor with one k8s trigger, its source given as lines.
fn with_source(source: &str) -> String {
    let source = source.replace('\n', "\n          ");
    format!(
        "apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {{name: s}}
spec:
  dependencies: [{{name: order, eventSourceName: web, eventName: orders}}]
  triggers:
  - template:
      name: run
      k8s:
        operation: create
        source:
          {source}
"
    )
}

/// The controller leaves an empty list out, so under OR it lets nothing through.
#[test]
fn an_empty_list_of_filters_is_no_group() {
    let other = json!({"path": "body.amount", "type": "number", "value": ["1"]});
    let expression = json!({"expr": "a == 1", "fields": [{"name": "a", "path": "body.amount"}]});
    for filters in [
        json!({"exprs": [], "data": [other]}),
        json!({"data": [], "exprs": [expression]}),
        json!({"data": [], "exprs": []}),
        json!({"data": []}),
        json!({"exprs": []}),
        json!({"exprs": [], "context": {"type": "kafka"}}),
    ] {
        let mut sensor = sensor(&filters);
        sensor["spec"]["dependencies"][0]["filtersLogicalOperator"] = "or".into();
        let (code, walk) = walk(&sensor, &["--body", FLAT]);
        assert!(code != 0 && walk["passed"] == false, "{filters}: {walk:#}");
    }
    for filters in [json!({"data": []}), json!({"exprs": [], "data": []})] {
        let (code, walk) = walk(&sensor(&filters), &["--body", FLAT]);
        assert_eq!((code, &walk["passed"]), (0, &json!(true)), "{filters}");
    }
}

/// Labels that are empty do not reach the pod either: there is no policy then.
#[test]
fn a_policy_without_labels_is_none() {
    let config =
        json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}});
    let workflow = json!({"resource": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "a-"}}});
    for template in [
        json!({"k8s": {"operation": "delete", "source": config}}),
        json!({"argoWorkflow": {"operation": "submit", "source": workflow}}),
    ] {
        for (labels, code) in [(json!({}), 0), (json!({"a": "b"}), 1)] {
            let policy = json!({"k8s": {"labels": labels}});
            let sensor = with_trigger(&json!({"template": template, "policy": policy}));
            let (exit, walk) = walk(&sensor, &["--body", FLAT]);
            assert_eq!(exit, code, "{labels}: {walk:#}");
        }
    }
}

/// A source is read as upstream reads it, wherever it is written.
#[test]
fn keys_and_numbers_of_a_source_are_those_that_upstream_reads() {
    let spec = "spec:\n  on: push\n  No: x\n  0x10: h\n  'y': kept\n  1.50: k\n  id: 1234567890123456789\n  ids: [9007199254740993]";
    let head = "apiVersion: example.com/v1\nkind: Order\nmetadata: {generateName: x-}\n";
    let wanted = json!({"true": "push", "false": "x", "16": "h", "y": "kept", "1.5": "k",
        "id": 1_234_567_890_123_456_800_i64, "ids": [9_007_199_254_740_992_i64]});
    let resource = format!(
        "resource:\n  {}",
        format!("{head}{spec}").replace('\n', "\n  ")
    );
    let inline = format!(
        "inline: |\n  {}",
        format!("{head}{spec}\n  dup: 1\n  dup: 2\n---\nkind: Other").replace('\n', "\n  ")
    );
    for (source, dup) in [(resource, Value::Null), (inline, json!(2))] {
        let (code, walk) = of_yaml(&with_source(&source), &["--body", FLAT]);
        assert_eq!(code, 0, "{walk:#}");
        let object = &walk["triggers"][0]["objects"][0]["object"];
        assert_eq!(object["kind"], "Order");
        let mut spec = object["spec"].clone();
        let found = spec.as_object_mut().unwrap().remove("dup");
        assert_eq!(found.unwrap_or_default(), dup);
        assert_eq!(spec, wanted);
    }
}

/// What this program's reader says of a text is not told as Argo's words.
#[test]
fn a_text_that_is_no_yaml_says_whose_words_these_are() {
    for inline in ["kind: [", "a: b: c", "a:\n\t- b", "~: 1"] {
        let mut template = json!({"k8s": {"source": {"inline": inline}}});
        template["name"] = "run".into();
        let (code, walk) = walk(
            &with_trigger(&json!({ "template": template })),
            &["--body", FLAT],
        );
        assert_eq!(
            (code, &walk["stopped_at"]),
            (1, &json!("submit")),
            "{walk:#}"
        );
        let error = walk["triggers"][0]["error"].as_str().unwrap();
        for word in ["error converting YAML to JSON: yaml: ", "eventlab says"] {
            assert!(error.contains(word), "{word}: {error}");
        }
        for internal in ["Policy", "Options", "error: line", "\n"] {
            assert!(!error.contains(internal), "{internal}: {error}");
        }
    }
}

/// A payload or header whose dependency has no event ends the pod, unless a default stands in.
#[test]
fn a_value_that_is_not_there_ends_the_pod() {
    let of = |dependency: &str, dest: &str, default: Option<&str>| {
        let mut source = json!({"dependencyName": dependency, "dataKey": "body.orderId"});
        if let Some(default) = default {
            source["value"] = default.into();
        }
        json!({"src": source, "dest": dest})
    };
    let kinds = [
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
    let explained = |template: &Value| {
        let mut template = template.clone();
        template["conditions"] = "order || other".into();
        let mut sensor = with_trigger(&json!({ "template": template }));
        let other = json!({"name": "other", "eventSourceName": "web", "eventName": "others"});
        let dependencies = sensor["spec"]["dependencies"].as_array_mut().unwrap();
        dependencies.push(other);
        walk(&sensor, &["--dependency", "order", "--body", FLAT])
    };
    let with = |template: &Value, list: &str, parameter: &Value| {
        let mut template = template.clone();
        let (_, given) = template.as_object_mut().unwrap().iter_mut().next().unwrap();
        given["payload"] = json!([of("order", "a", None)]);
        given[list] = json!([parameter]);
        template
    };
    let mut cases: Vec<(Value, &str)> =
        kinds.iter().map(|kind| (kind.clone(), "payload")).collect();
    cases.push((kinds[0].clone(), "dynamicHeaders"));
    for (template, list) in cases {
        let (code, walk) = explained(&with(&template, list, &of("other", "p", None)));
        assert_eq!(
            (code, &walk["stopped_at"]),
            (1, &json!("submit")),
            "{template}: {walk:#}"
        );
        let error = walk["triggers"][0]["error"].as_str().unwrap();
        assert!(error.contains("nil pointer dereference"), "{error}");
        assert!(
            changes(&walk).contains("dependency other"),
            "{}",
            walk["change"]
        );
        // The pod ends before anything is logged of it.
        assert!(
            !walk["logs"].to_string().contains("Failed to execute"),
            "{}",
            walk["logs"]
        );
        let harmless = [of("other", "p", Some("none")), of("order", "p", None)];
        for parameter in harmless {
            let (code, walk) = explained(&with(&template, list, &parameter));
            assert_eq!(code, 3, "{template}: {walk:#}");
        }
    }
    // Without a destination it is passed over, and so is what is written into an object.
    let (code, _) = explained(&with(&kinds[0], "payload", &of("other", "", None)));
    assert_eq!(code, 3);
    let (code, _) = explained(&with(&kinds[4], "parameters", &of("other", "p", None)));
    assert_eq!(code, 3);
}

/// The controller validates when it reads the Sensor, not when an event comes.
#[test]
fn the_time_of_the_event_is_not_that_of_the_validation() {
    // There the hour from 2 to 3 is missing, on a different day each: at most one of them is today.
    let codes = [
        ("Europe/Berlin", "2026-03-29T12:00:00Z"),
        ("America/New_York", "2026-03-08T20:00:00Z"),
    ]
    .map(|(zone, at)| {
        let time = json!({"time": {"start": "02:00:00", "stop": "03:00:00", "timezone": zone}});
        let sensor = sensor(&time).to_string();
        let (code, out, err) = explain_with(&["-f", "-", "--at", at, "--body", FLAT], &sensor);
        assert!(code != 2 || err.contains("refuses"), "{code}: {out}{err}");
        code
    });
    assert!(codes.iter().any(|code| *code != 2), "{codes:?}");
}

/// A number that this program cannot hold makes no other event of a CloudEvent.
#[test]
fn a_cloud_event_is_one_whatever_its_data_holds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("event.json");
    let context = json!({"context": {"type": "kafka"}, "data": [{"path": "body.x", "type": "number", "value": ["1"]}]});
    let mut sensor = sensor(&context);
    sensor["spec"]["triggers"] = json!([{"template": {"name": "run", "log": {}}}]);
    let event = |number: &str| {
        format!(
            r#"{{"specversion":"1.0","id":"1","source":"web","subject":"orders","type":"kafka","datacontenttype":"application/json","time":"2026-01-02T03:04:05Z","data":{{"body":{{"x":1,"c":{number}}}}}}}"#
        )
    };
    for number in ["1", "1e400", "-1e400", "123456789012345678901234567890"] {
        let (one, two) = (event(number), format!("[{0},{0}]", event(number)));
        for (text, walks) in [(one, 1), (two, 2)] {
            std::fs::write(&file, text).unwrap();
            let arguments = [
                "-f",
                "-",
                "--format",
                "json",
                "--event",
                file.to_str().unwrap(),
            ];
            let (code, out, err) = explain_with(&arguments, &sensor.to_string());
            assert_eq!(
                (code, out.lines().count()),
                (0, walks),
                "{number}: {out}{err}"
            );
            let walk = json_of(&out);
            assert!(
                !walk["data"].to_string().contains("specversion"),
                "{walk:#}"
            );
        }
    }
}

/// An object of a kind whose fields the API knows is refused for a value of another type.
#[test]
fn a_value_of_another_type_fails_at_the_api() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}, "data": {}});
    let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "x-", "annotations": {}}, "spec": {}});
    for (resource, dest) in [
        (&config, "data.n"),
        (&config, "metadata.annotations.n"),
        (&workflow, "metadata.annotations.n"),
        (&workflow, "metadata.name"),
    ] {
        for raw in [true, false] {
            let parameter = json!({"src": {"dependencyName": "order", "dataKey": "body.amount", "useRawData": raw}, "dest": dest});
            let template = json!({"name": "run", "k8s": {"operation": "create", "source": {"resource": resource}, "parameters": [parameter]}});
            let (code, walk) = walk(
                &with_trigger(&json!({ "template": template })),
                &["--body", FLAT],
            );
            let error = walk["triggers"][0]["error"].to_string();
            assert_eq!(code, i32::from(raw), "{dest}: {walk:#}");
            assert_eq!(error.contains("cannot be handled as a"), raw, "{error}");
            if raw {
                assert!(changes(&walk).contains("useRawData"), "{}", walk["change"]);
            }
        }
    }
}
