//! Kinds that are questions: the posted object is answered on the spot and stored nowhere.

use serde_json::{Value, json};

use super::{Answer, Call};
use crate::embedded::api::reviews;
use crate::embedded::api::status::{Failure, json_response};

/// Answers a review.
pub(super) fn handle(call: &Call) -> Answer {
    if call.attributes.verb != "create" {
        return Err(Failure::method_not_allowed());
    }
    let kind = call.kind;
    let sent = call.typed(call.object()?)?;
    let (user, policy) = (&call.user, call.api.policy());
    let answer = match kind.plural {
        "selfsubjectaccessreviews" => reviews::self_subject_access_review(&sent, user, &policy)?,
        "subjectaccessreviews" => reviews::subject_access_review(&sent, &policy)?,
        "localsubjectaccessreviews" => {
            reviews::local_subject_access_review(&sent, &call.attributes.namespace, &policy)?
        }
        "selfsubjectrulesreviews" => reviews::self_subject_rules_review(&sent, user, &policy)?,
        "selfsubjectreviews" => reviews::self_subject_review(user),
        "tokenreviews" => token_review(call, &sent),
        _ => return Err(Failure::PageNotFound),
    };
    Ok(json_response(201, answer.to_string()))
}

fn token_review(call: &Call, sent: &Value) -> Value {
    let token = sent
        .pointer("/spec/token")
        .and_then(Value::as_str)
        .unwrap_or("");
    let uid = |bucket: &str, namespace: &str, name: &str| call.api.uid(bucket, namespace, name);
    let status = match call.api.authenticator().authenticate_token(token, &uid) {
        Ok(user) => {
            let review = reviews::self_subject_review(&user);
            json!({"authenticated": true, "user": review["status"]["userInfo"]})
        }
        Err(_) => json!({"user": {}, "error": "invalid bearer token"}),
    };
    let mut answer = sent.clone();
    answer["status"] = status;
    answer
}
