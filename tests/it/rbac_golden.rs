//! The RBAC evaluator against kube-apiserver's own answers.

use std::fs::File;
use std::io::{BufRead, BufReader};

use eventlab::embedded::api::attributes::{Attributes, ResourceAttributes, User};
use eventlab::embedded::api::rbac::{Policy, Verdict};
use eventlab::embedded::api::roles;
use serde_json::Value;

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn user(query: &Value) -> User {
    let groups = query["groups"].as_array().into_iter().flatten();
    User {
        name: text(query, "user"),
        groups: groups
            .filter_map(|group| group.as_str().map(str::to_owned))
            .collect(),
        ..User::default()
    }
}

fn attributes(query: &Value) -> Attributes {
    let wanted = &query["resourceAttributes"];
    if wanted.is_null() {
        let wanted = &query["nonResourceAttributes"];
        return Attributes::NonResource {
            verb: text(wanted, "verb"),
            path: text(wanted, "path"),
        };
    }
    Attributes::Resource(ResourceAttributes {
        verb: text(wanted, "verb"),
        group: text(wanted, "group"),
        version: text(wanted, "version"),
        resource: text(wanted, "resource"),
        subresource: text(wanted, "subresource"),
        namespace: text(wanted, "namespace"),
        name: text(wanted, "name"),
    })
}

/// Upstream walks bindings in an order of chance: its reason may name any binding that allows on its own.
fn is_a_reason(want: &str, objects: &[&Value], user: &User, attributes: &Attributes) -> bool {
    objects
        .iter()
        .filter(|object| object.get("roleRef").is_some())
        .any(|binding| {
            let alone = objects
                .iter()
                .copied()
                .filter(|other| other.get("roleRef").is_none() || std::ptr::eq(*other, *binding));
            Policy::new(alone).authorize(user, attributes).reason == want
        })
}

#[test]
fn every_answer_is_upstreams() {
    let defaults = roles::defaults();
    let file = File::open(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/rbac.jsonl"
    ))
    .unwrap();
    let (mut answers, mut wrong) = (0, Vec::new());
    for line in BufReader::new(file).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let objects: Vec<&Value> = defaults
            .iter()
            .chain(line["objects"].as_array().unwrap())
            .collect();
        let policy = Policy::new(objects.iter().copied());
        for query in line["queries"].as_array().unwrap() {
            answers += 1;
            let (user, attributes) = (user(query), attributes(query));
            let want = Verdict {
                allowed: query["allowed"] == true,
                reason: text(query, "reason"),
            };
            let got = policy.authorize(&user, &attributes);
            let other_binding = || {
                got.allowed
                    && want.allowed
                    && is_a_reason(&want.reason, &objects, &user, &attributes)
            };
            if got != want && !other_binding() {
                wrong.push(format!("{}: {query}\n  got {got:?}", line["id"]));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {answers} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
    assert_eq!(answers, 3936);
}
