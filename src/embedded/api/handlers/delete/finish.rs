//! When an object that is being deleted may go, and what follows from it.

use std::sync::Arc;

use serde_json::Value;

use super::super::update::Stop;
use super::super::{Call, write_failure};
use super::remaining;
use crate::embedded::api::object;
use crate::embedded::api::registry::Kind;
use crate::embedded::api::server::ApiServer;
use crate::embedded::api::status::Failure;
use crate::embedded::api::store::{Place, Stored, WriteError};

/// True if nothing holds the object any more: no finalizer, and for a pod no grace.
#[must_use]
pub(in crate::embedded::api::handlers) fn is_due(kind: &Kind, object: &Value) -> bool {
    if !object::is_deleting(object) || object::has_finalizers(object) {
        return false;
    }
    match (kind.group, kind.plural) {
        ("", "pods") => {
            object
                .pointer("/metadata/deletionGracePeriodSeconds")
                .and_then(Value::as_i64)
                .unwrap_or(0)
                == 0
        }
        ("", "namespaces") => {
            let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
            finalizers.is_none_or(Vec::is_empty)
        }
        _ => true,
    }
}

/// Removes the object of the request.
pub(in crate::embedded::api::handlers) fn remove(
    call: &Call,
    current: &Arc<Stored>,
    last: Value,
) -> Result<(), Stop> {
    remove_at(call, current, last)
}

/// Removes a stored object of the request's kind.
pub(super) fn remove_at(call: &Call, current: &Arc<Stored>, last: Value) -> Result<(), Stop> {
    let bucket = call.bucket();
    let place = Place {
        bucket: &bucket,
        namespace: &current.namespace,
        name: &current.name,
    };
    match call.api.store().remove(place, current.rv, last) {
        Ok(_) => {}
        Err(WriteError::Changed) => return Err(Stop::Retry),
        Err(error) => return Err(Stop::Fail(write_failure(call.kind, &current.name, error))),
    }
    after_remove(&call.api, call.kind, current);
    Ok(())
}

fn after_remove(api: &Arc<ApiServer>, kind: &Kind, gone: &Stored) {
    if !kind.namespaced {
        return;
    }
    end_namespace(api, &gone.namespace);
    remaining::tell_again(api, &gone.namespace);
    if kind.plural == "serviceaccounts" && &*gone.name == "default" {
        // Its controller makes it anew at once; a namespace that is ending refuses it.
        if let Err(failure) = api.make_default_account(&gone.namespace) {
            let expected = matches!(failure, Failure::Status(ref status) if matches!(status.code, 403 | 404 | 409));
            if !expected {
                tracing::warn!(
                    namespace = &*gone.namespace,
                    "cannot make the default service account anew"
                );
            }
        }
    }
}

/// Removes a namespace that is ending, once nothing is left in it.
pub(super) fn end_namespace(api: &Arc<ApiServer>, namespace: &str) {
    let place = Place {
        bucket: "namespaces",
        namespace: "",
        name: namespace,
    };
    for _ in 0..100 {
        let Some(stored) = api.store().get(place).filter(|stored| stored.head.deleting) else {
            return;
        };
        if api.store().namespace_in_use(namespace) {
            return;
        }
        let Ok(mut value) = stored.value() else {
            return;
        };
        if let Some(spec) = object::child(&mut value, "spec") {
            spec.shift_remove("finalizers");
        }
        let result = if object::has_finalizers(&value) {
            if stored.value().is_ok_and(|old| old == value) {
                return;
            }
            api.store().put(place, Some(stored.rv), value).map(drop)
        } else {
            api.store().remove(place, stored.rv, value).map(drop)
        };
        match result {
            Err(WriteError::Changed) => {}
            Err(error) => {
                tracing::warn!(namespace, %error, "cannot end the namespace");
                return;
            }
            Ok(()) => return,
        }
    }
}
