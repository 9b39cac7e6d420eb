use std::path::Path;

use serde_json::{Value, json};

use super::*;

fn place(name: &str) -> Place<'_> {
    Place {
        bucket: "configmaps",
        namespace: "ns",
        name,
    }
}

fn value(name: &str, payload: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns"}, "data": {"k": payload}})
}

fn store(directory: &Path) -> Store {
    Store::open(&directory.join("cluster.db"), Limits::default()).expect("store")
}

fn everything() -> Interest {
    Interest::new("configmaps", None, Selector::default())
}

#[test]
fn a_full_disk_loses_nothing_and_tells_nobody() {
    let directory = tempfile::tempdir().expect("directory");
    let store = store(directory.path());
    let kept = store
        .put(place("a"), None, value("a", "1"))
        .expect("stored");
    let mut watch = store.subscribe(everything(), None).expect("watch");
    store.lock().database.limit_growth(true);
    let big = "x".repeat(1 << 20);
    let error = store
        .put(place("b"), None, value("b", &big))
        .expect_err("no room");
    let WriteError::Database(error) = error else {
        panic!("{error}")
    };
    let text = error.to_string();
    assert!(
        text.contains("cluster.db") && text.contains("free disk space"),
        "{text}"
    );
    let error = store
        .put(place("a"), Some(kept.rv), value("a", &big))
        .expect_err("no room");
    assert!(matches!(error, WriteError::Database(_)));
    assert_eq!(store.counter(), kept.rv);
    assert_eq!(store.get(place("a")).expect("object").json, kept.json);
    assert!(store.get(place("b")).is_none());
    assert!(matches!(watch.notices.take(), Taken::Some(none) if none.is_empty()));
    store.lock().database.limit_growth(false);
    let next = store
        .put(place("b"), None, value("b", "2"))
        .expect("room again");
    assert_eq!(next.rv, kept.rv + 1);
    assert!(matches!(watch.notices.take(), Taken::Some(one) if one.len() == 1));
}

#[test]
fn preconditions_are_checked_and_every_write_takes_one_number() {
    let directory = tempfile::tempdir().expect("directory");
    let store = store(directory.path());
    let first = store
        .put(place("a"), None, value("a", "1"))
        .expect("stored");
    assert!(matches!(
        store.put(place("a"), None, value("a", "2")),
        Err(WriteError::Exists)
    ));
    assert!(matches!(
        store.put(place("a"), Some(first.rv + 1), value("a", "2")),
        Err(WriteError::Changed)
    ));
    assert!(matches!(
        store.put(place("b"), Some(1), value("b", "2")),
        Err(WriteError::Changed)
    ));
    assert!(matches!(
        store.remove(place("a"), 99, value("a", "1")),
        Err(WriteError::Changed)
    ));
    assert_eq!(store.counter(), first.rv);
    let gone = store
        .remove(place("a"), first.rv, value("a", "1"))
        .expect("removed");
    assert_eq!(gone.rv, first.rv + 1);
    assert_eq!(
        gone.value().expect("json")["metadata"]["resourceVersion"],
        gone.rv.to_string()
    );
}

#[test]
fn a_watch_has_no_gap_and_no_double() {
    let directory = tempfile::tempdir().expect("directory");
    let store = Arc::new(store(directory.path()));
    let writer = {
        let store = Arc::clone(&store);
        std::thread::spawn(move || {
            for index in 0..500 {
                let name = format!("m{index}");
                store
                    .put(place(&name), None, value(&name, "1"))
                    .expect("stored");
            }
        })
    };
    let mut seen = Vec::new();
    let mut from = 0;
    // Every watch takes up where the one before ended, while the writer goes on.
    while seen.len() < 500 {
        let mut watch = store
            .subscribe(everything(), Some(from))
            .expect("in history");
        seen.extend(watch.missed.iter().map(|event| event.object.rv));
        while let Taken::Some(batch) = watch.notices.take() {
            for notice in &batch {
                let Notice::Event(event) = notice else {
                    panic!("an event")
                };
                seen.push(event.object.rv);
            }
            if batch.is_empty() {
                break;
            }
        }
        from = seen.last().copied().unwrap_or(from);
    }
    writer.join().expect("writer");
    assert_eq!(seen, (1..=500).collect::<Vec<u64>>());
}

#[test]
fn watchers_that_went_away_are_forgotten() {
    let directory = tempfile::tempdir().expect("directory");
    let store = store(directory.path());
    for _ in 0..10 {
        drop(store.subscribe(everything(), None));
    }
    drop(store.put(place("a"), None, value("a", "1")));
    let state = store.lock();
    assert_eq!(state.buckets["configmaps"].watchers.len(), 0);
}

#[test]
fn a_key_of_another_namespace_is_not_listed() {
    let directory = tempfile::tempdir().expect("directory");
    let store = store(directory.path());
    for namespace in ["a", "a-b", "ab", "b"] {
        let place = Place {
            bucket: "configmaps",
            namespace,
            name: "x",
        };
        let value = json!({"metadata": {"name": "x", "namespace": namespace}});
        store.put(place, None, value).expect("stored");
    }
    let interest = Interest::new("configmaps", Some("a"), Selector::default());
    let found = store.list(&interest, None, 0).items;
    assert_eq!(
        found.iter().map(|one| &*one.namespace).collect::<Vec<_>>(),
        ["a"]
    );
}
