//! Each way that a recorded probe can go again.

use super::*;
use crate::lab::Catalog;

fn recorded(name: &str, body: &str, judged: Judged) -> Recorded {
    let catalog = Catalog::bundled().unwrap();
    let lab = catalog.lab("filter-path").unwrap();
    let probe = lab.stages.iter().find_map(|stage| stage.probes.first());
    Recorded {
        stage: "send".to_owned(),
        probe: Probe {
            name: name.to_owned(),
            title: name.to_owned(),
            headers: Default::default(),
            body: body.to_owned(),
            ..probe.unwrap().clone()
        },
        trace: "filter-path-a1-x-00000000".to_owned(),
        attempt: 1,
        judged,
        text: String::new(),
    }
}

const NESTED: &str = r#"{"event":{"kind":"order.created","orderId":"o","amount":1}}"#;
const FLAT: &str = r#"{"kind":"order.created","orderId":"o","amount":1}"#;
const CANCELLED: &str = r#"{"event":{"kind":"order.cancelled","orderId":"o","amount":1}}"#;

fn replayed(sensor: &str, probes: &[Recorded]) -> Vec<Replayed> {
    let catalog = Catalog::bundled().unwrap();
    let sources = catalog.manifest("base/eventsource.yaml").unwrap();
    replay(
        &Manifest::read("s", sensor).unwrap(),
        &Manifest::read("e", sources).unwrap(),
        "filter-path",
        probes,
        Timestamp::UNIX_EPOCH,
    )
    .unwrap()
}

fn lines(file: &str) -> Vec<String> {
    let catalog = Catalog::bundled().unwrap();
    let probes = [
        recorded("nested", NESTED, Judged::Passed),
        recorded("flat", FLAT, Judged::Rejected(Reason::MissingPath)),
        recorded("cancelled", CANCELLED, Judged::Rejected(Reason::Mismatch)),
    ];
    replayed(catalog.manifest(file).unwrap(), &probes)
        .iter()
        .map(Replayed::line)
        .collect()
}

/// What has no answer here is no pass: neither a filter of the EventSource nor a trigger's source.
#[test]
fn what_is_not_judged_is_not_shown_as_a_pass() {
    let catalog = Catalog::bundled().unwrap();
    let read = |file: &str| Manifest::read(file, catalog.manifest(file).unwrap()).unwrap();
    let (sensor, sources) = (
        read("filter-path/sensor.yaml"),
        read("base/eventsource.yaml"),
    );
    let probes = [recorded("nested", NESTED, Judged::Passed)];
    let judged = |sensor: &[Manifest], sources: &[Manifest]| {
        replay(
            sensor,
            sources,
            "filter-path",
            &probes,
            Timestamp::UNIX_EPOCH,
        )
    };
    assert!(judged(&sensor, &sources).is_ok());
    let mut unread = sensor.clone();
    unread[0].object["spec"]["triggers"][0]["template"]["k8s"]["source"] = serde_json::json!({"git": {"url": "https://git.example/x", "filePath": "w.yaml", "cloneDirectory": "/git"}});
    let mut unknown = sources.clone();
    for source in &mut unknown {
        if source.object["kind"] == "EventSource" {
            source.object["spec"]["webhook"]["filter-path"]["filter"] =
                serde_json::json!({"expression": "let a = 1; a == 1"});
        }
    }
    for (sensor, sources) in [(&unread, &sources), (&sensor, &unknown)] {
        let said =
            judged(sensor, sources).map(|all| all.iter().map(Replayed::line).collect::<Vec<_>>());
        assert!(
            matches!(&said, Err(why) if why.contains("not judged here")),
            "{said:?}"
        );
    }
}

/// Each outcome of before against each of now: alike is the same, anything else flips.
#[test]
fn every_change_of_what_is_decided_flips() {
    let catalog = Catalog::bundled().unwrap();
    let sensor = catalog.manifest("filter-path/sensor.yaml").unwrap();
    let unbuilt = sensor.replace("dataKey: body.event.orderId", "dataKey: body.nowhere");
    assert_ne!(sensor, unbuilt);
    let befores = [
        Judged::Passed,
        Judged::NotBuilt,
        Judged::Rejected(Reason::MissingPath),
        Judged::Rejected(Reason::Mismatch),
        Judged::Rejected(Reason::BadPattern),
        Judged::Rejected(Reason::FilterError),
    ];
    for (sensor, body, now) in [
        (sensor, NESTED, Judged::Passed),
        (sensor, FLAT, Judged::Rejected(Reason::MissingPath)),
        (sensor, CANCELLED, Judged::Rejected(Reason::Mismatch)),
        (&unbuilt, NESTED, Judged::NotBuilt),
    ] {
        for before in befores {
            let one = &replayed(sensor, &[recorded("probe", body, before)])[0];
            assert_eq!(one.now.judged(), Some(now), "{one:?}");
            assert_eq!(one.flips(), before != now, "{one:?}");
            let line = one.line();
            let word = if before == now { "  same " } else { " FLIPS " };
            assert!(line.contains(word), "{line}");
            let mark = match (before == now, now, before) {
                (true, ..) => ' ',
                (_, Judged::Passed, _) => '+',
                (_, _, Judged::Passed) => '-',
                _ => '~',
            };
            assert!(line.starts_with(mark), "{line}");
        }
    }
}

/// Every place where a way can end before its object is made: none is a pass.
#[test]
fn what_stops_anywhere_is_not_shown_as_a_pass() {
    let catalog = Catalog::bundled().unwrap();
    let read = |file: &str| Manifest::read(file, catalog.manifest(file).unwrap()).unwrap();
    let (sensor, sources) = (
        read("filter-path/sensor.yaml"),
        read("base/eventsource.yaml"),
    );
    let mut dropping = sources.clone();
    for source in &mut dropping {
        if source.object["kind"] == "EventSource" {
            source.object["spec"]["webhook"]["filter-path"]["filter"] =
                serde_json::json!({"expression": "1 == 2"});
        }
    }
    let mut transforms = sensor.clone();
    transforms[0].object["spec"]["dependencies"][0]["transform"] =
        serde_json::json!({"script": "error('no')"});
    let mut waits = sensor.clone();
    let other =
        serde_json::json!({"name": "other", "eventSourceName": "orders", "eventName": "other"});
    if let Some(all) = waits[0].object["spec"]["dependencies"].as_array_mut() {
        all.push(other);
    }
    waits[0].object["spec"]["triggers"][0]["template"]["conditions"] =
        serde_json::json!("order && other");
    let probes = [recorded("nested", NESTED, Judged::Passed)];
    for (sensor, sources, judged) in [
        (&sensor, &sources, Some(Judged::Passed)),
        (&sensor, &dropping, None),
        (
            &transforms,
            &sources,
            Some(Judged::Rejected(Reason::FilterError)),
        ),
        (&waits, &sources, Some(Judged::Waits)),
    ] {
        let all = replay(
            sensor,
            sources,
            "filter-path",
            &probes,
            Timestamp::UNIX_EPOCH,
        );
        let one = &all.unwrap()[0];
        assert_eq!(one.now.judged(), judged, "{}", one.line());
        assert_eq!(
            one.flips(),
            judged != Some(Judged::Passed),
            "{}",
            one.line()
        );
    }
}

#[test]
fn only_what_fails_before_the_api_is_asked_can_be_replayed() {
    for (error, own) in [
        (
            "failed to execute trigger, workflows.argoproj.io is forbidden",
            false,
        ),
        (
            "failed to execute trigger, admission webhook denied it",
            false,
        ),
        (
            "failed to execute trigger, unknown operation type destroy",
            true,
        ),
        ("unable to resolve 'x' parameter value", true),
    ] {
        assert_eq!(is_of_the_object(error), own, "{error}");
    }
}

#[test]
fn the_untouched_filter_flips_nothing() {
    for line in lines("filter-path/sensor.yaml") {
        assert!(line.contains("same"), "{line}");
    }
}

#[test]
fn the_solution_flips_the_two_it_should() {
    let lines = lines("filter-path/solution.yaml");
    assert!(
        lines[0].starts_with("- FLIPS nested: passed, now rejected"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("+ FLIPS flat: rejected, now passes"),
        "{lines:?}"
    );
    assert!(
        lines[2].starts_with("~ FLIPS cancelled: rejected, now rejected"),
        "{lines:?}"
    );
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let none = replay(&[], &[], "filter-path", &[], Timestamp::UNIX_EPOCH);
    assert!(none.unwrap_err().contains("no Sensor"));
    let catalog = Catalog::bundled().unwrap();
    let text = catalog.manifest("filter-path/sensor.yaml").unwrap();
    let sensor = Manifest::read("s", text).unwrap();
    let other = replay(&sensor, &[], "another", &[], Timestamp::UNIX_EPOCH);
    assert!(other.unwrap_err().contains("listens to event another"));
    let broken = Manifest::read(
        "s",
        &text.replace("eventName: filter-path", "eventName: ''"),
    )
    .unwrap();
    assert!(replay(&broken, &[], "filter-path", &[], Timestamp::UNIX_EPOCH).is_err());
}
