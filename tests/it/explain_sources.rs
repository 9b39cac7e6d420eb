//! `eventlab explain`: what the EventSource of an event says of it.

use serde_json::{Value, json};

use crate::explain::{FLAT, changes, explain, explain_with, json_of, sensor, walk};

#[test]
fn an_event_source_that_asks_for_a_token_refuses_a_request_without_one() {
    let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"webhook": {
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
    // Without its Secret nobody knows whether the token is the right one.
    let bearer = ["-H", "authorization: Bearer s3cret"];
    let (code, walk) = explained(&[&["--body", FLAT], &bearer[..]].concat());
    assert_eq!((code, &walk["intake"]["status"]), (3, &json!(200)));
    assert_eq!(
        (&walk["passed"], &walk["judged"]),
        (&json!(false), &json!(false))
    );
    assert!(walk["notes"].to_string().contains("not compared"), "{walk}");
    // What is rejected behind it is rejected, whatever the token is.
    let (code, walk) = explained(&[&["--body", "{}"], &bearer[..]].concat());
    assert_eq!((code, &walk["stopped_at"]), (1, &json!("submit")), "{walk}");
    // No request is made of an event.
    let (code, walk) = explained(&["--event", event.to_str().unwrap()]);
    assert_eq!((code, &walk["notes"]), (0, &json!([])), "{walk}");
}

/// With its Secret at hand the token is compared, and never shown.
#[test]
fn a_bearer_token_is_compared_with_the_secret_at_hand() {
    let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"webhook": {
        "orders": {"endpoint": "/orders", "method": "POST", "port": "12000", "authSecret": {"name": "web-token", "key": "token"}}}}});
    let secret = |namespace: &str, content: Value| {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-token", "namespace": namespace}});
        for (key, value) in content.as_object().unwrap() {
            secret[key] = value.clone();
        }
        secret
    };
    // "s3cret-value", with and without a line break at its end.
    let plain = json!({"data": {"token": "czNjcmV0LXZhbHVl"}});
    let broken = json!({"data": {"token": "czNjcmV0LXZhbHVlCg=="}});
    let both = json!({"data": {"token": "b3RoZXI="}, "stringData": {"token": "s3cret-value"}});
    for (secret, shown, code, status) in [
        (secret("shop", plain.clone()), "s3cret-value", 0, 200),
        (secret("shop", broken), "s3cret-value", 0, 200),
        (secret("shop", both), "s3cret-value", 0, 200),
        (secret("shop", plain.clone()), "s3cret-valu", 1, 401),
        (secret("shop", plain.clone()), "s3cret-value-", 1, 401),
        (secret("shop", plain.clone()), "", 1, 401),
        (
            secret("shop", json!({"data": {"other": "b3RoZXI="}})),
            "s3cret-value",
            1,
            500,
        ),
        (secret("shop", json!({})), "s3cret-value", 1, 500),
        (secret("test", plain.clone()), "s3cret-value", 3, 200),
        (secret("", plain), "s3cret-value", 3, 200),
    ] {
        let text = format!("{}\n---\n{source}\n---\n{secret}\n", sensor(&Value::Null));
        let header = format!("Authorization: Bearer {shown}");
        let arguments = ["-f", "-", "--body", FLAT, "-H", &header, "--format", "json"];
        let (found, out, err) = explain_with(&arguments, &text);
        let walk = json_of(&out);
        assert_eq!(
            (found, &walk["intake"]["status"]),
            (code, &json!(status)),
            "{secret}: {walk}"
        );
        let (_, told, more) = explain_with(&arguments[..6], &text);
        for said in [out, err, told, more] {
            assert!(!said.contains("s3cret") && !said.contains("czNj"), "{said}");
        }
    }
    let bad = secret("shop", json!({"data": {"token": "s3cret value"}}));
    let text = format!("{}\n---\n{source}\n---\n{bad}\n", sensor(&Value::Null));
    let (code, _, err) = explain_with(&["-f", "-", "--body", FLAT], &text);
    assert_eq!(code, 2);
    assert!(
        err.contains("is no base64") && !err.contains("s3cret"),
        "{err}"
    );
}

#[test]
fn an_event_source_of_another_type_is_named_with_what_to_do() {
    for kind in ["kafka", "github", "calendar", "generic"] {
        let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web", "namespace": "shop"},
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
        let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"other": {"orders": {}}, kind: {"orders": {}}}});
        let sensor = sensor(&json!({"context": {"type": wanted}}));
        let text = format!("{sensor}\n---\n{source}\n");
        let (found, out, _) =
            explain_with(&["-f", "-", "--event", event, "--format", "json"], &text);
        assert_eq!(found, code, "{kind} {wanted}: {out}");
        assert_eq!(json_of(&out)["notes"], json!([]), "{out}");
    }
    // Without it, nobody knows: neither a pass nor a rejection rests on a guess.
    for wanted in ["kafka", "webhook"] {
        let (code, walk) = walk(
            &sensor(&json!({"context": {"type": wanted}})),
            &["--event", event],
        );
        assert_eq!(
            (code, &walk["passed"], &walk["judged"]),
            (3, &json!(false), &json!(false)),
            "{walk}"
        );
        let why = &walk["dependencies"][0]["unjudged"];
        assert!(why.to_string().contains("says no type"), "{walk}");
    }
    // What does not depend on it is judged.
    let mut filters = json!({"context": {"type": "kafka"}});
    filters["data"] = json!([{"path": "body.kind", "type": "string", "value": ["^refund$"]}]);
    let (code, walked) = walk(&sensor(&filters), &["--event", event]);
    assert_eq!(
        (code, &walked["stopped_at"]),
        (1, &json!("filter")),
        "{walked}"
    );
    let (code, _) = walk(&sensor(&Value::Null), &["--event", event]);
    assert_eq!(code, 0);
    // A source that has no such event is told, as of a request.
    let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"kafka": {"other": {}}}});
    let text = format!("{}\n---\n{source}\n", sensor(&Value::Null));
    let (code, _, err) = explain_with(&["-f", "-", "--event", event], &text);
    assert!(
        code == 2 && err.contains("has no event orders"),
        "{code}: {err}"
    );
}

/// A parameter that shows the type of such an event shows one that was taken for granted.
#[test]
fn a_type_that_was_taken_for_granted_is_told_where_a_parameter_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let event = folder.path().join("event.json");
    std::fs::write(&event, format!("{{\"body\": {FLAT}}}")).unwrap();
    for (source, told) in [
        (json!({"contextKey": "type"}), true),
        (json!({"contextTemplate": "{{ .Input.type }}"}), true),
        (json!({}), true),
        (json!({"value": "a"}), false),
        (json!({"contextKey": "id"}), false),
        (
            json!({"contextKey": "type", "dataKey": "body.orderId"}),
            false,
        ),
    ] {
        let mut sensor = sensor(&Value::Null);
        let place = "/spec/triggers/0/template/k8s/parameters/0/src";
        let src = sensor.pointer_mut(place).unwrap();
        *src = source.clone();
        src["dependencyName"] = json!("order");
        let (_, walk) = walk(&sensor, &["--event", event.to_str().unwrap()]);
        let found = walk["notes"].to_string().contains("says no type");
        assert_eq!(found, told, "{source}: {walk}");
    }
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
    let mut of_default = of_shop.clone();
    of_default["metadata"] = json!({"name": "orders"});
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
        // Without a namespace it is in `default`.
        (&of_shop, vec![("", "", "PUT")], json!(null)),
        (&of_default, vec![("", "", "PUT")], json!("intake")),
        (&of_default, vec![("default", "", "PUT")], json!("intake")),
        (&of_default, vec![("shop", "", "PUT")], json!(null)),
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

/// Objects that name no namespace are in the one that is given, and what is not used is told.
#[test]
fn the_namespace_of_objects_that_name_none_is_given() {
    let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource", "metadata": {"name": "web"},
        "spec": {"webhook": {"orders": {"endpoint": "/orders", "method": "PUT", "port": "12000"}}}});
    let text = format!("{}\n---\n{source}\n", sensor(&Value::Null));
    let base = ["-f", "-", "--body", FLAT, "--format", "json"];
    let (code, out, _) = explain_with(&base, &text);
    let walk = json_of(&out);
    assert_eq!((code, &walk["intake"]["assumed"]), (0, &json!(true)));
    let notes = walk["notes"].to_string();
    assert!(
        notes.contains("EventSource/web of namespace default"),
        "{walk}"
    );
    let (code, out, _) = explain_with(&[&base[..], &["-n", "shop"]].concat(), &text);
    assert_eq!((code, &json_of(&out)["stopped_at"]), (1, &json!("intake")));
}

/// An event that was given is on the bus of its EventSource; where that is not known, it is told which bus is read.
#[test]
fn an_event_on_another_bus_never_reaches_the_sensor() {
    let folder = tempfile::tempdir().unwrap();
    let event = folder.path().join("event.json");
    std::fs::write(&event, format!("{{\"body\": {FLAT}}}")).unwrap();
    let mut of_bus = sensor(&Value::Null);
    of_bus["spec"]["eventBusName"] = json!("orders");
    for (bus, code, stopped, noted) in [
        (None, 0, json!(null), "reads the EventBus orders"),
        (Some("orders"), 0, json!(null), "on the EventBus orders"),
        (Some("default"), 1, json!("bus"), ""),
        (Some(""), 1, json!("bus"), ""),
    ] {
        let mut text = of_bus.to_string();
        if let Some(bus) = bus {
            let source = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "EventSource",
                "metadata": {"name": "web", "namespace": "shop"}, "spec": {"eventBusName": bus, "kafka": {"orders": {}}}});
            text += &format!("\n---\n{source}\n");
        }
        let arguments = [
            "-f",
            "-",
            "--event",
            event.to_str().unwrap(),
            "--format",
            "json",
        ];
        let (found, out, _) = explain_with(&arguments, &text);
        let walk = json_of(&out);
        assert_eq!(
            (found, &walk["stopped_at"]),
            (code, &stopped),
            "{bus:?}: {walk}"
        );
        assert!(walk["notes"].to_string().contains(noted), "{walk}");
        let (_, out, _) = explain_with(&arguments[..4], &text);
        assert_eq!(
            out.contains("the Sensor reads another one"),
            code == 1,
            "{out}"
        );
    }
}
