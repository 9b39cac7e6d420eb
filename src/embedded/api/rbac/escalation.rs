//! The escalation guard: nobody grants rights that they do not hold.
//!
//! Rules of `pkg/registry/rbac` of Kubernetes: verb `escalate` on roles and `bind` on the referenced role lift it.

use std::collections::{BTreeSet, HashMap};

use kube::core::Status;
use serde_json::Value;

use super::message::details;
use super::rule::{self, Rule};
use super::{GROUP, Policy, RoleRefError, forbidden_because, is_master, text};
use crate::embedded::api::attributes::{ResourceAttributes, User};
use crate::embedded::api::go_text;

/// Larger roles are refused rather than compared part by part.
const MAX_PARTS: usize = 200_000;

/// Checks the write of a Role, ClusterRole, RoleBinding or ClusterRoleBinding; anything else passes.
///
/// `attributes` are those of the request, `object` the object after it, `old` the one before it (none on create).
///
/// # Errors
/// The Status to answer: 403 when the write would grant rights that `user` lacks, 404 when the bound role is missing.
pub fn escalation(
    policy: &Policy,
    user: &User,
    attributes: &ResourceAttributes,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Box<Status>> {
    if attributes.group != GROUP
        || is_master(user)
        || old.is_some_and(|old| grants_the_same(old, object))
    {
        return Ok(());
    }
    match attributes.resource.as_str() {
        "roles" | "clusterroles" => role_write(policy, user, attributes, object),
        "rolebindings" | "clusterrolebindings" => binding_write(policy, user, attributes, object),
        _ => Ok(()),
    }
}

/// Whether only metadata differ, so that nothing new is granted (and garbage collection may proceed).
fn grants_the_same(old: &Value, new: &Value) -> bool {
    ["rules", "aggregationRule", "roleRef", "subjects"]
        .iter()
        .all(|field| old.get(field) == new.get(field))
}

fn role_write(
    policy: &Policy,
    user: &User,
    attributes: &ResourceAttributes,
    role: &Value,
) -> Result<(), Box<Status>> {
    let escalate = ResourceAttributes {
        verb: "escalate".to_owned(),
        version: "*".to_owned(),
        subresource: String::new(),
        ..attributes.clone()
    };
    if policy.authorize_resource(user, &escalate).allowed {
        return Ok(());
    }
    let refuse = |because: &str| {
        let name = text(&role["metadata"], "name");
        Box::new(forbidden_because(
            GROUP,
            &attributes.resource,
            name,
            because,
        ))
    };
    held(
        policy,
        user,
        &attributes.namespace,
        &rule::parse_list(&role["rules"]),
    )
    .map_err(|error| refuse(&error))?;
    let gathers = attributes.resource == "clusterroles"
        && role.get("aggregationRule").is_some_and(|v| !v.is_null());
    if gathers && held(policy, user, "", &everything()).is_err() {
        return Err(refuse(
            "must have cluster-admin privileges to use the aggregationRule",
        ));
    }
    Ok(())
}

fn binding_write(
    policy: &Policy,
    user: &User,
    attributes: &ResourceAttributes,
    binding: &Value,
) -> Result<(), Box<Status>> {
    let role_ref = &binding["roleRef"];
    let (kind, name) = (text(role_ref, "kind"), text(role_ref, "name"));
    if may_bind(policy, user, &attributes.namespace, role_ref) {
        return Ok(());
    }
    let refuse = |because: &str| {
        let binding = text(&binding["metadata"], "name");
        Box::new(forbidden_because(
            GROUP,
            &attributes.resource,
            binding,
            because,
        ))
    };
    let rules = policy
        .role_rules(kind, name, &attributes.namespace)
        .map_err(|error| match error {
            RoleRefError::Missing { ref kind, ref name } => {
                Box::new(missing(&error.to_string(), kind, name))
            }
            RoleRefError::Kind(_) => refuse(&error.to_string()),
        })?;
    held(policy, user, &attributes.namespace, &rules).map_err(|error| refuse(&error))
}

fn may_bind(policy: &Policy, user: &User, namespace: &str, role_ref: &Value) -> bool {
    let resource = match text(role_ref, "kind") {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        _ => return false,
    };
    let bind = ResourceAttributes {
        verb: "bind".to_owned(),
        group: text(role_ref, "apiGroup").to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: text(role_ref, "name").to_owned(),
        ..ResourceAttributes::default()
    };
    policy.authorize_resource(user, &bind).allowed
}

fn missing(message: &str, kind: &str, name: &str) -> Status {
    Status::failure(message, "NotFound")
        .with_code(404)
        .with_details(details(name, GROUP, kind))
}

fn everything() -> [Rule; 2] {
    let star = || vec!["*".to_owned()];
    [
        Rule {
            verbs: star(),
            api_groups: star(),
            resources: star(),
            ..Rule::default()
        },
        Rule {
            verbs: star(),
            non_resource_urls: star(),
            ..Rule::default()
        },
    ]
}

/// Whether `user` holds all of `wanted` in `namespace`; else the text that lists what is missing.
fn held(policy: &Policy, user: &User, namespace: &str, wanted: &[Rule]) -> Result<(), String> {
    let parts = wanted
        .iter()
        .fold(0usize, |sum, rule| sum.saturating_add(rule.parts()));
    if parts > MAX_PARTS {
        return Err(format!(
            "the rules name {parts} single rights; at most {MAX_PARTS} can be checked"
        ));
    }
    let (own, errors) = policy.rules_for(user, namespace);
    let missing: Vec<Rule> = wanted
        .iter()
        .flat_map(Rule::break_down)
        .filter(|part| !own.iter().any(|rule| rule.covers(part)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let lines: BTreeSet<String> = compact(missing).iter().map(describe).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let mut text = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        go_text::quote(&user.name),
        go_text::quote_list(&user.groups),
        lines.join("\n")
    );
    if !errors.is_empty() {
        text.push_str(&format!("; resolution errors: [{}]", errors.join(", ")));
    }
    Err(text)
}

/// Joins the verbs of rules that differ in nothing else.
fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut joined: Vec<Rule> = Vec::new();
    let mut places: HashMap<Rule, usize> = HashMap::new();
    for mut rule in rules {
        if !rule.non_resource_urls.is_empty() {
            joined.push(rule);
            continue;
        }
        let verbs = std::mem::take(&mut rule.verbs);
        let place = *places.entry(rule.clone()).or_insert_with(|| {
            joined.push(rule);
            joined.len() - 1
        });
        joined[place].verbs.extend(verbs);
    }
    joined
}

fn describe(rule: &Rule) -> String {
    let fields = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<String> = fields
        .iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(name, items)| format!("{name}:{}", go_text::quote_list(items)))
        .collect();
    format!("{{{}}}", parts.join(", "))
}
