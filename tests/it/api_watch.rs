//! Lists and watches: versions, pages, selectors, bookmarks, and what happens to watchers that fall behind.

use std::collections::BTreeSet;

use axum::body::Body;
use eventlab::embedded::api::{Limits, Options};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::api_support::{Lab, Transport, create, object, over_both_transports, send};

over_both_transports!(
    a_watcher_sees_what_was_there_and_what_comes,
    a_streaming_watcher_sees_the_same,
    a_watch_ends_after_its_time,
    pages_hold_everything_once,
    racing_writers_lose_nothing,
);

const MAPS: &str = "/api/v1/namespaces/lab/configmaps";

async fn make(lab: &Lab, name: &str) -> Value {
    create(lab, MAPS, json!({"metadata": {"name": name}})).await
}

/// Applied names of a watcher until it has seen `count`.
async fn seen(lab: &Lab, config: watcher::Config, count: usize) -> BTreeSet<String> {
    let maps: Api<ConfigMap> = lab.api("lab");
    let mut events = watcher(maps, config).boxed();
    let mut names = BTreeSet::new();
    let mut ready = false;
    while names.len() < count {
        match lab.soon(events.try_next()).await.unwrap().unwrap() {
            watcher::Event::InitApply(map) | watcher::Event::Apply(map) => {
                names.insert(map.metadata.name.unwrap());
            }
            watcher::Event::InitDone => {
                ready = true;
                make(lab, "late").await;
            }
            watcher::Event::Init | watcher::Event::Delete(_) => {}
        }
    }
    assert!(ready);
    names
}

async fn a_watcher_sees_what_was_there_and_what_comes(lab: Lab) {
    make(&lab, "a").await;
    make(&lab, "b").await;
    let names = seen(&lab, watcher::Config::default(), 3).await;
    assert_eq!(Vec::from_iter(names), ["a", "b", "late"]);
}

async fn a_streaming_watcher_sees_the_same(lab: Lab) {
    make(&lab, "a").await;
    let names = seen(&lab, watcher::Config::default().streaming_lists(), 2).await;
    assert_eq!(Vec::from_iter(names), ["a", "late"]);
}

async fn a_watch_ends_after_its_time(lab: Lab) {
    let maps: Api<ConfigMap> = lab.api("lab");
    let events = maps
        .watch(&WatchParams::default().timeout(1), "0")
        .await
        .unwrap();
    let all: Vec<_> = lab.soon(events.try_collect()).await.unwrap();
    let is_mark = |event: &WatchEvent<ConfigMap>| matches!(event, WatchEvent::Bookmark(_));
    assert!(all.iter().all(is_mark), "{all:?}");
}

async fn pages_hold_everything_once(lab: Lab) {
    for index in 0..25 {
        make(&lab, &format!("m{index:02}")).await;
    }
    let maps: Api<ConfigMap> = lab.api("lab");
    let mut params = ListParams::default().limit(10);
    let mut names = Vec::new();
    let mut remaining = Vec::new();
    let mut versions = BTreeSet::new();
    loop {
        let page = maps.list(&params).await.unwrap();
        names.extend(page.items.into_iter().filter_map(|map| map.metadata.name));
        remaining.push(page.metadata.remaining_item_count);
        versions.insert(page.metadata.resource_version);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    assert_eq!(
        names,
        (0..25)
            .map(|index| format!("m{index:02}"))
            .collect::<Vec<_>>()
    );
    assert_eq!(remaining, [Some(15), Some(5), None]);
    assert_eq!(versions.len(), 1);
}

async fn racing_writers_lose_nothing(lab: Lab) {
    let made = make(&lab, "x").await;
    let maps: Api<ConfigMap> = lab.api("lab");
    let start = made["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let events = maps.watch(&WatchParams::default(), &start).await.unwrap();
    let writers = (0..6).map(|writer| {
        let maps = maps.clone();
        tokio::spawn(async move {
            for step in 0..20 {
                let patch = json!({"data": {format!("k-{writer}-{step}"): "v"}});
                maps.patch("x", &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .unwrap();
            }
        })
    });
    for writer in Vec::from_iter(writers) {
        writer.await.unwrap();
    }
    let data = maps.get("x").await.unwrap().data.unwrap();
    assert_eq!(data.len(), 120);
    let events: Vec<WatchEvent<ConfigMap>> =
        lab.soon(events.take(120).try_collect()).await.unwrap();
    let sizes: Vec<usize> = events
        .iter()
        .map(|event| match event {
            WatchEvent::Modified(map) => map.data.as_ref().map_or(0, |data| data.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, (1..=120).collect::<Vec<_>>());
}

/// The events of a watch that ends by itself.
async fn watch(lab: &Lab, query: &str, accept: &str) -> Vec<Value> {
    let request = Request::builder()
        .uri(format!("{MAPS}?watch=true&timeoutSeconds=1&{query}"))
        .header("Authorization", format!("Bearer {}", lab.admin_token()))
        .header("Accept", accept)
        .body(Body::empty())
        .unwrap();
    let response = lab.server.router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let bytes = lab
        .soon(response.into_body().collect())
        .await
        .unwrap()
        .to_bytes();
    String::from_utf8_lossy(&bytes)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let lab = Lab::new().await;
    make(&lab, "a").await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=0";
    let events = watch(&lab, query, "application/json").await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["type"], "ADDED");
    assert_eq!(events[0]["object"]["kind"], "ConfigMap");
    assert_eq!(events[1]["type"], "BOOKMARK");
    assert_eq!(events[1]["object"]["apiVersion"], "v1");
    assert_eq!(
        events[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
}

/// Measured: a watch that begins with what is there tells where that ends, but only to those who take bookmarks.
#[tokio::test]
async fn the_end_of_the_beginning_is_marked_for_those_who_take_bookmarks() {
    let lab = Lab::new().await;
    make(&lab, "a").await;
    let queries = [
        ("", false),
        ("resourceVersion=0", false),
        ("allowWatchBookmarks=true", true),
        ("allowWatchBookmarks=true&resourceVersion=0", true),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            false,
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            true,
        ),
        (
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            false,
        ),
    ];
    let watches = queries.map(|(query, _)| watch(&lab, query, "application/json"));
    let watched = futures::future::join_all(watches).await;
    for ((query, marked), events) in queries.into_iter().zip(watched) {
        let marks = events.iter().filter(|event| event["type"] == "BOOKMARK");
        assert_eq!(marks.count(), usize::from(marked), "{query}: {events:?}");
    }
}

#[tokio::test]
async fn options_that_do_not_fit_are_refused() {
    let lab = Lab::new().await;
    for query in [
        "watch=true&sendInitialEvents=true",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=Exact",
        "watch=true&resourceVersionMatch=NotOlderThan&resourceVersion=1",
        "resourceVersionMatch=Sometimes&resourceVersion=1",
    ] {
        let (code, body) = send(
            &lab,
            "GET",
            &format!("{MAPS}?{query}"),
            "application/json",
            "",
        )
        .await;
        assert_eq!((code, &body["reason"]), (422, &json!("Invalid")), "{query}");
    }
    for query in [
        "continue=%%%",
        "continue=abc",
        "limit=1&continue=e30",
        "timeoutSeconds=x",
    ] {
        let (code, body) = send(
            &lab,
            "GET",
            &format!("{MAPS}?{query}"),
            "application/json",
            "",
        )
        .await;
        assert_eq!(
            (code, &body["reason"]),
            (400, &json!("BadRequest")),
            "{query}"
        );
    }
    let (code, body) = send(
        &lab,
        "GET",
        &format!("{MAPS}?resourceVersion=999999"),
        "application/json",
        "",
    )
    .await;
    assert_eq!((code, &body["reason"]), (504, &json!("Timeout")));
    // Who wants a list that is at least so new is not given an older one.
    let ahead = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=999999";
    let events = watch(&lab, ahead, "application/json").await;
    let told: Vec<_> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(told, ["ERROR"], "{events:?}");
    let status = &events[0]["object"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(504), &json!("Timeout"))
    );
    let cause = &status["details"]["causes"][0]["reason"];
    assert_eq!(cause, "ResourceVersionTooLarge", "{status}");
}

#[tokio::test]
async fn a_watch_from_too_long_ago_is_told_to_list_anew() {
    let options = Options {
        history: Limits {
            entries: 4,
            ..Limits::default()
        },
        ..Options::default()
    };
    let lab = Lab::with(Transport::InProcess, options).await;
    let start = make(&lab, "a").await["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    for index in 0..8 {
        make(&lab, &format!("m{index}")).await;
    }
    for version in [start.as_str(), "1", "999999"] {
        let events = watch(
            &lab,
            &format!("resourceVersion={version}"),
            "application/json",
        )
        .await;
        assert_eq!(events.len(), 1);
        assert_eq!(events[0]["type"], "ERROR");
        assert_eq!(events[0]["object"]["code"], 410);
        assert_eq!(events[0]["object"]["reason"], "Expired");
    }
    let (_, page) = send(
        &lab,
        "GET",
        &format!("{MAPS}?limit=2"),
        "application/json",
        "",
    )
    .await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    for index in 0..8 {
        make(&lab, &format!("n{index}")).await;
    }
    let (code, body) = send(
        &lab,
        "GET",
        &format!("{MAPS}?limit=2&continue={token}"),
        "application/json",
        "",
    )
    .await;
    assert_eq!((code, &body["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_ended_and_holds_nobody_up() {
    let lab = Lab::new().await;
    let map = make(&lab, "x").await;
    let version = map["metadata"]["resourceVersion"].as_str().unwrap();
    let maps: Api<ConfigMap> = lab.api("lab");
    let events = maps.watch(&WatchParams::default(), version).await.unwrap();
    for step in 0..1100 {
        let patch = Patch::Merge(json!({"data": {"step": step.to_string()}}));
        maps.patch("x", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    let got: Vec<_> = lab.soon(events.try_collect()).await.unwrap();
    assert!(got.len() < 1100);
}

#[tokio::test]
async fn other_representations_can_be_watched() {
    let lab = Lab::new().await;
    make(&lab, "a").await;
    let table = watch(&lab, "", "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    assert_eq!(table[0]["object"]["kind"], "Table");
    assert_eq!(table[0]["object"]["rows"][0]["cells"][0], "a");
    let partial = watch(
        &lab,
        "",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    )
    .await;
    assert_eq!(partial[0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(partial[0]["object"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn pods_are_selected_by_their_fields() {
    let lab = Lab::new().await;
    let pods: Api<Pod> = lab.api("lab");
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "eventlab:dev"}]}});
        pods.create(&PostParams::default(), &object(pod))
            .await
            .unwrap();
    }
    let patch = Patch::Merge(json!({"status": {"phase": "Running", "podIP": "10.1.0.7"}}));
    pods.patch_status("b", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let table = [
        ("status.phase=Running", vec!["b"]),
        ("status.phase!=Running", vec!["a"]),
        ("status.podIP=10.1.0.7,metadata.name=b", vec!["b"]),
        ("spec.nodeName=", vec!["a", "b"]),
        ("metadata.namespace=lab", vec!["a", "b"]),
        ("metadata.namespace=other", vec![]),
    ];
    for (selector, want) in table {
        let found = pods
            .list(&ListParams::default().fields(selector))
            .await
            .unwrap();
        let names: Vec<String> = found
            .into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect();
        assert_eq!(names, want, "{selector}");
    }
}

#[tokio::test]
async fn events_have_two_shapes_and_one_storage() {
    let lab = Lab::new().await;
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "lab"}, "reason": "Started",
        "note": "Started container", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Start",
        "reportingController": "eventlab/node", "reportingInstance": "n",
    });
    create(&lab, "/apis/events.k8s.io/v1/namespaces/lab/events", event).await;
    let core = "/api/v1/namespaces/lab/events";
    let (_, list) = send(
        &lab,
        "GET",
        &format!("{core}?fieldSelector=involvedObject.name%3Dp"),
        "application/json",
        "",
    )
    .await;
    assert_eq!(list["items"][0]["message"], "Started container");
    assert_eq!(list["items"][0]["apiVersion"], "v1");
    let patch = json!({"count": 3}).to_string();
    send(
        &lab,
        "PATCH",
        &format!("{core}/e"),
        "application/merge-patch+json",
        patch,
    )
    .await;
    let new = "/apis/events.k8s.io/v1/namespaces/lab/events";
    let (_, list) = send(
        &lab,
        "GET",
        &format!("{new}?fieldSelector=regarding.name%3Dp"),
        "application/json",
        "",
    )
    .await;
    assert_eq!(list["items"][0]["deprecatedCount"], 3);
    assert_eq!(list["items"][0]["apiVersion"], "events.k8s.io/v1");
    assert_eq!(list["items"][0]["regarding"]["name"], "p");
    let patch = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}})
        .to_string();
    let (code, body) = send(
        &lab,
        "PATCH",
        &format!("{new}/e"),
        "application/merge-patch+json",
        patch,
    )
    .await;
    assert_eq!((code, &body["series"]["count"]), (200, &json!(2)), "{body}");
}
