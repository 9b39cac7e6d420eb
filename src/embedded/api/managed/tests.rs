use serde_json::json;

use super::*;
use crate::embedded::api::registry;

fn maps() -> &'static Kind {
    registry::find("", "v1", "configmaps").expect("row")
}

fn by(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        subresource: "",
    }
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data})
}

fn managers(object: &Value) -> Vec<(String, String)> {
    let list = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    list.iter()
        .map(|entry| (text(&entry["manager"]), text(&entry["operation"])))
        .collect()
}

#[test]
fn what_was_there_before_the_first_apply_is_owned() {
    let live = map(json!({"k": "1"}));
    let failure =
        apply(maps(), Some(&live), &map(json!({"k": "2"})), by("a"), false).expect_err("conflict");
    let message = failure.body()["message"].as_str().expect("text").to_owned();
    assert!(
        message.starts_with(
            "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1"
        ),
        "{message}"
    );
    let applied =
        apply(maps(), Some(&live), &map(json!({"k": "2"})), by("a"), true).expect("forced");
    assert_eq!(applied["data"]["k"], "2");
    // The map itself stays with whoever had it first; an apply owns only what is in it.
    let owned: Vec<String> = applied["metadata"]["managedFields"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| format!("{} {}", entry["manager"], entry["fieldsV1"]["f:data"]))
        .collect();
    assert_eq!(owned, [r#""a" {"f:k":{}}"#, r#""before-first-apply" {}"#]);
}

#[test]
fn an_update_takes_over_what_it_changes() {
    let live = apply(
        maps(),
        None,
        &map(json!({"k": "1", "l": "1"})),
        by("a"),
        false,
    )
    .expect("applied");
    let mut updated = live.clone();
    updated["data"]["k"] = json!("2");
    track(maps(), &live, &mut updated, by("editor"));
    assert_eq!(managers(&updated).len(), 2);
    let again = apply(
        maps(),
        Some(&updated),
        &map(json!({"k": "1", "l": "1"})),
        by("a"),
        false,
    );
    let message = again.expect_err("conflict").body()["message"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(
        message.ends_with("\"editor\" using v1: .data.k"),
        "{message}"
    );
    let fewer = apply(
        maps(),
        Some(&updated),
        &map(json!({"l": "1"})),
        by("a"),
        false,
    )
    .expect("applied");
    assert_eq!(fewer["data"], json!({"k": "2", "l": "1"}));
}

#[test]
fn objects_without_owners_get_none_by_an_update() {
    let live = map(json!({"k": "1"}));
    let mut updated = map(json!({"k": "2"}));
    track(maps(), &live, &mut updated, by("editor"));
    assert_eq!(updated, map(json!({"k": "2"})));
}

#[test]
fn an_empty_entry_resets_the_owners() {
    let live = apply(maps(), None, &map(json!({"k": "1"})), by("a"), false).expect("applied");
    let mut updated = live.clone();
    updated["metadata"]["managedFields"] = json!([{}]);
    track(maps(), &live, &mut updated, by("editor"));
    assert!(updated["metadata"].get("managedFields").is_none());
}

#[test]
fn fields_go_to_json_and_back() {
    let fields = json!({
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}}}, "f:finalizers": {"v:\"a/b\"": {}}},
    });
    let set = FieldSet::from_json(&fields);
    assert_eq!(set.to_json(), fields);
    let paths = set.paths();
    assert!(
        paths.contains(&".spec.containers[name=\"x\"].name".to_owned()),
        "{paths:?}"
    );
    assert!(
        paths.contains(&".spec.finalizers[=\"a/b\"]".to_owned()),
        "{paths:?}"
    );
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let live = apply(
        maps(),
        None,
        &map(json!({"k": "1", "l": "1"})),
        by("a"),
        false,
    )
    .expect("applied");
    let failure = apply(
        maps(),
        Some(&live),
        &map(json!({"k": "2", "l": "2"})),
        by("b"),
        false,
    )
    .expect_err("conflict");
    let want = "Apply failed with 2 conflicts: conflicts with \"a\":\n- .data.k\n- .data.l";
    assert_eq!(failure.body()["message"], want);
}
