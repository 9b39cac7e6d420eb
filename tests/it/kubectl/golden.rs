//! What a real API server answered, printed by a real kubectl: tables, refusals, patches, applies and resource lists.
//!
//! The API stands alone here: no controller changes what was recorded.

use std::path::Path;

use serde_json::{Value, json};

use super::{Kubectl, binaries, holds};
use crate::api_patches::{bare, remove};
use crate::api_support::{Lab, Transport, create};
use crate::api_tables::store;
use crate::{api_errors, api_patches, api_tables};

fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// `pods`, or `events.events.k8s.io` for the resource of a path.
fn resource(path: &str) -> String {
    let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let plural = parts.pop().unwrap();
    match parts.as_slice() {
        ["apis", group, version, ..] => format!("{plural}.{version}.{group}"),
        _ => plural.to_owned(),
    }
}

struct World {
    lab: Lab,
    k: Kubectl,
}

async fn world(binary: &Path) -> World {
    let lab = Lab::over(Transport::Tls).await;
    let config = lab.directory().join("kubeconfig");
    std::fs::write(&config, lab.kubeconfig(&lab.admin_token())).unwrap();
    let k = Kubectl::new(binary, lab.directory(), &config);
    World { lab, k }
}

/// Every recorded table, wide and with labels, line by line.
async fn tables(world: &mut World) -> usize {
    let World { lab, k } = world;
    let mut rows = 0;
    for line in lines(api_tables::GOLDEN) {
        let collection = line["path"].as_str().unwrap().split('?').next().unwrap();
        for object in line["objects"].as_array().unwrap() {
            store(lab, collection, object).await;
        }
        let command = format!("get {} -o wide", resource(collection));
        let (_, said) = k.text(&command);
        let columns = line["columns"].as_array().unwrap();
        let cells = line["cells"].as_array().unwrap();
        if cells.is_empty() {
            // Without a row kubectl prints no table.
            if !said.starts_with("No resources found") {
                k.report(format!("{command}: {said}"));
            }
            continue;
        }
        let head: Vec<String> = columns
            .iter()
            .map(|column| column["name"].as_str().unwrap().to_uppercase())
            .collect();
        let mut printed = said.lines();
        let first = printed.next().unwrap_or_default();
        if first.split_whitespace().collect::<Vec<_>>().join(" ") != head.join(" ") {
            k.report(format!("{command}: {first:?}, wanted {head:?}"));
        }
        for row in cells {
            rows += 1;
            if !said.lines().skip(1).any(|line| shows(line, columns, row)) {
                k.report(format!("{command}: no line shows {row} in\n{said}"));
            }
        }
    }
    rows
}

/// Whether a printed line has these cells in their order; ages and times are another run's.
fn shows(line: &str, columns: &[Value], cells: &Value) -> bool {
    let mut rest = line;
    for (column, cell) in columns.iter().zip(cells.as_array().unwrap()) {
        let name = column["name"].as_str().unwrap();
        if matches!(name, "Age" | "Created At" | "Last Seen" | "First Seen") {
            continue;
        }
        let text = match cell {
            Value::String(text) => text.trim().to_owned(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        // A restart count says how long ago.
        let text = text.split(" (").next().unwrap_or_default();
        match rest.find(text) {
            Some(at) => rest = &rest[at + text.len()..],
            None => return false,
        }
    }
    true
}

/// Every recorded refusal that a kubectl can provoke; answers how many there were.
async fn refusals(world: &mut World) -> usize {
    let World { lab, k } = world;
    api_errors::prepare(lab).await;
    let mut tried = 0;
    for line in lines(api_errors::GOLDEN) {
        let (method, path) = (
            line["method"].as_str().unwrap(),
            line["path"].as_str().unwrap(),
        );
        let verb = match method {
            "GET" => "get",
            "POST" => "create",
            "PUT" => "replace",
            "DELETE" => "delete",
            // It has no raw form of it.
            _ => continue,
        };
        // Without credentials it asks for some.
        let Some(token) = api_errors::token(&lab.server, &line["as"]) else {
            continue;
        };
        tried += 1;
        let body = match &line["body"] {
            Value::Null => "{}".to_owned(),
            body => body.to_string(),
        };
        let file = match verb {
            "create" | "replace" => " -f -",
            "delete" if !line["body"].is_null() => " -f -",
            _ => "",
        };
        let command = format!("{verb} --raw '{path}'{file} --token={token}");
        let (success, said) = k.speak(&command, &body);
        let want = &line["want"];
        let code = want["code"].as_u64().unwrap();
        if success != (code < 300) || !tells(&said, want) {
            k.report(format!(
                "{verb} --raw {path} as {}\n  wanted {want}\n  said   {said}",
                line["as"]
            ));
        }
    }
    tried
}

/// Whether kubectl passes a refusal on, in the words that it has for its kind.
fn tells(said: &str, want: &Value) -> bool {
    let body = &want["body"];
    let message = body["message"].as_str().unwrap_or_default();
    match (want["code"].as_u64(), body["reason"].as_str()) {
        (Some(200), _) => true,
        (Some(401), _) => said.contains("You must be logged in to the server"),
        // It puts this together from the causes.
        (Some(422), _) => {
            let causes = body["details"]["causes"].as_array().into_iter().flatten();
            let kind = body["details"]["kind"].as_str().unwrap_or_default();
            let mut causes = causes.filter_map(|cause| cause["message"].as_str());
            said.contains(&format!("The {kind} ")) && causes.all(|cause| said.contains(cause))
        }
        (_, Some(reason)) if !message.is_empty() => {
            said.contains(&format!("Error from server ({reason}): {message}"))
        }
        // A page and no Status, or one without a reason.
        _ => said.contains("Error from server") && said.contains(message),
    }
}

/// Every recorded patch that kubectl sends, and what became of it.
async fn patches(world: &mut World) -> usize {
    let World { lab, k } = world;
    let mut tried = 0;
    for line in api_patches::lines(false) {
        let kind = match line["contentType"].as_str().unwrap() {
            "application/merge-patch+json" => "merge",
            "application/json-patch+json" => "json",
            "application/strategic-merge-patch+json" => "strategic",
            // It sends no other.
            _ => continue,
        };
        let path = line["resource"].as_str().unwrap();
        create(lab, path, line["before"].clone()).await;
        tried += 1;
        let patch = match &line["patch"] {
            Value::String(raw) => raw.clone(),
            other => other.to_string(),
        };
        k.file("patch.json", &patch);
        let command = format!(
            "patch {} x --type={kind} --patch-file=patch.json -o json",
            resource(path)
        );
        let (success, said) = k.text(&command);
        judge(k, &line["id"], &patch, &line["want"], success, &said);
        remove(lab, &format!("{path}/x")).await;
    }
    tried
}

/// Every recorded server-side apply, step by step.
async fn applies(world: &mut World) -> usize {
    let World { lab, k } = world;
    let mut tried = 0;
    for line in api_patches::lines(true) {
        let path = line["resource"].as_str().unwrap();
        for step in line["steps"].as_array().unwrap() {
            tried += 1;
            let manager = step["manager"].as_str().unwrap();
            let force = if step["force"] == true {
                " --force-conflicts"
            } else {
                ""
            };
            let command =
                format!("apply --server-side --field-manager={manager}{force} -f - -o json");
            let (success, said) = k.speak(&command, &step["apply"].to_string());
            judge(
                k,
                &line["id"],
                &step["apply"].to_string(),
                &step["want"],
                success,
                &said,
            );
        }
        remove(lab, &format!("{path}/x")).await;
    }
    tried
}

fn judge(k: &mut Kubectl, id: &Value, sent: &str, want: &Value, success: bool, said: &str) {
    let right = if want["code"].as_u64().unwrap() < 300 {
        // Warnings come after what it printed.
        let mut printed = serde_json::Deserializer::from_str(said).into_iter::<Value>();
        let have = printed.next().and_then(Result::ok).unwrap_or_default();
        success && bare(&have) == bare(&want["body"])
    } else {
        let message = want["body"]["message"].as_str().unwrap_or_default();
        let first = message.lines().next().unwrap_or_default();
        // What is no JSON it refuses by itself; a long dump of a patch is worded by each server as it likes.
        let own = said.contains("unable to parse") || message.contains("invalid character");
        let dump = message.contains("patch: Invalid value");
        !success && (own || dump || said.contains(first) || tells(said, want))
    };
    if !right {
        k.report(format!("{id} {sent}\n  wanted {want}\n  said   {said}"));
    }
}

/// The recorded resource lists, as `api-resources` prints them.
fn resources(world: &mut World) -> usize {
    let k = &mut world.k;
    let mut count = 0;
    for (file, group) in [
        ("discovery-core.json", "''"),
        ("discovery-argoproj.json", "argoproj.io"),
    ] {
        let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
        let want: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let (_, said) = k.text(&format!(
            "api-resources --api-group={group} --no-headers -o wide"
        ));
        let printed: Vec<Vec<String>> = said.lines().map(sorted_words).collect();
        for resource in want["resources"].as_array().unwrap() {
            let text = |field: &str| resource[field].as_str().unwrap_or_default();
            let joined = |field: &str| {
                let words = resource[field].as_array().into_iter().flatten();
                let mut words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
                words.sort_unstable();
                words.join(",")
            };
            // Subresources are not listed.
            if text("name").contains('/') {
                continue;
            }
            count += 1;
            let (namespaced, version) = (
                resource["namespaced"].to_string(),
                want["groupVersion"].as_str().unwrap(),
            );
            let short = resource["shortNames"].as_array().into_iter().flatten();
            let short = short
                .map(|word| word.as_str().unwrap())
                .collect::<Vec<_>>()
                .join(",");
            let (verbs, categories) = (joined("verbs"), joined("categories"));
            let all = [
                text("name"),
                &short,
                version,
                &namespaced,
                text("kind"),
                &verbs,
                &categories,
            ];
            let wanted = sorted_words(&all.join(" "));
            if !printed.contains(&wanted) {
                k.report(format!("api-resources: no line {wanted:?} in\n{said}"));
            }
        }
    }
    count
}

/// The words of a line, those in a list in their order: each server has its own for verbs.
fn sorted_words(line: &str) -> Vec<String> {
    let words = line.split_whitespace().map(|word| {
        let mut parts: Vec<&str> = word.split(',').collect();
        parts.sort_unstable();
        parts.join(",")
    });
    words.collect()
}

async fn golden(binary: &Path) -> Vec<String> {
    let mut world = world(binary).await;
    let tables = tables(&mut world).await;
    let mut wrong = std::mem::take(&mut world.k.wrong);
    // Each in a place without what was recorded for other lines.
    world = self::world(binary).await;
    let refusals = refusals(&mut world).await;
    wrong.append(&mut world.k.wrong);
    world = self::world(binary).await;
    let (patches, applies) = (patches(&mut world).await, applies(&mut world).await);
    let resources = resources(&mut world);
    let counted = json!([tables, refusals, patches, applies, resources]);
    eprintln!(
        "kubectl 1.{}: rows, refusals, patches, applies, resources {counted} as recorded",
        world.k.minor
    );
    // So that none goes untried without a word: of the refusals those that kubectl has no raw form for, and the one
    // without credentials, of the patches one that is none.
    let (lines, patch_lines) = (
        lines(api_errors::GOLDEN).len(),
        api_patches::lines(false).len(),
    );
    assert!(
        tables >= 32 && refusals + 5 >= lines,
        "{counted} of {lines}"
    );
    assert!(
        patches + 1 == patch_lines && applies >= 31 && resources >= 20,
        "{counted}"
    );
    wrong.append(&mut world.k.wrong);
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_kubectl_prints_what_a_real_server_answered() {
    if let Some(binary) = binaries().pop() {
        holds(&golden(&binary).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: every kubectl version that is installed"]
async fn every_kubectl_prints_what_a_real_server_answered() {
    let mut wrong = Vec::new();
    for binary in binaries() {
        wrong.extend(golden(&binary).await);
    }
    holds(&wrong);
}
