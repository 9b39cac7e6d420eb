//! Each way that a recorded probe can go again.

use serde_json::{Value, json};

use super::*;
use crate::evidence::Fate;
use crate::lab::{Catalog, Failure, Lab};

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
    let said = judged(&unread, &sources).unwrap();
    assert_eq!(said[0].change(), Change::Open);
    let line = said[0].line();
    assert!(
        line.starts_with("? open  nested: passed, now not known: "),
        "{line}"
    );
    let said = judged(&sensor, &unknown);
    assert!(
        matches!(&said, Err(why) if why.contains("not judged here")),
        "{said:?}"
    );
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
            assert_eq!(one.change() == Change::Flips, before != now, "{one:?}");
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
        (
            &sensor,
            &dropping,
            Some(Judged::Rejected(Reason::SourceFilter)),
        ),
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
            one.change() == Change::Flips,
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
    let catalog = Catalog::bundled().unwrap();
    let (sensor, sources) = (
        of(&catalog, "filter-path/sensor.yaml"),
        of(&catalog, "base/eventsource.yaml"),
    );
    let roles = of(&catalog, "rbac/submit.yaml");
    let unnamed = with(&sensor, "/spec/dependencies/0/eventName", json!(""));
    let portless = with(&sources, "/spec/webhook/filter-path/port", json!("x"));
    let unknown = with(&sources, "/apiVersion", json!("argoproj.io/v9"));
    let mut tls = sources.clone();
    tls[0].object["spec"]["webhook"]["filter-path"]["serverCertSecret"] = json!({"key": "k"});
    let live: Vec<Manifest> = [sources.clone(), sensor.clone()].concat();
    for (edited, live, said) in [
        (vec![], &live, "neither a Sensor nor an EventSource"),
        (roles, &live, "neither a Sensor nor an EventSource"),
        (sources.clone(), &sources, "no Sensor"),
        (sensor.clone(), &sensor, "no EventSource orders"),
        (unnamed, &live, "the controller refuses it"),
        (portless, &live, "the controller refuses it: Invalid spec"),
        (unknown, &live, "the API refuses it"),
    ] {
        let probes = [recorded("nested", NESTED, Judged::Passed)];
        let why = replay(&edited, live, "filter-path", &probes, Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
    // A request that this program's webhook could not take.
    let probes = [recorded("nested", NESTED, Judged::Passed)];
    let all = replay(&tls, &live, "filter-path", &probes, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(all[0].change(), Change::Open, "{}", all[0].line());
}

fn of(catalog: &Catalog, file: &str) -> Vec<Manifest> {
    Manifest::read(file, catalog.manifest(file).unwrap()).unwrap()
}

/// The first object of a file with another value in one place, which is there or is made.
fn with(manifests: &[Manifest], pointer: &str, value: Value) -> Vec<Manifest> {
    let mut manifests = manifests.to_vec();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = manifests[0].object.pointer_mut(parent).unwrap();
    parent[field] = value;
    manifests
}

/// Whatever of the EventSource stands between the client and the bus: the cell that stops it is named.
#[test]
fn what_an_eventsource_does_is_shown_where_it_does_it() {
    let catalog = Catalog::bundled().unwrap();
    let (sensor, sources) = (
        of(&catalog, "filter-path/sensor.yaml"),
        of(&catalog, "base/eventsource.yaml"),
    );
    let live: Vec<Manifest> = [sources.clone(), sensor].concat();
    let rejected = |reason| Some(Some(Judged::Rejected(reason)));
    let hook = "/spec/webhook/filter-path";
    let filter = |text: &str| json!({"expression": text});
    for (pointer, value, now, said) in [
        (
            "/filter",
            filter("body.event.amount == 1"),
            Some(Some(Judged::Passed)),
            "same",
        ),
        (
            "/filter",
            filter("body.event.amount == 2"),
            rejected(Reason::SourceFilter),
            "- FLIPS nested: passed, now kept off the bus (the EventSource's filter is not true of it)",
        ),
        (
            "/filter",
            filter("body.event.nothing.at.all == 2"),
            rejected(Reason::SourceFilter),
            "now kept off the bus (the EventSource's filter fails: ",
        ),
        (
            "/filter",
            filter("body.event.amount"),
            rejected(Reason::SourceFilter),
            "filter fails: ",
        ),
        (
            "/filter",
            filter(""),
            rejected(Reason::SourceFilter),
            "filter fails: ",
        ),
        (
            "/method",
            json!("GET"),
            rejected(Reason::WrongMethod),
            "now refused (HTTP 400 http method does not match)",
        ),
        (
            "/endpoint",
            json!("/other"),
            rejected(Reason::NoSuchEndpoint),
            "now refused (HTTP 404",
        ),
        (
            "/maxPayloadSize",
            json!(3),
            rejected(Reason::BadBody),
            "now refused (HTTP 400",
        ),
        (
            "/port",
            json!("13000"),
            rejected(Reason::NoSuchEndpoint),
            "now refused (HTTP 404",
        ),
        (
            "/authSecret",
            json!({"name": "s", "key": "k"}),
            None,
            "asks for a token",
        ),
    ] {
        let edited = with(&sources, &format!("{hook}{pointer}"), value);
        let probes = [recorded("nested", NESTED, Judged::Passed)];
        let all = replay(
            &edited,
            &live,
            "filter-path",
            &probes,
            Timestamp::UNIX_EPOCH,
        )
        .unwrap();
        let line = all[0].line();
        assert!(line.contains(said), "{line}");
        assert_eq!(
            all[0].now.is_known().then(|| all[0].now.judged()),
            now,
            "{line}"
        );
    }
    for (pointer, value) in [
        ("/spec/service", json!({})),
        (
            "/spec/service/ports",
            json!([{"port": 12000, "targetPort": 12001}]),
        ),
        (
            "/spec/service/ports",
            json!([{"port": 80, "targetPort": 12000}]),
        ),
        (
            "/spec/webhook",
            json!({"other": {"endpoint": "/filter-path", "port": "12000", "method": "POST"}}),
        ),
    ] {
        let edited = with(&sources, pointer, value);
        let probes = [recorded("nested", NESTED, Judged::Passed)];
        let all = replay(
            &edited,
            &live,
            "filter-path",
            &probes,
            Timestamp::UNIX_EPOCH,
        )
        .unwrap();
        let line = all[0].line();
        assert!(
            line.starts_with("- FLIPS nested: passed, now does not reach the Sensor: "),
            "{line}"
        );
    }
}

/// What flips without the edit is not said to flip by it.
#[test]
fn what_flips_by_an_older_edit_is_told_apart() {
    let catalog = Catalog::bundled().unwrap();
    let solution = of(&catalog, "filter-path/solution.yaml");
    let (open, strict) = (
        of(&catalog, "base/eventsource.yaml"),
        of(&catalog, "filter-path/source-solution.yaml"),
    );
    let probes = [
        recorded("nested", NESTED, Judged::Passed),
        recorded("flat", FLAT, Judged::Rejected(Reason::MissingPath)),
        recorded("passed", FLAT, Judged::Passed),
    ];
    let changes = |edited: &[Manifest], live: &[Manifest]| -> Vec<Change> {
        let all = replay(edited, live, "filter-path", &probes, Timestamp::UNIX_EPOCH).unwrap();
        all.iter().map(Replayed::change).collect()
    };
    let live: Vec<Manifest> = [open.clone(), solution.clone()].concat();
    let unchanged = changes(&open, &live);
    assert_eq!(unchanged, [Change::Older, Change::Older, Change::Same]);
    assert_eq!(changes(&strict, &live), [Change::Flips; 3]);
}

/// The EventSource and the Sensor before a stage, each solved.
fn before(catalog: &Catalog, lab: &Lab, stage: usize) -> Vec<Manifest> {
    let mut live = Vec::new();
    for stage in &lab.stages[..stage] {
        let solution = stage.fix.iter().map(|fix| &fix.solution);
        for file in stage.apply.iter().chain(solution) {
            let text = catalog.manifest(file).unwrap_or_default();
            live.extend(Manifest::read(file, text).unwrap());
        }
    }
    live
}

/// Whether it is what a probe's fate says, as far as EventSource and Sensor decide it.
fn is_fated(now: &Now, fate: &Fate) -> bool {
    match (fate, now) {
        (
            Fate::Stopped {
                layer: Layer::Ready,
                ..
            },
            now,
        ) => matches!(now, Now::NotReached(_)),
        (Fate::Stopped { layer, reason }, now) if *layer <= Layer::Filter => {
            now.judged() == Some(Judged::Rejected(*reason))
        }
        (
            Fate::Stopped {
                layer: Layer::Submit,
                reason: Reason::TriggerFailed,
            },
            now,
        ) => now.judged() == Some(Judged::NotBuilt),
        (_, now) => now.judged() == Some(Judged::Passed),
    }
}

/// Every lab whose learner edits an EventSource or a Sensor: what is shown of the solution is what will be seen, and what is
/// shown of each wrong fix is how it will fail.
#[test]
fn what_is_shown_of_an_edit_is_what_comes_of_it() {
    let catalog = Catalog::bundled().unwrap();
    let (mut shown, mut failed) = (0, 0);
    for lab in catalog.labs().iter() {
        for (index, stage) in lab.stages.iter().enumerate() {
            let Some(fix) = &stage.fix else { continue };
            let edits = |file: &str| Manifest::read(file, catalog.manifest(file).ok()?).ok();
            let Some(edited) = edits(&fix.solution) else {
                continue;
            };
            if !edited
                .iter()
                .any(|one| one.title() == "Sensor/orders" || one.title() == "EventSource/orders")
            {
                continue;
            }
            let mut live = before(&catalog, lab, index);
            live.extend(stage.apply.iter().filter_map(|file| edits(file)).flatten());
            let probes: Vec<Recorded> = stage
                .probes
                .iter()
                .map(|probe| Recorded {
                    stage: stage.name.clone(),
                    probe: probe.clone(),
                    trace: "trace".to_owned(),
                    attempt: 1,
                    judged: Judged::Passed,
                    text: String::new(),
                })
                .collect();
            let again = |edited: &[Manifest]| {
                replay(edited, &live, &lab.event, &probes, Timestamp::UNIX_EPOCH).unwrap()
            };
            for (one, probe) in again(&edited).iter().zip(&stage.probes) {
                let mut fates = std::iter::once(&probe.fate).chain(&probe.or);
                assert!(
                    fates.any(|fate| is_fated(&one.now, fate)),
                    "{} {}: {}",
                    lab.name,
                    stage.name,
                    one.line()
                );
                shown += 1;
            }
            for wrong in &fix.wrong {
                let Failure::Probe(fails) = &wrong.fails else {
                    continue;
                };
                let Some(edited) = edits(&wrong.manifest) else {
                    continue;
                };
                let all = again(&edited);
                let one = all
                    .iter()
                    .find(|one| one.recorded.probe.name == fails.probe)
                    .unwrap();
                assert!(
                    is_fated(&one.now, &fails.observed),
                    "{} {}: {}",
                    lab.name,
                    wrong.name,
                    one.line()
                );
                failed += 1;
            }
        }
    }
    assert!(shown > 15 && failed > 20, "{shown} {failed}");
}
