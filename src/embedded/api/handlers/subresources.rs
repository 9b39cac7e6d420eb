//! status, binding, finalize, token, log, exec, attach, port-forward and the reviews.

use k8s_openapi::api::authentication::v1::TokenRequest;
use serde_json::{Value, json};

use super::update::{self, Stop, TRIES};
use super::{Answer, Call, body, preconditions, read, scale, urls, value_of};
use crate::embedded::api::go_struct;
use crate::embedded::api::go_text;
use crate::embedded::api::logs;
use crate::embedded::api::object;
use crate::embedded::api::registry::Subresource;
use crate::embedded::api::reviews;
use crate::embedded::api::status::{Cause, Failure, aggregate, json_response};
use crate::embedded::api::store::Place;
use crate::embedded::api::streams;

/// Carries out a request for a subresource.
pub(super) async fn handle(call: &Call) -> Answer {
    let sub = subresource(call)?;
    match sub.name {
        "status" | "finalize" => whole(call),
        "scale" => scale::handle(call),
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
    let text = |pointer: &str| {
        binding
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("")
    };
    if text("/metadata/name") != call.attributes.name {
        return Err(Failure::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    let node = text("/target/name");
    if let Some(why) = unbindable(text("/target/kind"), node) {
        return Err(Failure::status(500, "", why, None));
    }
    let (uid, version) = (text("/metadata/uid"), text("/metadata/resourceVersion"));
    let refused = |why: &str| {
        Err(Failure::conflict_in(
            call.kind,
            "binding",
            &call.attributes.name,
            why,
        ))
    };
    let dry = call.dry_run()?;
    for _ in 0..TRIES {
        let current = call.current()?;
        let old = value_of(&current)?;
        preconditions::check_uid(call, uid, object::uid(&old))?;
        let is = object::meta(&old, "resourceVersion");
        if !version.is_empty() && version != is {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {is}"
            );
            return Err(preconditions::unmet(call, &why));
        }
        let bound = old
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .unwrap_or("");
        if object::is_deleting(&old) {
            let why = format!(
                "pod {} is being deleted, cannot be assigned to a host",
                call.attributes.name
            );
            return refused(&why);
        }
        if !bound.is_empty() {
            let why = format!(
                "pod {} is already assigned to node {}",
                call.attributes.name,
                go_text::quote(bound)
            );
            return refused(&why);
        }
        let mut new = old.clone();
        if let Some(spec) = object::child(&mut new, "spec") {
            spec.insert("nodeName".to_owned(), Value::from(node));
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
    Err(Failure::modified(call.kind, &call.attributes.name))
}

/// Why a pod cannot be put there, as upstream tells it.
fn unbindable(kind: &str, name: &str) -> Option<String> {
    let kind = (!matches!(kind, "" | "Node"))
        .then(|| Cause::unsupported("target.kind", kind, &["<empty>", "Node"]));
    let name = name.is_empty().then(|| Cause::required("target.name", ""));
    let causes = kind.into_iter().chain(name);
    let told: Vec<String> = causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    (!told.is_empty()).then(|| aggregate(&told))
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
