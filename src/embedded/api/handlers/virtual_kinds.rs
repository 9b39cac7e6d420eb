//! Kinds that are questions: the posted object is answered on the spot and stored nowhere.

use serde_json::{Value, json};

use super::{Answer, Call};
use crate::embedded::api::authn::{ISSUER, Refusal};
use crate::embedded::api::go_text;
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
        "tokenreviews" => token_review(call, &sent)?,
        _ => return Err(Failure::PageNotFound),
    };
    Ok(json_response(201, answer.to_string()))
}

fn token_review(call: &Call, sent: &Value) -> Result<Value, Failure> {
    let spec = sent.get("spec").unwrap_or(&Value::Null);
    let token = spec.get("token").and_then(Value::as_str).unwrap_or("");
    if token.is_empty() {
        return Err(Failure::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences = spec.get("audiences").and_then(Value::as_array);
    let audiences = audiences.into_iter().flatten().filter_map(Value::as_str);
    let mut audiences: Vec<String> = audiences.map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let uid = |bucket: &str, namespace: &str, name: &str| call.api.uid(bucket, namespace, name);
    let authenticator = call.api.authenticator();
    let status = match authenticator.authenticate_for(token, &audiences, &uid) {
        Ok((user, meant)) => {
            let review = reviews::self_subject_review(&user);
            json!({"authenticated": true, "user": review["status"]["userInfo"], "audiences": meant})
        }
        Err(refusal) => json!({"user": {}, "error": refused(&refusal, &audiences)}),
    };
    let mut answer = sent.clone();
    answer["status"] = status;
    Ok(answer)
}

fn refused(refusal: &Refusal, wanted: &[String]) -> String {
    match refusal {
        Refusal::Invalid => "invalid bearer token".to_owned(),
        Refusal::Audience(meant) => format!(
            "[invalid bearer token, token audiences {} is invalid for the target audiences {}]",
            go_text::quote_list(meant),
            go_text::quote_list(wanted)
        ),
    }
}
