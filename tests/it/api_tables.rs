//! Tables, compared with those of kube-apiserver 1.36.2.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::api_support::{Lab, answer, send};

pub const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tables.jsonl");
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

async fn table(lab: &Lab, path: &str) -> Value {
    let token = lab.admin_token();
    let request = Request::builder()
        .uri(path)
        .header("Authorization", format!("Bearer {token}"))
        .header("Accept", TABLE)
        .body(Body::empty())
        .unwrap();
    let (code, body) = answer(lab, request).await;
    assert_eq!(code, 200, "{path}: {body}");
    body
}

/// Puts the recorded object into the cluster; what only a controller writes goes through the status URL.
pub async fn store(lab: &Lab, collection: &str, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let mut new = object.clone();
    new["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let (code, body) = send(lab, "POST", collection, "application/json", new.to_string()).await;
    assert!(code == 201 || code == 409, "{collection}: {body}");
    if object.get("status").is_some() {
        let patch = json!({"status": object["status"]});
        let path = format!("{collection}/{name}/status");
        send(
            lab,
            "PATCH",
            &path,
            "application/merge-patch+json",
            patch.to_string(),
        )
        .await;
    }
}

fn is_age(cell: &Value) -> bool {
    let text = cell.as_str().unwrap_or("");
    let digits = text.trim_end_matches(['s', 'm', 'h', 'd', 'y']);
    digits != text
        && !digits.is_empty()
        && digits
            .chars()
            .all(|c| c.is_ascii_digit() || "smhdy".contains(c))
}

fn same_cell(column: &Value, have: &Value, want: &Value) -> bool {
    let clock = column["name"] == "Created At";
    have == want || (is_age(have) && is_age(want)) || (clock && have.is_string())
}

fn columns(table: &Value) -> Vec<Value> {
    let list = table["columnDefinitions"].as_array().unwrap();
    list.iter()
        .map(|c| json!([c["name"], c["type"], c["format"], c["priority"]]))
        .collect()
}

#[tokio::test]
async fn every_recorded_table_is_printed() {
    let lab = Lab::new().await;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in std::fs::read_to_string(GOLDEN).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let path = line["path"].as_str().unwrap();
        let collection = path.split('?').next().unwrap();
        for object in line["objects"].as_array().unwrap() {
            store(&lab, collection, object).await;
        }
        let have = table(&lab, collection).await;
        let want: Vec<Value> = line["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| json!([c["name"], c["type"], c["format"], c["priority"]]))
            .collect();
        if columns(&have) != want {
            wrong.push(format!(
                "{path}: columns\n  want {}\n  have {}",
                json!(want),
                json!(columns(&have))
            ));
        }
        for cells in line["cells"].as_array().unwrap() {
            count += 1;
            let at = want.iter().position(|column| column[2] == "name").unwrap();
            let rows = have["rows"].as_array().unwrap();
            let row = rows.iter().find(|row| row["cells"][at] == cells[at]);
            let Some(row) = row else {
                wrong.push(format!("{path}: no row {cells}"));
                continue;
            };
            let named: Vec<Value> = have["columnDefinitions"].as_array().unwrap().clone();
            let pairs = named
                .iter()
                .zip(row["cells"].as_array().unwrap())
                .zip(cells.as_array().unwrap());
            if !pairs
                .into_iter()
                .all(|((column, have), want)| same_cell(column, have, want))
            {
                wrong.push(format!(
                    "{path}: row\n  want {cells}\n  have {}",
                    row["cells"]
                ));
            }
            assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} rows differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
