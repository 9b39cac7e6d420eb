//! Who owns which fields, step by step as kube-apiserver 1.36.2 kept it: creates, updates, patches, applies, resets.

use http::Request;
use serde_json::Value;

use crate::api_support::{Lab, answer};

const GOLDEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/golden/managed-fields.jsonl"
);

async fn step(lab: &Lab, step: &Value) -> (u16, Value) {
    let text = |key: &str| step[key].as_str().unwrap_or("").to_owned();
    let request = Request::builder()
        .method(text("method").as_str())
        .uri(text("path"))
        .header(
            "Authorization",
            format!(
                "Bearer {}",
                lab.server.user_token("admin", &["system:masters"])
            ),
        )
        .header("Content-Type", text("contentType"))
        .header("User-Agent", "tool/1.0")
        .body(text("body").into())
        .unwrap();
    answer(lab, request).await
}

/// The owners without the times at which they wrote.
fn owners(object: &Value) -> Value {
    let mut owners = object["metadata"]["managedFields"].clone();
    for entry in owners.as_array_mut().into_iter().flatten() {
        entry.as_object_mut().map(|entry| entry.remove("time"));
    }
    owners
}

/// Entries of one second are sorted by name; what is compared is who owns what.
fn sorted(owners: &Value) -> Vec<Value> {
    let mut list = owners.as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or("").to_owned();
    list.sort_by_key(|one| ["manager", "operation", "subresource"].map(|key| text(one, key)));
    list
}

fn difference(want: &Value, code: u16, have: &Value) -> Option<String> {
    if want["code"] != code {
        return Some(format!(
            "code {} | {code} {}",
            want["code"], have["message"]
        ));
    }
    if code >= 300 {
        let same = want["message"] == have["message"];
        return (!same).then(|| format!("{} | {}", want["message"], have["message"]));
    }
    let (wanted, found) = (sorted(&want["managedFields"]), sorted(&owners(have)));
    if wanted != found {
        let (wanted, found) = (Value::from(wanted), Value::from(found));
        return Some(format!("{wanted}\n   | {found}"));
    }
    let annotation =
        &have["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    let kept = want
        .get("lastApplied")
        .is_none_or(|wanted| wanted == annotation);
    (!kept).then(|| format!("{} | {annotation}", want["lastApplied"]))
}

#[tokio::test]
async fn every_write_leaves_the_owners_that_were_recorded() {
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    let mut wrong = Vec::new();
    for line in golden.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let lab = Lab::new().await;
        for (index, one) in case["steps"].as_array().unwrap().iter().enumerate() {
            let (code, have) = step(&lab, one).await;
            if let Some(why) = difference(&one["want"], code, &have) {
                wrong.push(format!("{} step {index}: {why}", case["id"]));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ (want | have):\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
