//! `eventlab explain`: what the EventSource of an event says of it.

use serde_json::{Value, json};

use crate::explain::{FLAT, changes, explain, explain_with, json_of, sensor, walk};

#[test]
fn an_event_source_that_asks_for_a_token_refuses_a_request_without_one() {
    let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web"}, "spec": {"webhook": {
        "orders": {"endpoint": "/orders", "method": "POST", "port": "12000", "authSecret": {"name": "web-token", "key": "token"}}}}});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, format!("{}\n---\n{source}\n", sensor(&Value::Null))).unwrap();
    let event = folder.path().join("event.json");
    std::fs::write(&event, format!("{{\"body\": {FLAT}}}")).unwrap();
    let explained = |input: &[&str]| {
        let mut arguments = vec!["-f", file.to_str().unwrap(), "--format", "json"];
        arguments.extend(input);
        let (code, out, _) = explain(&arguments);
        (code, json_of(&out))
    };
    for header in [
        "X-Kind: order",
        "Authorization: Basic czpz",
        "Authorization: s3cret",
    ] {
        let (code, walk) = explained(&["--body", FLAT, "-H", header]);
        assert_eq!(
            (code, &walk["stopped_at"]),
            (1, &json!("intake")),
            "{header}"
        );
        assert_eq!(walk["intake"]["status"], 401);
        assert_eq!(walk["intake"]["response"], "Invalid Authorization Header");
        assert_eq!(walk["logs"][0]["msg"], "invalid auth header");
        assert!(
            changes(&walk).contains("Secret web-token, key token"),
            "{walk}"
        );
    }
    let (code, walk) = explained(&["--body", FLAT, "-H", "authorization: Bearer s3cret"]);
    assert_eq!((code, &walk["intake"]["status"]), (0, &json!(200)));
    assert!(walk["notes"].to_string().contains("not compared"), "{walk}");
    // No request is made of an event.
    let (code, walk) = explained(&["--event", event.to_str().unwrap()]);
    assert_eq!((code, &walk["notes"]), (0, &json!([])), "{walk}");
}

#[test]
fn an_event_source_of_another_type_is_named_with_what_to_do() {
    for kind in ["kafka", "github", "calendar", "generic"] {
        let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web"},
            "spec": {kind: {"orders": {}}}});
        let text = format!("{}\n---\n{source}\n", sensor(&Value::Null));
        let (code, _, err) = explain_with(&["-f", "-", "--body", FLAT], &text);
        assert_eq!(code, 3, "{err}");
        assert!(
            err.contains(kind) && err.contains("`--event FILE`"),
            "{err}"
        );
    }
}

/// Event data says no type: its EventSource does, where that is known.
#[test]
fn the_type_of_event_data_is_that_of_its_event_source() {
    let folder = tempfile::tempdir().unwrap();
    let event = folder.path().join("event.json");
    std::fs::write(
        &event,
        format!("{{\"body\": {FLAT}, \"header\": {{\"X-Order-Id\": [\"o-1\"]}}}}"),
    )
    .unwrap();
    let event = event.to_str().unwrap();
    for (kind, wanted, code) in [
        ("kafka", "kafka", 0),
        ("pubSub", "pubsub", 0),
        ("storageGrid", "storagegrid", 0),
        ("azureEventsHub", "azureEventsHub", 0),
        ("webhook", "webhook", 0),
        ("kafka", "webhook", 1),
    ] {
        let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web"},
            "spec": {"other": {"orders": {}}, kind: {"orders": {}}}});
        let sensor = sensor(&json!({"context": {"type": wanted}}));
        let text = format!("{sensor}\n---\n{source}\n");
        let (found, out, _) =
            explain_with(&["-f", "-", "--event", event, "--format", "json"], &text);
        assert_eq!(found, code, "{kind} {wanted}: {out}");
        assert_eq!(json_of(&out)["notes"], json!([]), "{out}");
    }
    // Without it, what is taken for granted is told.
    let (code, walk) = walk(
        &sensor(&json!({"context": {"type": "kafka"}})),
        &["--event", event],
    );
    assert_eq!(code, 1);
    assert!(walk["notes"].to_string().contains("says no type"), "{walk}");
}

/// An EventSource of another namespace is another one, and an event on another bus never arrives.
#[test]
fn the_event_source_is_that_of_the_sensors_namespace_and_bus() {
    let explained = |sensor: &Value, sources: &[(&str, &str, &str)]| {
        let mut text = sensor.to_string();
        for (namespace, bus, method) in sources {
            let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource",
                "metadata": {"name": "web", "namespace": namespace},
                "spec": {"eventBusName": bus, "webhook": {"orders": {"endpoint": "/orders", "method": method, "port": "12000"}}}});
            text += &format!("\n---\n{source}\n");
        }
        let (code, out, _) = explain_with(&["-f", "-", "--body", FLAT, "--format", "json"], &text);
        (code, json_of(&out))
    };
    let of_shop = sensor(&Value::Null);
    let mut of_bus = of_shop.clone();
    of_bus["spec"]["eventBusName"] = json!("orders");
    for (sensor, sources, stopped) in [
        (&of_shop, vec![("shop", "", "POST")], json!(null)),
        (
            &of_shop,
            vec![("test", "", "PUT"), ("shop", "default", "POST")],
            json!(null),
        ),
        (
            &of_shop,
            vec![("test", "", "POST"), ("shop", "", "PUT")],
            json!("intake"),
        ),
        (&of_shop, vec![("test", "", "PUT")], json!(null)),
        (&of_shop, vec![("", "", "PUT")], json!("intake")),
        (&of_shop, vec![("shop", "orders", "POST")], json!("bus")),
        (&of_bus, vec![("shop", "", "POST")], json!("bus")),
        (&of_bus, vec![("shop", "orders", "POST")], json!(null)),
        (&of_bus, vec![], json!(null)),
    ] {
        let (code, walk) = explained(sensor, &sources);
        assert_eq!(walk["stopped_at"], stopped, "{sources:?}: {walk}");
        assert_eq!(code, i32::from(stopped != json!(null)), "{sources:?}");
        if stopped == "bus" {
            assert!(changes(&walk).contains("`eventBusName`"), "{walk}");
        }
    }
}
