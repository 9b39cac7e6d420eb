//! Objects with parameters, labels and namespace; what cannot be built says why.

use serde_json::json;

use super::*;
use crate::sensor::Event;

fn events() -> Events {
    let data = br#"{"header":{"X-Eventlab-Trace":["t-1"]},"body":{"orderId":"o-1"}}"#.to_vec();
    let event = Event {
        id: "abc".into(),
        datacontenttype: "application/json".into(),
        data: Some(data),
        ..Event::default()
    };
    Events::from([("order".to_owned(), event)])
}

fn trigger(resource: &Value) -> Value {
    let parameter = |source: Value, dest: &str| json!({"src": source, "dest": dest});
    json!({"template": {"name": "run", "k8s": {"operation": "create", "source": {"resource": resource}, "parameters": [
        parameter(json!({"dependencyName": "order", "contextKey": "id"}), "metadata.labels.arrival"),
        parameter(json!({"dependencyName": "order", "dataKey": "header.X-Eventlab-Trace.0", "value": "none"}), "metadata.labels.trace"),
    ]}}})
}

fn acts(trigger: &Value) -> Result<Action, TriggerError> {
    let origin = Origin {
        sensor: "order-sensor",
        namespace: "eventlab",
        now: "2026-01-02T03:04:05.678Z".parse().unwrap(),
    };
    build(trigger, &events(), origin)
}

fn built(trigger: &Value) -> Submission {
    match acts(trigger) {
        Ok(Action::Object(submission)) => submission,
        other => panic!("{other:?}"),
    }
}

fn labels() -> Value {
    json!({"events.argoproj.io/sensor": "order-sensor", "events.argoproj.io/trigger": "run",
        "events.argoproj.io/action-timestamp": "1767323045678"})
}

#[test]
fn the_object_has_parameters_labels_and_namespace() {
    let resource = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "order-"}});
    let submission = built(&trigger(&resource));
    assert_eq!(
        (submission.operation, submission.namespace.as_str()),
        (Operation::Create, "eventlab")
    );
    let mut labels = labels();
    labels["arrival"] = "abc".into();
    labels["trace"] = "t-1".into();
    assert_eq!(
        submission.object["metadata"],
        json!({"generateName": "order-", "namespace": "eventlab", "labels": labels})
    );
}

#[test]
fn an_own_namespace_stays_and_cluster_kinds_have_none() {
    let own = json!({"kind": "Workflow", "metadata": {"namespace": "other"}});
    assert_eq!(built(&trigger(&own)).namespace, "other");
    assert_eq!(
        built(&trigger(&json!({"kind": "ClusterRole"}))).namespace,
        ""
    );
}

#[test]
fn only_what_is_created_carries_argos_labels() {
    for (operation, wanted) in [
        ("update", Operation::Update),
        ("patch", Operation::Patch),
        ("delete", Operation::Delete),
    ] {
        let mut trigger = trigger(&json!({"kind": "Workflow", "metadata": {"name": "w"}}));
        trigger["template"]["k8s"]["operation"] = operation.into();
        let submission = built(&trigger);
        assert_eq!(
            (submission.operation, submission.name()),
            (wanted, "w"),
            "{operation}"
        );
        assert_eq!(
            submission.object["metadata"]["labels"],
            json!({"arrival": "abc", "trace": "t-1"})
        );
        assert_eq!(submission.patch_type, "application/merge-patch+json");
    }
    let mut trigger = trigger(&json!({"kind": "Workflow", "metadata": {"name": "w"}}));
    trigger["template"]["k8s"]["operation"] = "patch".into();
    trigger["template"]["k8s"]["patchStrategy"] = "application/json-patch+json".into();
    assert_eq!(built(&trigger).patch_type, "application/json-patch+json");
}

#[test]
fn a_live_object_is_asked_for_by_name_and_namespace_and_takes_the_parameters() {
    let live = |metadata: Value| {
        let mut trigger = trigger(&json!({"kind": "Workflow", "metadata": metadata}));
        trigger["template"]["k8s"]["operation"] = "update".into();
        trigger["template"]["k8s"]["liveObject"] = true.into();
        prepare(&trigger, &events()).unwrap()
    };
    let error = |metadata: Value| live(metadata).live().unwrap_err().to_string();
    assert_eq!(
        error(json!({"namespace": "shop"})),
        "resource name must be specified for fetching live object"
    );
    assert_eq!(
        error(json!({"name": "w"})),
        "resource namespace must be specified for fetching live object"
    );
    let prepared = live(json!({"name": "w", "namespace": "shop"}));
    let address = prepared.live().unwrap().unwrap();
    assert_eq!((address.name(), address.namespace.as_str()), ("w", "shop"));
    let origin = Origin {
        sensor: "s",
        namespace: "eventlab",
        now: Timestamp::UNIX_EPOCH,
    };
    let found = json!({"kind": "Workflow", "metadata": {"name": "w", "namespace": "shop"}, "spec": {"suspend": true}});
    let Ok(Action::Object(made)) = prepared.action(Some(found), &events(), origin) else {
        panic!("no object");
    };
    assert_eq!(made.object["spec"], json!({"suspend": true}));
    assert_eq!(made.object["metadata"]["labels"]["arrival"], "abc");
}

#[test]
fn an_object_may_be_written_as_text() {
    let mut trigger = trigger(&json!({}));
    trigger["template"]["k8s"]["source"] = json!({"inline": "kind: Workflow\nmetadata:\n  generateName: order-\n", "resource": {"kind": "Pod"}});
    assert_eq!(built(&trigger).object["kind"], "Workflow");
    trigger["template"]["k8s"]["source"] = json!({"inline": "kind: ["});
    let error = acts(&trigger).unwrap_err().to_string();
    assert!(
        error.starts_with("error converting YAML to JSON: "),
        "{error}"
    );
    for internal in ["Policy", "Options", "error: line", "\n"] {
        assert!(!error.contains(internal), "{internal}: {error}");
    }
}

/// Of a key that stands twice the last one counts, of several documents the first; keys are resolved as values are.
#[test]
fn an_object_in_text_is_read_as_upstream_reads_it() {
    let inline = "kind: Foo\nmetadata: {generateName: x-}\nspec:\n  on: push\n  0x10: h\n  'no': kept\n  dup: 1\n  dup: 2\n  id: 1234567890123456789\n---\nkind: Bar\n";
    let mut trigger = trigger(&json!({}));
    trigger["template"]["k8s"]["source"] = json!({ "inline": inline });
    let object = built(&trigger).object;
    assert_eq!(object["kind"], "Foo");
    assert_eq!(
        object["spec"],
        json!({"true": "push", "16": "h", "no": "kept", "dup": 2, "id": 1_234_567_890_123_456_800_i64})
    );
}

/// What goes beyond this program's limits says nothing of what upstream does.
#[test]
fn a_text_that_is_too_much_here_is_no_failure_of_the_trigger() {
    let deep = format!("kind: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut trigger = trigger(&json!({}));
    trigger["template"]["k8s"]["source"] = json!({ "inline": deep });
    assert!(acts(&trigger).unwrap_err().is_own());
}

/// The numbers of a source are floats; what a parameter writes raw is not.
#[test]
fn a_source_loses_the_digits_that_a_float_does_not_hold() {
    let id = 1_234_567_890_123_456_789_i64;
    let spec = json!({"customerId": id, "list": [id], "small": 5, "ratio": 1.0});
    let resource = json!({"kind": "Order", "metadata": {"generateName": "x-"}, "spec": spec});
    let lost = json!({"customerId": 1_234_567_890_123_456_800_i64, "list": [1_234_567_890_123_456_800_i64], "small": 5, "ratio": 1});
    let mut trigger = trigger(&resource);
    assert_eq!(built(&trigger).object["spec"], lost);
    trigger["template"]["k8s"]["parameters"] = json!([]);
    assert_eq!(built(&trigger).object["spec"], lost);
    let data = format!(r#"{{"body":{{"n":{id}}}}}"#);
    let event = Event {
        datacontenttype: "application/json".into(),
        data: Some(data.into_bytes()),
        ..Event::default()
    };
    trigger["template"]["k8s"]["parameters"] = json!([{"src": {"dependencyName": "order", "dataKey": "body.n", "useRawData": true}, "dest": "spec.customerId"}]);
    let origin = Origin {
        sensor: "s",
        namespace: "eventlab",
        now: Timestamp::UNIX_EPOCH,
    };
    let events = Events::from([("order".to_owned(), event)]);
    let Ok(Action::Object(made)) = build(&trigger, &events, origin) else {
        panic!("no object");
    };
    assert_eq!(made.object["spec"]["customerId"], id);
}

#[test]
fn a_workflow_is_submitted_under_a_name() {
    let submit = |metadata: Value| {
        let resource =
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata});
        acts(
            &json!({"template": {"name": "run", "argoWorkflow": {"operation": "submit", "source": {"resource": resource}}}}),
        )
    };
    let Ok(Action::Workflow(submission)) = submit(json!({"generateName": "order-"})) else {
        panic!("no Workflow");
    };
    assert_eq!(submission.object["metadata"]["labels"], labels());
    assert_eq!(submission.namespace, "eventlab");
    assert_eq!(
        submit(json!({})).unwrap_err().logged(),
        "failed to execute trigger, failed to trigger the workflow, neither name nor generateName is given"
    );
}

#[test]
fn of_several_types_the_first_in_argos_order_counts() {
    let template =
        json!({"log": {}, "email": null, "http": {}, "k8s": {"source": {"resource": {}}}});
    assert_eq!(kind(&template), Some("k8s"));
    assert_eq!(kind(&json!({"log": {}, "email": {}})), Some("log"));
    assert_eq!(kind(&json!({"log": null})), None);
    assert_eq!(
        acts(&json!({"template": {"name": "a", "log": {"intervalSeconds": 5}}})),
        Ok(Action::Log)
    );
}

#[test]
fn what_is_outside_is_named_with_what_to_use() {
    for (template, said) in [
        (json!({"http": {"url": "http://a"}}), "trigger type http"),
        (json!({"kafka": {}}), "use k8s, argoWorkflow or log"),
        (
            json!({"k8s": {"source": {"git": {}}}}),
            "write the object under source.resource",
        ),
        (
            json!({"argoWorkflow": {"operation": "submit", "source": {"resource": {}}, "args": ["-p", "a=b"]}}),
            "in the Workflow's spec",
        ),
        (
            json!({"argoWorkflow": {"operation": "resubmit", "source": {"resource": {}}}}),
            "operation resubmit",
        ),
    ] {
        let outside = outside(&template).unwrap();
        assert!(outside.contains(said), "{outside}");
    }
    for template in [
        json!({"k8s": {"operation": "patch", "source": {"resource": {}}}}),
        json!({"log": {}}),
        json!({}),
        json!({"argoWorkflow": {"operation": "submit", "source": {"inline": ""}, "args": []}}),
    ] {
        assert_eq!(outside(&template), None);
    }
}

#[test]
fn what_cannot_be_built_says_why() {
    let text = |trigger: &Value| acts(trigger).unwrap_err().to_string();
    assert!(text(&trigger(&json!({"metadata": {}}))).starts_with("Object 'Kind' is missing in"));
    assert!(
        text(&json!({"template": {"name": "a", "http": {}}}))
            .starts_with("eventlab: trigger type http is not carried out here")
    );
    assert_eq!(text(&json!({})), "trigger template can't be nil");
}

#[test]
fn a_resource_is_guessed_from_its_kind() {
    for (kind, wanted) in [
        ("NetworkPolicy", "networkpolicies"),
        ("Ingress", "ingresses"),
        ("EventBus", "eventbus"),
        ("Gateway", "gateways"),
        ("Endpoints", "endpointses"),
        ("Batch", "batches"),
        ("Path", "paths"),
        ("Leaf", "leaves"),
        ("Knife", "knives"),
        ("X", "x"),
    ] {
        assert_eq!(plural(kind), wanted);
    }
}
