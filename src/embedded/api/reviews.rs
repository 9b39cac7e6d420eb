//! Questions that are asked as objects: access reviews, rules reviews, "who am I", and token requests.
//!
//! Pure: each function takes the posted body and gives the object to answer with (201) or a Status. Nothing is stored.

mod token_request;

use std::collections::BTreeMap;

use kube::core::Status;
use kube::core::response::StatusCause;
use serde_json::{Map, Value, json};

use super::attributes::{Attributes, ResourceAttributes, User};
use super::object;
use super::rbac::{Policy, Rule};
use super::status::unprocessable;

pub use token_request::{BoundPod, token_request};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// `selfsubjectaccessreviews`: may `user` (as impersonated) do this?
///
/// # Errors
/// 422 when the spec does not name exactly one kind of request, or carries metadata.
pub fn self_subject_access_review(
    body: &Value,
    user: &User,
    policy: &Policy,
) -> Result<Value, Box<Status>> {
    let kind = "SelfSubjectAccessReview";
    let mut problems = spec_problems(&body["spec"]);
    problems.extend(metadata_problem(body, &[], "must be empty"));
    reject(kind, AUTHORIZATION, problems)?;
    Ok(access_answer(kind, body, user, policy))
}

/// `subjectaccessreviews`: may the user named in the spec do this?
///
/// # Errors
/// 422 as [`self_subject_access_review`], and when neither user nor groups are named.
pub fn subject_access_review(body: &Value, policy: &Policy) -> Result<Value, Box<Status>> {
    let kind = "SubjectAccessReview";
    let mut problems = subject_problems(&body["spec"]);
    problems.extend(metadata_problem(body, &[], "must be empty"));
    reject(kind, AUTHORIZATION, problems)?;
    Ok(access_answer(kind, body, &subject(&body["spec"]), policy))
}

/// `localsubjectaccessreviews` in `namespace`.
///
/// # Errors
/// 422 as [`subject_access_review`], and when the spec asks about another namespace or no resource at all.
pub fn local_subject_access_review(
    body: &Value,
    namespace: &str,
    policy: &Policy,
) -> Result<Value, Box<Status>> {
    let kind = "LocalSubjectAccessReview";
    let spec = &body["spec"];
    let mut problems = subject_problems(spec);
    problems.extend(metadata_problem(
        body,
        &["namespace"],
        "must be empty except for namespace",
    ));
    let asked = text(&spec["resourceAttributes"], "namespace");
    if !spec["resourceAttributes"].is_null() && asked != namespace {
        let field = "spec.resourceAttributes.namespace";
        problems.push(invalid(
            field,
            &json!(asked),
            "must match metadata.namespace",
        ));
    }
    if !spec["nonResourceAttributes"].is_null() {
        let (field, why) = (
            "spec.nonResourceAttributes",
            "disallowed on this kind of request",
        );
        problems.push(invalid(field, &spec["nonResourceAttributes"], why));
    }
    reject(kind, AUTHORIZATION, problems)?;
    Ok(access_answer(kind, body, &subject(spec), policy))
}

/// `selfsubjectrulesreviews`: the rules that apply to `user` in one namespace, cluster-wide ones included.
///
/// # Errors
/// 400 without a namespace.
pub fn self_subject_rules_review(
    body: &Value,
    user: &User,
    policy: &Policy,
) -> Result<Value, Box<Status>> {
    let namespace = text(&body["spec"], "namespace");
    if namespace.is_empty() {
        return Err(Box::new(
            Status::failure("no namespace on request", "BadRequest").with_code(400),
        ));
    }
    let (rules, errors) = policy.rules_for(user, namespace);
    let part = |wanted: fn(&Rule) -> bool, unwanted: &[&str]| -> Vec<Value> {
        let rules = rules.iter().filter(|rule| wanted(rule)).map(Rule::to_json);
        rules.map(|rule| without(rule, unwanted)).collect()
    };
    let mut status = json!({
        "resourceRules": part(|rule| !rule.resources.is_empty(), &["nonResourceURLs"]),
        "nonResourceRules":
            part(|rule| !rule.non_resource_urls.is_empty(), &["apiGroups", "resources", "resourceNames"]),
        "incomplete": false,
    });
    if !errors.is_empty() {
        status["evaluationError"] = json!(errors.join(", "));
    }
    Ok(answer(
        "SelfSubjectRulesReview",
        AUTHORIZATION,
        json!({}),
        status,
    ))
}

/// `selfsubjectreviews`: who am I?
#[must_use]
pub fn self_subject_review(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".to_owned(), json!(user.name));
    if !user.uid.is_empty() {
        info.insert("uid".to_owned(), json!(user.uid));
    }
    info.insert("groups".to_owned(), json!(user.groups));
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": format!("{AUTHENTICATION}/v1"),
        "metadata": {"creationTimestamp": object::now()},
        "status": {"userInfo": info},
    })
}

fn without(mut rule: Value, fields: &[&str]) -> Value {
    if let Some(map) = rule.as_object_mut() {
        map.retain(|name, _| !fields.contains(&name.as_str()));
    }
    rule
}

fn access_answer(kind: &str, body: &Value, user: &User, policy: &Policy) -> Value {
    let verdict = policy.authorize(user, &attributes(&body["spec"]));
    let mut status = json!({"allowed": verdict.allowed});
    if !verdict.reason.is_empty() {
        status["reason"] = json!(verdict.reason);
    }
    let mut review = answer(kind, AUTHORIZATION, body["spec"].clone(), status);
    if let Some(namespace) = body["metadata"]["namespace"].as_str() {
        review["metadata"]["namespace"] = json!(namespace);
    }
    review
}

fn answer(kind: &str, group: &str, spec: Value, status: Value) -> Value {
    json!({
        "kind": kind,
        "apiVersion": format!("{group}/v1"),
        "metadata": {"creationTimestamp": null},
        "spec": spec,
        "status": status,
    })
}

/// What the spec of an access review asks about.
fn attributes(spec: &Value) -> Attributes {
    let wanted = &spec["nonResourceAttributes"];
    if !wanted.is_null() {
        return Attributes::NonResource {
            verb: owned(wanted, "verb"),
            path: owned(wanted, "path"),
        };
    }
    let wanted = &spec["resourceAttributes"];
    Attributes::Resource(ResourceAttributes {
        verb: owned(wanted, "verb"),
        group: owned(wanted, "group"),
        version: owned(wanted, "version"),
        resource: owned(wanted, "resource"),
        subresource: owned(wanted, "subresource"),
        namespace: owned(wanted, "namespace"),
        name: owned(wanted, "name"),
    })
}

/// The user that the spec of a SubjectAccessReview names.
fn subject(spec: &Value) -> User {
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: owned(spec, "user"),
        uid: owned(spec, "uid"),
        groups: strings(&spec["groups"]),
        extra: extra
            .map(|(key, values)| (key.clone(), strings(values)))
            .collect::<BTreeMap<_, _>>(),
    }
}

fn spec_problems(spec: &Value) -> Vec<StatusCause> {
    match (
        spec["resourceAttributes"].is_null(),
        spec["nonResourceAttributes"].is_null(),
    ) {
        (false, false) => {
            let why = "cannot be specified in combination with resourceAttributes";
            vec![invalid(
                "spec.nonResourceAttributes",
                &spec["nonResourceAttributes"],
                why,
            )]
        }
        (true, true) => {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![invalid("spec.resourceAttributes", &Value::Null, why)]
        }
        _ => Vec::new(),
    }
}

fn subject_problems(spec: &Value) -> Vec<StatusCause> {
    let mut problems = spec_problems(spec);
    if text(spec, "user").is_empty() && strings(&spec["groups"]).is_empty() {
        problems.push(invalid(
            "spec.user",
            &json!(""),
            "at least one of user or group must be specified",
        ));
    }
    problems
}

fn metadata_problem(body: &Value, allowed: &[&str], why: &str) -> Option<StatusCause> {
    let metadata = body["metadata"].as_object()?;
    let ignored = |name: &String| allowed.contains(&name.as_str()) || name == "managedFields";
    let given = metadata
        .iter()
        .any(|(name, value)| !ignored(name) && !value.is_null());
    given.then(|| invalid("metadata", &body["metadata"], why))
}

fn invalid(field: &str, value: &Value, why: &str) -> StatusCause {
    StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message: format!("Invalid value: {value}: {why}"),
        field: field.to_owned(),
    }
}

/// A 422 that lists `problems`, if there are any.
fn reject(kind: &str, group: &str, problems: Vec<StatusCause>) -> Result<(), Box<Status>> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(unprocessable(group, kind, "", problems))
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn owned(value: &Value, field: &str) -> String {
    text(value, field).to_owned()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests;
