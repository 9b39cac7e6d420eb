//! A list shows the version that it says it shows.

use serde_json::{Value, json};

use crate::api_support::{Lab, create, send};

const MAPS: &str = "/api/v1/namespaces/lab/configmaps";

async fn list(lab: &Lab, query: &str) -> (u16, Value) {
    send(
        lab,
        "GET",
        &format!("{MAPS}?{query}"),
        "application/json",
        "",
    )
    .await
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|one| one["metadata"]["name"].as_str().unwrap())
        .collect()
}

/// Four maps, the resourceVersion of a list of them, and changes of every sort after it.
async fn changed(lab: &Lab) -> (String, String) {
    for name in ["a", "b", "c", "d"] {
        let map = json!({"metadata": {"name": name}, "data": {"k": "old"}});
        create(lab, MAPS, map).await;
    }
    let (_, first) = list(lab, "limit=2").await;
    assert_eq!(names(&first), ["a", "b"]);
    let text = |key: &str| first["metadata"][key].as_str().unwrap().to_owned();
    create(lab, MAPS, json!({"metadata": {"name": "bb"}})).await;
    let json = "application/json";
    let new = json!({"metadata": {"name": "c"}, "data": {"k": "new"}}).to_string();
    let put = send(lab, "PUT", &format!("{MAPS}/c"), json, new).await;
    assert_eq!(put.0, 200);
    assert_eq!(
        send(lab, "DELETE", &format!("{MAPS}/d"), json, "").await.0,
        200
    );
    create(
        lab,
        MAPS,
        json!({"metadata": {"name": "d"}, "data": {"k": "again"}}),
    )
    .await;
    assert_eq!(
        send(lab, "DELETE", &format!("{MAPS}/a"), json, "").await.0,
        200
    );
    (text("resourceVersion"), text("continue"))
}

#[tokio::test]
async fn a_later_page_is_of_the_version_of_the_first() {
    let lab = Lab::new().await;
    let (version, token) = changed(&lab).await;
    let (code, page) = list(&lab, &format!("limit=2&continue={token}")).await;
    assert_eq!(code, 200);
    assert_eq!(names(&page), ["c", "d"]);
    assert_eq!(page["metadata"]["resourceVersion"], version.as_str());
    for item in page["items"].as_array().unwrap() {
        assert_eq!(item["data"]["k"], "old", "{item}");
    }
}

#[tokio::test]
async fn an_exact_version_is_shown_as_it_was() {
    let lab = Lab::new().await;
    let (version, _) = changed(&lab).await;
    let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
    let (_, then) = list(&lab, &exact).await;
    assert_eq!(names(&then), ["a", "b", "c", "d"]);
    assert_eq!(then["metadata"]["resourceVersion"], version.as_str());
    let (_, limited) = list(&lab, &format!("resourceVersion={version}&limit=3")).await;
    assert_eq!(names(&limited), ["a", "b", "c"]);
    assert_eq!(limited["metadata"]["remainingItemCount"], 1);
    let not_older = format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan");
    let (_, now) = list(&lab, &not_older).await;
    assert_eq!(names(&now), ["b", "bb", "c", "d"]);
}

#[tokio::test]
async fn a_version_that_is_gone_or_not_come_yet_is_told() {
    let lab = Lab::new().await;
    let (version, token) = changed(&lab).await;
    let snapshot = lab.directory().join("copy.db");
    lab.server.snapshot(&snapshot).unwrap();
    lab.server.restore(&snapshot).unwrap();
    let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
    let (code, gone) = list(&lab, &exact).await;
    assert_eq!(code, 410, "{gone}");
    assert_eq!(
        gone["message"],
        "The resourceVersion for the provided list is too old."
    );
    let (code, gone) = list(&lab, &format!("limit=2&continue={token}")).await;
    assert_eq!((code, &gone["reason"]), (410, &json!("Expired")));
    let (code, ahead) = list(&lab, "resourceVersion=99999999&resourceVersionMatch=Exact").await;
    assert_eq!(code, 504, "{ahead}");
    let message = ahead["message"].as_str().unwrap();
    assert!(message.starts_with("Timeout: Too large resource version: 99999999, current: "));
}
