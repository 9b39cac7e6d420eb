//! delete and deletecollection: grace, finalizers, propagation, and the end of namespaces.

pub(super) mod finish;
mod options;
mod remaining;

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Map, Value, json};

use options::DeleteOptions;

use super::update::Stop;
use super::{Answer, Call, read, value_of, write_failure};
use crate::embedded::api::admission::IMMORTAL;
use crate::embedded::api::object;
use crate::embedded::api::registry::{self, Kind};
use crate::embedded::api::status::{Failure, json_response};
use crate::embedded::api::store::{Place, Stored, WriteError};

const TRIES: usize = 1000;

/// Deletes one object.
pub(super) fn delete(call: &Call) -> Answer {
    let options = DeleteOptions::read(call)?;
    for _ in 0..TRIES {
        let current = call.current()?;
        options.check(call.kind, &current)?;
        match delete_one(call, &current, &options) {
            Err(Stop::Retry) => {}
            Err(Stop::Fail(failure)) => return Err(failure),
            Ok(Outcome::Gone(value)) if call.kind.shown_when_gone() => {
                return Ok(call.answer_value(200, value));
            }
            Ok(Outcome::Marked(value)) => return Ok(call.answer_value(200, value)),
            Ok(Outcome::Gone(_)) => return Ok(success(call, &current)),
        }
    }
    Err(Failure::modified(call.kind, &call.attributes.name))
}

fn success(call: &Call, stored: &Stored) -> axum::response::Response {
    let mut details = Map::new();
    details.insert("name".to_owned(), Value::from(&*stored.name));
    if !call.kind.group.is_empty() {
        details.insert("group".to_owned(), Value::from(call.kind.group));
    }
    details.insert("kind".to_owned(), Value::from(call.kind.plural));
    details.insert("uid".to_owned(), Value::from(&*stored.head.uid));
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    json_response(200, body.to_string())
}

enum Outcome {
    /// Still there, with a deletionTimestamp.
    Marked(Value),
    /// As it was last.
    Gone(Value),
}

fn delete_one(
    call: &Call,
    current: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<Outcome, Stop> {
    let kind = call.kind.stored_as();
    let old = value_of(current)?;
    let mut new = old.clone();
    if kind.plural == "namespaces" && kind.group.is_empty() && IMMORTAL.contains(&&*current.name) {
        return Err(Failure::refused(
            call.kind,
            &current.name,
            "this namespace may not be deleted",
        )
        .into());
    }
    if !kind.childless() {
        propagate(&mut new, options.propagation.as_deref());
    }
    if object::is_deleting(&old) {
        shorten(&mut new, options.grace);
    } else {
        mark(&mut new, grace(kind, &old, options.grace));
    }
    if finish::is_due(kind, &new) {
        let last = if kind.plural == "pods" {
            new.clone()
        } else {
            old
        };
        if !options.dry {
            finish::remove_at(call, current, new)?;
        }
        return Ok(Outcome::Gone(last));
    }
    if kind.plural == "namespaces"
        && kind.group.is_empty()
        && let Some(status) = object::child(&mut new, "status")
    {
        status.insert("phase".to_owned(), Value::from("Terminating"));
    }
    if new == old || options.dry {
        return Ok(Outcome::Marked(new));
    }
    let bucket = call.bucket();
    let place = Place {
        bucket: &bucket,
        namespace: &current.namespace,
        name: &current.name,
    };
    let stored = match call.api.store().put(place, Some(current.rv), new) {
        Ok(stored) => stored,
        Err(WriteError::Changed) => return Err(Stop::Retry),
        Err(error) => return Err(write_failure(call.kind, &current.name, error).into()),
    };
    if kind.plural == "namespaces" && kind.group.is_empty() {
        call.api.empty_namespace(&stored.name);
    }
    Ok(Outcome::Marked(value_of(&stored)?))
}

/// Foreground and orphan deletion are finalizers; a background deletion takes them away again.
fn propagate(object: &mut Value, policy: Option<&str>) {
    let wanted = match policy {
        Some("Foreground") => Some("foregroundDeletion"),
        Some("Orphan") => Some("orphan"),
        Some("Background") => None,
        _ => return,
    };
    let kept = object::strings(object, "finalizers")
        .filter(|one| !matches!(one.as_str(), Some("foregroundDeletion" | "orphan")));
    let mut finalizers: Vec<Value> = kept.cloned().collect();
    finalizers.extend(wanted.map(Value::from));
    if finalizers.is_empty() {
        object::remove_meta(object, "finalizers");
    } else {
        object::set_meta(object, "finalizers", finalizers);
    }
}

/// Seconds that the object may take to end; only pods have any.
fn grace(kind: &Kind, object: &Value, asked: Option<i64>) -> i64 {
    if kind.plural != "pods" || !kind.group.is_empty() {
        return 0;
    }
    let phase = object
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or("");
    let scheduled = object
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty());
    if !scheduled || matches!(phase, "Succeeded" | "Failed") {
        return 0;
    }
    let own = object
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(30);
    at_least_one(asked.unwrap_or(own))
}

/// A grace below zero is a second.
fn at_least_one(grace: i64) -> i64 {
    if grace < 0 { 1 } else { grace }
}

/// A further delete may only shorten what the first one granted, as from its time; one that asks for nothing leaves it.
fn shorten(object: &mut Value, asked: Option<i64>) {
    let granted = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let Some(grace) = asked.map(at_least_one).filter(|grace| *grace < granted) else {
        return;
    };
    let end: Option<jiff::Timestamp> = object::meta(object, "deletionTimestamp").parse().ok();
    let less = jiff::SignedDuration::from_secs(granted - grace);
    if let Some(end) = end.and_then(|end| end.checked_sub(less).ok()) {
        object::set_meta(object, "deletionTimestamp", object::format_time(end));
    }
    object::set_meta(object, "deletionGracePeriodSeconds", grace);
}

fn mark(object: &mut Value, grace: i64) {
    let now = jiff::Timestamp::now();
    let end = now
        .checked_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or(now);
    object::set_meta(object, "deletionTimestamp", object::format_time(end));
    object::set_meta(object, "deletionGracePeriodSeconds", grace);
    if let Some(generation) = object
        .pointer("/metadata/generation")
        .and_then(Value::as_u64)
    {
        object::set_meta(object, "generation", generation + 1);
    }
}

/// Deletes all objects that match.
pub(super) fn delete_collection(call: &Call) -> Answer {
    let options = DeleteOptions::read(call)?;
    let (listing, metadata) = read::listing(call)?;
    for stored in &listing.items {
        delete_again(call, stored, &options)?;
    }
    Ok(json_response(
        200,
        call.shape().list(&listing.items, metadata),
    ))
}

fn delete_again(call: &Call, stored: &Arc<Stored>, options: &DeleteOptions) -> Result<(), Failure> {
    let bucket = call.bucket();
    for _ in 0..TRIES {
        let place = Place {
            bucket: &bucket,
            namespace: &stored.namespace,
            name: &stored.name,
        };
        let Some(current) = call.api.store().get(place) else {
            return Ok(());
        };
        options.check(call.kind, &current)?;
        match delete_one(call, &current, options) {
            Err(Stop::Retry) => {}
            Err(Stop::Fail(failure)) => return Err(failure),
            Ok(_) => return Ok(()),
        }
    }
    Err(Failure::modified(call.kind, &stored.name))
}

/// Deletes everything in a namespace that is ending, as its controller does.
pub(crate) fn empty(api: &Arc<crate::embedded::api::server::ApiServer>, namespace: &str) {
    for (bucket, stored) in api.store().in_namespace(namespace) {
        let Some(kind) = registry::by_bucket(&bucket) else {
            continue;
        };
        let call = internal_call(api, kind, &stored);
        let options = DeleteOptions {
            propagation: Some("Background".to_owned()),
            ..DeleteOptions::default()
        };
        if let Err(failure) = delete_again(&call, &stored, &options) {
            tracing::warn!(
                namespace,
                bucket,
                code = failure.code(),
                "cannot empty the namespace"
            );
        }
    }
    finish::end_namespace(api, namespace);
    remaining::tell(api, namespace);
}

fn internal_call(
    api: &Arc<crate::embedded::api::server::ApiServer>,
    kind: &'static Kind,
    stored: &Stored,
) -> Call {
    Call {
        api: Arc::clone(api),
        user: crate::embedded::api::attributes::User::default(),
        kind,
        attributes: crate::embedded::api::attributes::ResourceAttributes {
            verb: "delete".to_owned(),
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            resource: kind.plural.to_owned(),
            namespace: stored.namespace.to_string(),
            name: stored.name.to_string(),
            ..Default::default()
        },
        query: crate::embedded::api::request::Query::default(),
        headers: HeaderMap::new(),
        body: axum::body::Bytes::new(),
        warnings: std::sync::Mutex::default(),
        upgrade: std::sync::Mutex::default(),
        stop: tokio_util::sync::CancellationToken::new(),
    }
}
