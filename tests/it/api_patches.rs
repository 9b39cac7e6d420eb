//! Patches and applies, compared with what kube-apiserver 1.36.2 made of them.

use serde_json::{Value, json};

use crate::api_support::{Lab, create, send};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/patches.jsonl");

/// Takes away what differs from cluster to cluster.
pub fn bare(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(key);
        }
    }
    // Status is set by controllers, which the recorded server did not have.
    if value.get("code").is_none()
        && let Some(map) = value.as_object_mut()
    {
        map.remove("status");
    }
    value
}

fn same(code: u16, have: &Value, want: &Value) -> bool {
    if want["code"] != code {
        return false;
    }
    if code < 300 {
        return bare(have) == bare(&want["body"]);
    }
    let long = |text: &Value| {
        text.as_str().is_some_and(|text| {
            text.contains("patch: Invalid value") || text.contains("invalid character")
        })
    };
    let body = &want["body"];
    let text = have["message"] == body["message"]
        || (long(&body["message"]) && have["message"].is_string());
    let reason =
        have.get("reason").unwrap_or(&Value::Null) == body.get("reason").unwrap_or(&Value::Null);
    text && reason
}

async fn patch_line(lab: &Lab, line: &Value, wrong: &mut Vec<String>) {
    let resource = line["resource"].as_str().unwrap();
    create(lab, resource, line["before"].clone()).await;
    let path = format!("{resource}/x");
    let media_type = line["contentType"].as_str().unwrap();
    let body = match &line["patch"] {
        Value::String(raw) => raw.clone(),
        other => other.to_string(),
    };
    let (code, have) = send(lab, "PATCH", &path, media_type, body).await;
    if !same(code, &have, &line["want"]) {
        wrong.push(format!(
            "{} {} {}\n  want {}\n  have {code} {}",
            line["id"],
            media_type,
            line["patch"],
            line["want"],
            bare(&have)
        ));
    }
    remove(lab, &path).await;
}

pub async fn remove(lab: &Lab, path: &str) {
    send(
        lab,
        "PATCH",
        path,
        "application/merge-patch+json",
        json!({"metadata": {"finalizers": null}}).to_string(),
    )
    .await;
    send(lab, "DELETE", path, "application/json", "").await;
}

async fn apply_line(lab: &Lab, line: &Value, wrong: &mut Vec<String>) {
    let path = format!("{}/x", line["resource"].as_str().unwrap());
    for (index, step) in line["steps"].as_array().unwrap().iter().enumerate() {
        let url = format!(
            "{path}?fieldManager={}&force={}",
            step["manager"].as_str().unwrap(),
            step["force"]
        );
        let (code, have) = send(
            lab,
            "PATCH",
            &url,
            "application/apply-patch+yaml",
            step["apply"].to_string(),
        )
        .await;
        if !same(code, &have, &step["want"]) {
            wrong.push(format!(
                "{} step {index} {}\n  want {}\n  have {code} {}",
                line["id"],
                step["apply"],
                step["want"],
                bare(&have)
            ));
        }
    }
    remove(lab, &path).await;
}

/// The recorded lines, those with `steps` (applies) or those without (patches).
pub fn lines(applies: bool) -> Vec<Value> {
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    let lines = golden
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line.get("steps").is_some() == applies)
        .collect()
}

#[tokio::test]
async fn every_recorded_patch_gives_the_recorded_object() {
    let lab = Lab::new().await;
    let (lines, mut wrong) = (lines(false), Vec::new());
    for line in &lines {
        patch_line(&lab, line, &mut wrong).await;
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        lines.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn every_recorded_apply_gives_the_recorded_object() {
    let lab = Lab::new().await;
    let (lines, mut wrong) = (lines(true), Vec::new());
    for line in &lines {
        apply_line(&lab, line, &mut wrong).await;
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        lines.len(),
        wrong.join("\n")
    );
}
