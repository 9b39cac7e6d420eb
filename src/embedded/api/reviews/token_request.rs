//! `serviceaccounts/NAME/token`: a token for a service account, perhaps bound to a pod.

use jiff::SignedDuration;
use kube::core::Status;
use serde_json::{Value, json};

use super::{AUTHENTICATION, invalid, reject, strings, text};
use crate::embedded::api::authn::{Authenticator, ISSUER, PodBinding};
use crate::embedded::api::go_text;

const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

/// What must be known of a pod that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundPod {
    pub uid: String,
    /// `spec.serviceAccountName`.
    pub service_account: String,
}

/// Answers a TokenRequest for a stored service account; `pod` looks a pod of its namespace up.
///
/// # Errors
/// 422 for a lifetime out of range or a reference to something that is no pod, 404, 409 or 400 for a pod that is not
/// there, is another one now, or runs as somebody else.
pub fn token_request(
    body: &Value,
    service_account: &Value,
    authenticator: &Authenticator,
    pod: &dyn Fn(&str) -> Option<BoundPod>,
) -> Result<Value, Box<Status>> {
    let account = &service_account["metadata"];
    let (namespace, name) = (text(account, "namespace"), text(account, "name"));
    let spec = &body["spec"];
    let seconds = spec["expirationSeconds"]
        .as_i64()
        .unwrap_or(DEFAULT_SECONDS);
    check(seconds, &spec["boundObjectRef"])?;
    let binding = bound_pod(&spec["boundObjectRef"], name, pod)?;
    let mut audiences = strings(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let lifetime = SignedDuration::from_secs(seconds);
    let uid = text(account, "uid");
    let issued = authenticator.issue_service_account(
        namespace,
        name,
        uid,
        &audiences,
        lifetime,
        binding.as_ref(),
    );
    Ok(json!({
        "kind": KIND,
        "apiVersion": format!("{AUTHENTICATION}/v1"),
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": null},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": spec["boundObjectRef"],
        },
        "status": {"token": issued.token, "expirationTimestamp": issued.expires.to_string()},
    }))
}

fn check(seconds: i64, reference: &Value) -> Result<(), Box<Status>> {
    let mut problems = Vec::new();
    let field = "spec.expirationSeconds";
    if seconds < MIN_SECONDS {
        problems.push(invalid(
            field,
            &json!(seconds),
            "may not specify a duration less than 10 minutes",
        ));
    }
    if seconds > MAX_SECONDS {
        problems.push(invalid(
            field,
            &json!(seconds),
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    if !reference.is_null() && text(reference, "kind") != "Pod" {
        let kind = &reference["kind"];
        problems.push(invalid(
            "spec.boundObjectRef.kind",
            kind,
            "this API server binds tokens to pods only",
        ));
    }
    reject(KIND, AUTHENTICATION, problems)
}

fn bound_pod(
    reference: &Value,
    service_account: &str,
    pod: &dyn Fn(&str) -> Option<BoundPod>,
) -> Result<Option<PodBinding>, Box<Status>> {
    if reference.is_null() {
        return Ok(None);
    }
    let name = text(reference, "name");
    let quoted = go_text::quote(name);
    let Some(found) = pod(name) else {
        return Err(failure(
            404,
            "NotFound",
            &format!("pods {quoted} not found"),
        ));
    };
    let uid = text(reference, "uid");
    if !uid.is_empty() && uid != found.uid {
        let message = format!(
            "Operation cannot be fulfilled on Pod {quoted}: the UID in the bound object reference ({uid}) does not \
             match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(failure(409, "Conflict", &message));
    }
    if found.service_account != service_account {
        let message = format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            go_text::quote(service_account)
        );
        return Err(failure(400, "BadRequest", &message));
    }
    Ok(Some(PodBinding {
        name: name.to_owned(),
        uid: found.uid,
    }))
}

fn failure(code: u16, reason: &str, message: &str) -> Box<Status> {
    Box::new(Status::failure(message, reason).with_code(code))
}
