//! Each condition of the gate is seen failing, alone.

use base64::Engine as _;
use serde_json::json;

use super::pods::split_pods;
use super::*;
use crate::runner::expected::subscriptions;

const SUBJECT: &str = "default.orders.e";

fn encode(object: &Value) -> String {
    base64::engine::general_purpose::STANDARD.encode(object.to_string())
}

fn sensor(triggers: &[&str]) -> Value {
    let triggers: Vec<_> = triggers
        .iter()
        .map(|name| json!({"template": {"name": name}}))
        .collect();
    json!({
        "metadata": {"name": "orders"},
        "spec": {"dependencies": [{"name": "order-a1", "eventSourceName": "orders", "eventName": "e"}], "triggers": triggers},
        "status": {"conditions": [{"type": "DependenciesProvided", "status": "True"}, {"type": "TriggersProvided", "status": "True"}]}
    })
}

fn pod(name: &str, variable: &str, object: &Value, level: Option<&str>) -> Value {
    let mut env = vec![json!({"name": variable, "value": encode(object)})];
    env.extend(level.map(|level| json!({"name": "LOG_LEVEL", "value": level})));
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "main", "env": env}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {}}}]}
    })
}

fn consumer(one: &Subscription, waiting: u64) -> ConsumerInfo {
    ConsumerInfo {
        durable: one.durable.clone(),
        filter_subject: one.subject.clone(),
        created: Timestamp::UNIX_EPOCH,
        created_at_sequence: 0,
        delivered_stream: 0,
        ack_floor_stream: 0,
        num_ack_pending: 0,
        num_redelivered: 0,
        num_waiting: waiting,
        num_pending: 0,
    }
}

fn event_source() -> Value {
    json!({
        "metadata": {"name": "orders"},
        "spec": {"service": {"ports": [{"port": 12000, "targetPort": 12000}]}, "webhook": {"e": {"port": "12000", "endpoint": "/e"}}}
    })
}

fn open_input(mode: GateMode) -> Input {
    let (source, sensor) = (event_source(), sensor(&["t", "u"]));
    let wanted = subscriptions(&sensor);
    Input {
        mode,
        trouble: None,
        namespace: "eventlab".into(),
        event_bus: Some(
            json!({"status": {"conditions": [{"type": "Deployed", "status": "True"}, {"type": "Configured", "status": "True"}]}}),
        ),
        event_source_pods: vec![pod("es", "EVENTSOURCE_OBJECT", &source, None)],
        event_source: Some(source),
        intake: Ok(()),
        invalid_source: None,
        ledger: Ok(()),
        ledger_pods: Vec::new(),
        deployments: Vec::new(),
        sensor_pods: vec![pod("new", "SENSOR_OBJECT", &sensor, Some("debug"))],
        sensor: Some(sensor),
        logs: [(
            ("uid-new".to_owned(), 0),
            InstanceLog {
                subscribed: wanted.clone(),
                ..InstanceLog::default()
            },
        )]
        .into(),
        consumers: Ok(wanted.iter().map(|one| consumer(one, 1)).collect()),
        missing_bus: None,
        invalid: None,
        by_log_alone: None,
    }
}

fn failing(report: &GateReport) -> Vec<&str> {
    report
        .conditions
        .iter()
        .filter(|condition| !condition.holds)
        .map(|condition| condition.name.as_str())
        .collect()
}

fn assert_waits(change: impl FnOnce(&mut Input), names: &[&str], detail: &str) {
    let mut input = open_input(GateMode::Open);
    change(&mut input);
    let report = evaluate(&input);
    assert!(!report.open);
    assert_eq!(report.failed, None);
    assert_eq!(failing(&report), names);
    let found = report
        .conditions
        .iter()
        .find(|condition| condition.name == names[0])
        .unwrap();
    assert!(found.detail.contains(detail), "{}", found.detail);
}

fn assert_fails(mode: GateMode, change: impl FnOnce(&mut Input), reason: &str) {
    let mut input = open_input(mode);
    change(&mut input);
    let report = evaluate(&input);
    assert!(!report.open);
    assert_eq!(
        report.failed.map(|error| (error.reason, error.environment)),
        Some((reason.to_owned(), false))
    );
}

#[test]
fn it_opens_when_everything_holds() {
    for mode in [
        GateMode::Open,
        GateMode::OpenByLine,
        GateMode::Ready,
        GateMode::Intake,
        GateMode::None,
    ] {
        assert!(evaluate(&open_input(mode)).open, "{mode:?}");
    }
}

#[test]
fn deployed_waits_for_the_status_and_for_nothing_that_runs() {
    let mut input = open_input(GateMode::Deployed);
    input.sensor_pods.clear();
    input.consumers = Ok(Vec::new());
    input.logs.clear();
    assert_eq!(failing(&evaluate(&input)), ["sensor deployed"]);
    for (status, open) in [("False", false), ("Unknown", false), ("True", true)] {
        let conditions = json!([{"type": "Deployed", "status": status, "message": "m"}]);
        input.sensor.as_mut().unwrap()["status"] = json!({"conditions": conditions});
        assert_eq!(evaluate(&input).open, open, "{status}");
    }
    input.sensor = None;
    assert_eq!(
        failing(&evaluate(&input)),
        ["sensor", "sensor deployed"],
        "a Sensor that is not there"
    );
}

#[test]
fn standing_by_behind_an_old_pod() {
    let change = |input: &mut Input| {
        let old = sensor(&["t"]);
        input
            .sensor_pods
            .push(pod("old", "SENSOR_OBJECT", &old, Some("debug")));
        input.logs.insert(
            ("uid-new".into(), 0),
            InstanceLog {
                stand_by: Some("Not the LEADER, stand by ...".into()),
                ..InstanceLog::default()
            },
        );
        input.consumers = Ok(Vec::new());
    };
    assert_waits(
        change,
        &["older pod", "subscribed", "consumers"],
        "stand by, old pod old alive",
    );
}

#[test]
fn a_terminating_pod_of_the_same_spec_is_an_old_pod() {
    let change = |input: &mut Input| {
        let mut old = input.sensor_pods[0].clone();
        old["metadata"] =
            json!({"name": "old", "uid": "uid-old", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        input.sensor_pods.push(old);
    };
    assert_waits(change, &["older pod"], "old pod old alive");
}

#[test]
fn running_an_older_spec() {
    let change = |input: &mut Input| {
        let mut old = sensor(&["t"]);
        old["spec"]["dependencies"][0]["filters"] = json!({"data": [{"path": "body.event.kind"}]});
        input.sensor_pods = vec![pod("old", "SENSOR_OBJECT", &old, Some("debug"))];
    };
    assert_waits(
        change,
        &["sensor spec", "older pod", "subscribed"],
        "body.event.kind",
    );
}

#[test]
fn one_of_two_triggers_not_subscribed() {
    let change = |input: &mut Input| {
        input
            .logs
            .values_mut()
            .for_each(|log| log.subscribed.truncate(1));
    };
    assert_waits(change, &["subscribed"], "1 of 2 lines");
}

#[test]
fn lines_of_another_instance_do_not_count() {
    let change = |input: &mut Input| {
        input.sensor_pods[0]["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    };
    assert_waits(change, &["subscribed"], "0 of 2 lines");
}

#[test]
fn a_consumer_that_nobody_pulls_from() {
    let change = |input: &mut Input| {
        input.consumers.as_mut().unwrap()[0].num_waiting = 0;
    };
    assert_waits(change, &["consumers"], "nobody pulls");
}

#[test]
fn could_not_look_at_the_bus() {
    assert_waits(
        |input| input.consumers = Err("closed".into()),
        &["consumers"],
        "could not look: closed",
    );
}

#[test]
fn the_event_source_does_not_answer() {
    assert_waits(
        |input| input.intake = Err("no ready endpoint".into()),
        &["intake"],
        "no ready endpoint",
    );
    assert_waits(
        |input| input.event_source_pods.clear(),
        &["event source"],
        "no pod yet",
    );
}

#[test]
fn the_event_source_runs_an_older_spec() {
    assert_waits(
        |input| input.event_source = Some(json!({"spec": {"webhook": {"more": 1}}})),
        &["event source"],
        "older spec",
    );
}

#[test]
fn the_ledger_cannot_be_read() {
    assert_waits(
        |input| input.ledger = Err("unreachable".into()),
        &["ledger"],
        "unreachable",
    );
}

#[test]
fn the_event_bus_is_not_configured() {
    assert_waits(
        |input| {
            input.event_bus =
                Some(json!({"status": {"conditions": [{"type": "Deployed", "status": "True"}]}}))
        },
        &["event bus"],
        "not Configured",
    );
}

#[test]
fn subscribing_fails() {
    assert_fails(
        GateMode::Open,
        |input| {
            input
                .logs
                .values_mut()
                .for_each(|log| log.failure = Some("consumer refused".into()))
        },
        "not-subscribed",
    );
}

/// The bus that does not answer is not the Sensor's doing: the gate fails at once, and blames nobody.
#[test]
fn a_bus_that_cannot_be_subscribed_to_is_the_environments() {
    for (failure, blamed) in [
        ("consumer refused", true),
        (
            "failed to subscribe to subject a using group b: nats: connection closed",
            false,
        ),
        ("nats: timeout", false),
        ("nats: no servers available for connection", false),
        ("bus storage failed: database or disk is full", false),
        ("insufficient storage resources available", false),
    ] {
        let mut input = open_input(GateMode::Open);
        input
            .logs
            .values_mut()
            .for_each(|log| log.failure = Some(failure.into()));
        let failed = evaluate(&input).failed.unwrap();
        assert_eq!(failed.reason, "not-subscribed");
        assert_eq!(!failed.environment, blamed, "{failure}");
    }
}

#[test]
fn requests_are_taken_in_whatever_becomes_of_the_sensor() {
    let taken = |change: &dyn Fn(&mut Input)| {
        let mut input = open_input(GateMode::Open);
        change(&mut input);
        takes_requests(&evaluate(&input))
    };
    assert!(taken(&|_| {}));
    assert!(taken(&|input| input.sensor = None));
    assert!(taken(&|input| input.sensor_pods.clear()));
    assert!(taken(&|input| input.consumers = Err("gone".into())));
    assert!(!taken(&|input| input.event_bus = None));
    assert!(!taken(&|input| input.event_source = None));
    assert!(!taken(&|input| input.event_source_pods.clear()));
    assert!(!taken(
        &|input| input.intake = Err("no ready endpoint".into())
    ));
    assert!(!taken(&|input| input.ledger = Err("starts".into())));
    assert!(!takes_requests(&could_not_look("no answer")));
}

#[test]
fn an_invalid_sensor_fails_fast_once_its_controller_has_said_so() {
    let invalid = |input: &mut Input, condition: &str| {
        input.invalid = Some(Objection {
            text: "bad operator".into(),
            silent: false,
        });
        if let Some(sensor) = &mut input.sensor {
            sensor["status"]["conditions"][0]["status"] = json!(condition);
        }
    };
    assert_fails(
        GateMode::Open,
        |input| invalid(input, "False"),
        "invalid-sensor",
    );
    assert_waits(
        |input| invalid(input, "True"),
        &["sensor"],
        "has not said so yet",
    );
    assert_waits(
        |input| {
            invalid(input, "False");
            input.invalid = None;
        },
        &["sensor"],
        "has not looked",
    );
}

#[test]
fn a_sensor_that_cannot_be_decoded_fails_although_nobody_says_so() {
    assert_fails(
        GateMode::Open,
        |input| {
            input.invalid = Some(Objection {
                text: "spec.dependencies: a list is wanted".into(),
                silent: true,
            })
        },
        "invalid-sensor",
    );
}

#[test]
fn what_this_program_refuses_fails_once_it_is_said_of_the_present_spec() {
    let refuse = |input: &mut Input, observed: u64| {
        if let Some(sensor) = &mut input.sensor {
            sensor["metadata"]["generation"] = json!(2);
            sensor["status"]["observedGeneration"] = json!(observed);
            sensor["status"]["conditions"][0] = json!({"type": "DependenciesProvided", "status": "False", "message": "eventlab: exprs is not supported yet"});
        }
    };
    assert_fails(GateMode::Open, |input| refuse(input, 2), "invalid-sensor");
    assert_waits(|input| refuse(input, 1), &["sensor"], "has not looked");
}

#[test]
fn without_debug_consumer_state_decides_and_says_so() {
    let quiet = |input: &mut Input, level: Option<&str>| {
        let sensor = input.sensor.clone().unwrap();
        input.sensor_pods = vec![pod("new", "SENSOR_OBJECT", &sensor, level)];
        input.logs.clear();
    };
    for level in [None, Some("DEBUG"), Some("info"), Some("Debug"), Some("")] {
        let mut input = open_input(GateMode::Open);
        quiet(&mut input, level);
        let report = evaluate(&input);
        assert!(report.open, "{level:?}");
        assert!(
            report
                .conditions
                .iter()
                .any(|condition| condition.detail.contains("decided by consumer state"))
        );
        assert_fails(
            GateMode::OpenByLine,
            |input| quiet(input, level),
            "no-subscribed-line",
        );
    }
}

#[test]
fn a_sensor_without_triggers_never_opens() {
    let mut input = open_input(GateMode::Open);
    input.sensor = Some(sensor(&[]));
    assert!(!evaluate(&input).open);
}

#[test]
fn since_is_kept_while_a_condition_stays_as_it_is() {
    let input = open_input(GateMode::Open);
    let (early, late) = (
        Timestamp::UNIX_EPOCH,
        Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(5),
    );
    let mut first = evaluate(&input);
    carry_since(&mut first, &GateReport::default(), early);
    let mut second = evaluate(&Input {
        intake: Err("x".into()),
        ..input
    });
    carry_since(&mut second, &first, late);
    for condition in &second.conditions {
        assert_eq!(
            condition.since,
            Some(if condition.name == "intake" {
                late
            } else {
                early
            }),
            "{}",
            condition.name
        );
    }
    assert!(
        second
            .conditions
            .iter()
            .any(|condition| condition.name == "consumers")
            && SUBJECT.starts_with("default")
    );
}

#[test]
fn without_the_bus_the_lines_decide_and_it_says_so() {
    let mut input = open_input(GateMode::Open);
    input.consumers = Err("no".into());
    input.by_log_alone = Some("you may not read Secret x".into());
    let report = evaluate(&input);
    assert!(report.open);
    let told = report
        .conditions
        .iter()
        .find(|one| one.name == "consumers")
        .unwrap();
    assert!(told.detail.contains("by log alone"), "{}", told.detail);
    // Without the lines nothing is left to decide by.
    input.logs.clear();
    assert!(!evaluate(&input).open);
    let sensor = input.sensor.clone().unwrap();
    input.sensor_pods = vec![pod("new", "SENSOR_OBJECT", &sensor, Some("info"))];
    assert!(!evaluate(&input).open);
}

#[test]
fn a_log_of_an_unknown_release_is_told_with_those_that_are_known() {
    let mut input = open_input(GateMode::Open);
    for log in input.logs.values_mut() {
        *log = InstanceLog {
            lines: 40,
            ..InstanceLog::default()
        };
    }
    let failed = evaluate(&input).failed.unwrap();
    assert!(failed.environment);
    assert!(
        failed.text.contains("1.6, 1.7, 1.8, 1.9"),
        "{}",
        failed.text
    );
    // A log that has only begun is waited for.
    input.logs.values_mut().for_each(|log| log.lines = 2);
    assert_eq!(evaluate(&input).failed, None);
}

/// A real controller decodes the object and writes it again: unknown fields are gone, and Go's zeros stand there.
#[test]
fn a_spec_that_went_through_the_controller_is_the_present_one() {
    let mut live = sensor(&["t"]);
    live["spec"]["dependencies"][0]["filtres"] = json!({"data": []});
    live["spec"]["template"] = json!({"container": {"env": [{"name": "A", "value": "b"}]}});
    let mut written = sensor(&["t"]);
    written["metadata"]["creationTimestamp"] = Value::Null;
    written["spec"]["template"] =
        json!({"container": {"name": "", "resources": {}, "env": [{"name": "A", "value": "b"}]}});
    written["spec"]["triggers"][0]["atLeastOnce"] = json!(false);
    let pods = [pod("p", "SENSOR_OBJECT", &written, None)];
    assert_eq!(split_pods(&pods, &live, "SENSOR_OBJECT").0.len(), 1);
    // What the controller knows makes another spec.
    live["spec"]["dependencies"][0]["filtersLogicalOperator"] = json!("or");
    assert_eq!(split_pods(&pods, &live, "SENSOR_OBJECT").0.len(), 0);
    let mut other = sensor(&["t"]);
    other["spec"]["dependencies"][0]["filters"] = json!({"data": [{"path": "a", "value": [""]}]});
    assert_eq!(split_pods(&pods, &other, "SENSOR_OBJECT").0.len(), 0);
}

/// What Go tells from a field that is not there makes another spec, although it is a zero.
#[test]
fn a_zero_that_go_writes_makes_another_spec() {
    let with = |pointer: &str, added: Option<(&str, Value)>| {
        let mut sensor = sensor(&["t"]);
        sensor["spec"]["template"] =
            json!({"container": {"securityContext": {}}, "metadata": {"labels": {}}});
        sensor["spec"]["triggers"][0] = json!({
            "template": {"name": "t", "k8s": {
                "source": {"resource": {"spec": {}}}, "parameters": [{"src": {"dependencyName": "d"}, "dest": "a"}]}},
            "retryStrategy": {"steps": 1},
            "parameters": [{"src": {"dependencyName": "d"}, "dest": "a"}],
        });
        let object = sensor.pointer_mut(pointer).unwrap();
        if let Some((field, value)) = added {
            object[field] = value;
        }
        sensor
    };
    let resource = "/spec/triggers/0/template/k8s/source/resource/spec";
    for (pointer, field, zero) in [
        (
            "/spec/triggers/0/template/k8s/parameters/0/src",
            "value",
            json!(""),
        ),
        ("/spec/triggers/0/parameters/0/src", "value", json!("")),
        ("/spec/triggers/0/retryStrategy", "factor", json!(0)),
        (
            "/spec/template/container/securityContext",
            "runAsNonRoot",
            json!(false),
        ),
        ("/spec/template/metadata/labels", "a", json!("")),
        (resource, "suspend", json!(false)),
        (resource, "arguments", json!({})),
        (resource, "value", json!("")),
    ] {
        let now = with(pointer, Some((field, zero)));
        let before = with(pointer, None);
        for (live, running) in [(&now, &before), (&before, &now)] {
            let pods = [pod("p", "SENSOR_OBJECT", running, None)];
            let present = split_pods(&pods, live, "SENSOR_OBJECT").0.len();
            assert_eq!(present, 0, "{pointer} {field}");
        }
        let pods = [pod("p", "SENSOR_OBJECT", &now, None)];
        assert_eq!(split_pods(&pods, &now, "SENSOR_OBJECT").0.len(), 1);
    }
}

/// A container that does not run: `state` and `last` are those of its status.
fn hindered(pod: &mut Value, restarts: u64, state: Value, last: Value) {
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    pod["status"]["containerStatuses"] = json!([
        {"name": "main", "restartCount": restarts, "state": state, "lastState": last}
    ]);
}

fn crashing(input: &mut Input, restarts: u64) {
    hindered(
        &mut input.sensor_pods[0],
        restarts,
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}),
        json!({"terminated": {"exitCode": 1, "message": "no such file"}}),
    );
}

/// What is known is said at once; what a few restarts may mend is waited for, what they do not is not.
#[test]
fn a_container_that_ends_at_every_start_is_not_waited_for() {
    let said = "pod new is not Ready: it ended with exit code 1, restarted 2 times: no such file";
    assert_waits(
        |input| crashing(input, 2),
        &["sensor spec", "subscribed"],
        said,
    );
    let mut input = open_input(GateMode::Open);
    crashing(&mut input, 3);
    let failed = evaluate(&input).failed.unwrap();
    assert_eq!(
        (failed.reason.as_str(), failed.environment),
        ("crash-loop", true)
    );
    assert!(failed.text.contains("no such file"), "{}", failed.text);
    let of_pod = evaluate(&input);
    let spec = of_pod
        .conditions
        .iter()
        .find(|one| one.name == "sensor spec");
    assert!(spec.unwrap().command.ends_with("logs new --previous"));
    // Services of Argo start over until the bus answers.
    input.consumers = Err("closed".into());
    assert_eq!(evaluate(&input).failed, None);
    // A pod that goes away, or of an older spec, is nobody's hindrance.
    let mut input = open_input(GateMode::Open);
    let mut old = pod("old", "SENSOR_OBJECT", &sensor(&["t"]), Some("debug"));
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    hindered(&mut old, 9, waiting, json!({"terminated": {"exitCode": 1}}));
    input.sensor_pods.push(old);
    assert_eq!(evaluate(&input).failed, None);
}

#[test]
fn an_image_that_is_not_there_is_said_at_once_and_ends_the_wait_if_it_stays() {
    for role in ["sensor", "event source", "ledger"] {
        let mut input = open_input(GateMode::Open);
        let state =
            json!({"waiting": {"reason": "ErrImagePull", "message": "image x does not exist"}});
        let pod = match role {
            "sensor" => &mut input.sensor_pods[0],
            "event source" => &mut input.event_source_pods[0],
            _ => {
                input.ledger = Err("unreachable".into());
                input.ledger_pods = vec![json!({"metadata": {"name": "order-ledger-1"}})];
                &mut input.ledger_pods[0]
            }
        };
        hindered(pod, 0, state, json!({}));
        let report = evaluate(&input);
        assert_eq!(report.failed, None, "{role}");
        let shut = report.conditions.iter().find(|one| !one.holds).unwrap();
        assert!(
            shut.detail.contains("ErrImagePull: image x does not exist"),
            "{role}: {}",
            shut.detail
        );
        let stuck = stuck(&input).unwrap();
        assert_eq!(
            (stuck.reason.as_str(), stuck.environment),
            ("no-start", true)
        );
        assert!(stuck.text.contains("image x"), "{}", stuck.text);
    }
    assert_eq!(stuck(&open_input(GateMode::Open)), None);
}

#[test]
fn a_pod_that_may_not_be_made_is_told_with_the_reason() {
    for (label, name, old) in [
        ("sensor-name", "sensor spec", false),
        ("sensor-name", "sensor spec", true),
        ("eventsource-name", "event source", false),
    ] {
        let mut input = open_input(GateMode::Open);
        input.deployments = vec![json!({
            "metadata": {"labels": {label: "orders"}},
            "status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "serviceaccount \"x\" not found"}]}
        })];
        match (label, old) {
            ("sensor-name", true) => {
                input.sensor_pods = vec![pod("old", "SENSOR_OBJECT", &sensor(&["t"]), None)];
            }
            ("sensor-name", false) => input.sensor_pods.clear(),
            _ => input.event_source_pods.clear(),
        }
        let report = evaluate(&input);
        let shut = report
            .conditions
            .iter()
            .find(|one| one.name == name)
            .unwrap();
        assert!(
            shut.detail.contains("no pod is made: serviceaccount"),
            "{}",
            shut.detail
        );
        let stuck = stuck(&input).unwrap();
        assert_eq!((stuck.reason.as_str(), stuck.environment), ("no-pod", true));
    }
}

/// What the controller does not know it does not write into the pod, which then runs the present spec all the same.
#[test]
fn a_field_of_an_event_source_that_argo_ignores_is_no_edit_that_is_not_live() {
    let places = [
        "/spec",
        "/spec/service",
        "/spec/template",
        "/spec/template/container",
        "/spec/webhook/e",
        "/spec/webhook/e/filter",
    ];
    let written = || {
        let mut source = event_source();
        source["spec"]["template"] = json!({"container": {"env": []}});
        source["spec"]["webhook"]["e"]["filter"] = json!({"expression": "true"});
        source
    };
    let mut decoded = written();
    decoded["spec"]["webhook"]["e"]["url"] = json!("");
    decoded["spec"]["webhook"]["e"]["method"] = json!("");
    for place in places {
        let mut source = written();
        source.pointer_mut(place).unwrap()["filters"] = json!({"expression": "false"});
        let mut input = open_input(GateMode::Open);
        input.event_source_pods = vec![pod("es", "EVENTSOURCE_OBJECT", &decoded, None)];
        input.event_source = Some(source);
        assert_eq!(failing(&evaluate(&input)), Vec::<&str>::new(), "{place}");
    }
    for (place, field, value) in [
        ("/spec", "eventBusName", json!("other")),
        ("/spec", "calendar", json!({"tick": {"interval": "1s"}})),
        ("/spec/service", "clusterIP", json!("None")),
        ("/spec/template", "serviceAccountName", json!("other")),
        ("/spec/template/container", "env", json!([{"name": "A"}])),
        ("/spec/webhook", "f", json!({"port": "12000"})),
        ("/spec/webhook/e", "endpoint", json!("/other")),
        ("/spec/webhook/e/filter", "expression", json!("false")),
    ] {
        let mut source = written();
        source.pointer_mut(place).unwrap()[field] = value;
        let mut input = open_input(GateMode::Open);
        input.event_source_pods = vec![pod("es", "EVENTSOURCE_OBJECT", &decoded, None)];
        input.event_source = Some(source);
        assert_eq!(
            failing(&evaluate(&input)),
            ["event source"],
            "{place}/{field}"
        );
    }
}

#[test]
fn an_invalid_event_source_fails_fast_once_its_controller_has_said_so() {
    let refuse = |input: &mut Input| {
        if let Some(source) = &mut input.event_source {
            source["status"] = json!({"conditions": [{"type": "SourcesProvided", "status": "False", "message": "Invalid spec: orders - e"}]});
        }
    };
    assert_fails(
        GateMode::Intake,
        |input| {
            refuse(input);
            input.invalid_source = Some("Invalid spec: orders - e".into());
        },
        "invalid-event-source",
    );
    // Said of the spec before it, or of something that is not checked here: waited for, and told in the end.
    assert_waits(
        refuse,
        &["event source"],
        "has not looked at the present spec yet, or knows better: SourcesProvided is False: Invalid spec",
    );
    let mut input = open_input(GateMode::Open);
    refuse(&mut input);
    assert!(stuck(&input).unwrap().environment);
}

#[test]
fn a_service_that_nobody_asks_for_does_not_come() {
    for ports in [json!([]), json!([{"port": 80, "targetPort": 12000}])] {
        let mut source = event_source();
        source["spec"]["service"]["ports"] = ports;
        assert_fails(
            GateMode::Intake,
            |input| {
                input.event_source_pods = vec![pod("es", "EVENTSOURCE_OBJECT", &source, None)];
                input.event_source = Some(source.clone());
                input.intake = Err("there is no Service".into());
            },
            "no-service",
        );
    }
}

#[test]
fn a_full_disk_is_no_matter_of_waiting() {
    let mut input = open_input(GateMode::Open);
    input.trouble = Some("no space is left".into());
    let report = evaluate(&input);
    assert!(!report.open && report.failed.is_some_and(|error| error.environment));
    assert_eq!(failing(&evaluate(&input)), ["disk"]);
}
