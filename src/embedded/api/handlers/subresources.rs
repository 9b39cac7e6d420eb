//! status, scale, binding, finalize, token, log, exec, attach, port-forward and the reviews.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::autoscaling::v1::Scale;
use serde_json::{Value, json};

use super::update::{self, Part, Stop};
use super::{Answer, Call, body, read, urls, value_of};
use crate::embedded::api::go_struct;
use crate::embedded::api::logs;
use crate::embedded::api::object;
use crate::embedded::api::patch::{self, PatchType};
use crate::embedded::api::registry::Subresource;
use crate::embedded::api::request::content_type;
use crate::embedded::api::reviews;
use crate::embedded::api::status::{Cause, Failure, json_response};
use crate::embedded::api::store::Place;
use crate::embedded::api::streams;

/// Carries out a request for a subresource.
pub(super) async fn handle(call: &Call) -> Answer {
    let sub = subresource(call)?;
    match sub.name {
        "status" | "finalize" => whole(call),
        "scale" => scale(call),
        "binding" => binding(call),
        "token" => token(call),
        "log" => log(call).await,
        "exec" => streams::exec(call),
        "attach" => streams::attach(call),
        "portforward" => streams::forward(call),
        "ephemeralcontainers" => Err(Failure::bad_request(
            "eventlab: no container can be added to a pod here; `kubectl exec POD -- /eventlab …` runs the workload's own \
             commands in it",
        )),
        _ => Err(Failure::bad_request(format!(
            "eventlab: {} is not offered by the embedded cluster",
            sub.name
        ))),
    }
}

/// The row of the subresource, if it takes this verb.
fn subresource(call: &Call) -> Result<&'static Subresource, Failure> {
    let (kind, asked) = (call.kind, &call.attributes);
    if !urls::is_placed(call) {
        return Err(Failure::unknown_url(kind.custom));
    }
    let verb = asked.verb.as_str();
    match kind.subresource(&asked.subresource) {
        None if kind.custom => Err(Failure::not_found(kind, &asked.name)),
        None => Err(Failure::unknown_resource()),
        Some(sub) if sub.verbs.contains(&verb) => Ok(sub),
        Some(_) if kind.custom => Err(Failure::verb_not_supported(kind, verb)),
        Some(_) => Err(Failure::method_not_allowed()),
    }
}

/// A token for the service account.
fn token(call: &Call) -> Answer {
    let account = value_of(&*call.current()?)?;
    let sent = body::parse(&call.headers, &call.body)?;
    go_struct::decode::<TokenRequest>(&sent)
        .map_err(|why| body::unhandled_as("TokenRequest", "v1", "TokenRequest", &why.text))?;
    let pod = |name: &str| bound_pod(call, name);
    let answer = reviews::token_request(&sent, &account, call.api.authenticator(), &pod)?;
    Ok(json_response(201, answer.to_string()))
}

fn bound_pod(call: &Call, name: &str) -> Option<reviews::BoundPod> {
    let place = Place {
        bucket: "pods",
        namespace: call.namespace(),
        name,
    };
    let stored = call.api.store().get(place)?;
    let pod = stored.value().ok()?;
    let account = pod.pointer("/spec/serviceAccountName")?.as_str()?;
    Some(reviews::BoundPod {
        uid: stored.head.uid.to_string(),
        service_account: account.to_owned(),
    })
}

/// The log of a container, from whoever runs the pods.
async fn log(call: &Call) -> Answer {
    let pod = value_of(&*call.current()?)?;
    let Some(logs) = call.api.pod_logs() else {
        return Err(Failure::bad_request(
            "no node is running, so there are no container logs; start the cluster's node and try again",
        ));
    };
    let parameter = |key: &str| call.query.get(key).map(str::to_owned);
    Ok(logs::answer(&pod, parameter, &*logs).await?)
}

fn whole(call: &Call) -> Answer {
    match call.attributes.verb.as_str() {
        "get" => read::get(call),
        "update" => update::put(call),
        "patch" => update::patch(call),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Puts a pod on a node.
fn binding(call: &Call) -> Answer {
    let binding = body::parse(&call.headers, &call.body)?;
    let node = binding
        .pointer("/target/name")
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    if node.is_empty() {
        let cause = Cause::required("target.name", "");
        return Err(Failure::invalid_as(
            "",
            "Binding",
            &call.attributes.name,
            vec![cause],
        ));
    }
    let dry = call.dry_run()?;
    loop {
        let current = call.current()?;
        let old = value_of(&current)?;
        let bound = old
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .unwrap_or("");
        if object::is_deleting(&old) {
            let why = format!(
                "pod {} is being deleted, cannot be assigned to a host",
                call.attributes.name
            );
            return Err(Failure::conflict(call.kind, &call.attributes.name, &why));
        }
        if !bound.is_empty() {
            let why = format!(
                "pod {} is already assigned to node {bound:?}",
                call.attributes.name
            );
            return Err(Failure::conflict(call.kind, &call.attributes.name, &why));
        }
        let mut new = old.clone();
        if let Some(spec) = object::child(&mut new, "spec") {
            spec.insert("nodeName".to_owned(), Value::from(node.as_str()));
        }
        scheduled(&mut new);
        match update::store_as_is(call, &current, new, dry) {
            Err(Stop::Retry) => {}
            Err(Stop::Fail(failure)) => return Err(failure),
            Ok(_) => {
                let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                return Ok(json_response(201, body.to_string()));
            }
        }
    }
}

fn scheduled(pod: &mut Value) {
    let Some(status) = object::child(pod, "status") else {
        return;
    };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(list) = conditions.as_array_mut() {
        list.retain(|condition| condition.get("type") != Some(&Value::from("PodScheduled")));
        list.push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": object::now()}));
    }
}

/// `autoscaling/v1` Scale of a workload.
fn scale(call: &Call) -> Answer {
    if call.attributes.verb == "get" {
        let current = call.current()?;
        return Ok(json_response(
            200,
            shown_scale(call, &value_of(&current)?).to_string(),
        ));
    }
    let dry = call.dry_run()?;
    loop {
        let current = call.current()?;
        let old = value_of(&current)?;
        let wanted = wanted_replicas(call, &old)?;
        let mut new = old.clone();
        if let Some(spec) = object::child(&mut new, "spec") {
            spec.insert("replicas".to_owned(), Value::from(wanted));
        }
        match update::replace(call, &current, &old, new.clone(), Part::Main, dry) {
            Err(Stop::Retry) => {}
            Err(Stop::Fail(failure)) => return Err(failure),
            Ok(_) => {
                let fresh = if dry {
                    new
                } else {
                    value_of(&*call.current()?)?
                };
                return Ok(json_response(200, shown_scale(call, &fresh).to_string()));
            }
        }
    }
}

fn wanted_replicas(call: &Call, old: &Value) -> Result<i64, Failure> {
    let sent = body::parse(&call.headers, &call.body)?;
    let scale = if call.attributes.verb == "patch" {
        patched_scale(call, old, &sent)?
    } else {
        sent_scale(&sent)?
    };
    let name = scale.metadata.name.unwrap_or_default();
    let url = &call.attributes.name;
    if !name.is_empty() && name != *url {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        )));
    }
    let version = scale.metadata.resource_version.unwrap_or_default();
    if !version.is_empty() && version != object::meta(old, "resourceVersion") {
        return Err(Failure::modified(call.kind, url));
    }
    let count = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
    if count < 0 {
        let why = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", &Value::from(count), why);
        return Err(Failure::invalid_as(
            "autoscaling",
            "Scale",
            url,
            vec![cause],
        ));
    }
    Ok(i64::from(count))
}

fn patched_scale(call: &Call, old: &Value, sent: &Value) -> Result<Scale, Failure> {
    let kind = PatchType::parse(&content_type(&call.headers), false)?;
    let shown = shown_scale(call, old);
    let new = match kind {
        PatchType::Json => patch::json(shown, sent)?,
        PatchType::Strategic => patch::strategic_merge(shown, sent)?,
        PatchType::Merge | PatchType::Apply => patch::merge(shown, sent)?,
    };
    go_struct::decode(&new).map_err(|why| update::misfitting(kind, sent, &why))
}

fn sent_scale(sent: &Value) -> Result<Scale, Failure> {
    let unhandled = |found: &str, why: &str| body::unhandled_as(found, "v1", "Scale", why);
    let found = sent.get("kind").and_then(Value::as_str).unwrap_or("");
    if !matches!(found, "" | "Scale") {
        let why = format!("converting (v1.{found}) to (autoscaling.Scale): unknown conversion");
        return Err(unhandled(found, &why));
    }
    go_struct::decode(sent).map_err(|why| unhandled("Scale", &why.text))
}

fn shown_scale(call: &Call, object: &Value) -> Value {
    let labels = object
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let selector: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": call.attributes.name, "namespace": call.namespace(), "uid": object::uid(object),
            "resourceVersion": object::meta(object, "resourceVersion"),
            "creationTimestamp": object::meta(object, "creationTimestamp"),
        },
        "spec": {"replicas": number("/spec/replicas")},
        "status": {"replicas": number("/status/replicas"), "selector": selector.join(",")},
    })
}
