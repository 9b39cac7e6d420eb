//! What a delete may be told: `meta.k8s.io/v1` DeleteOptions.
//!
//! They are read strictly: an option that cannot be understood must not end in a delete without it.

use http::HeaderMap;
use serde_json::Value;

use crate::embedded::api::body;
use crate::embedded::api::go_json;
use crate::embedded::api::go_text::quote;
use crate::embedded::api::handlers::Call;
use crate::embedded::api::registry::Kind;
use crate::embedded::api::request::Query;
use crate::embedded::api::status::{Cause, Failure};
use crate::embedded::api::store::Stored;

const POLICIES: [&str; 3] = ["Foreground", "Background", "Orphan"];
/// Where upstream registers the kinds that a delete may come with; part of its text.
const SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";

/// The options as they were sent.
#[derive(Default)]
struct Sent {
    grace: Option<i64>,
    propagation: Option<String>,
    orphan: Option<bool>,
    uid: Option<String>,
    version: Option<String>,
    dry: Vec<String>,
}

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    pub(super) grace: Option<i64>,
    pub(super) propagation: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) dry: bool,
}

impl DeleteOptions {
    /// From the body, or from the query of a request without one.
    ///
    /// # Errors
    /// 400 for what cannot be read, 422 for what is not allowed.
    pub(super) fn read(call: &Call) -> Result<Self, Failure> {
        let sent = if call.body.is_empty() {
            Sent::in_query(&call.query, call.attributes.verb == "delete")?
        } else {
            Sent::in_body(&call.headers, &call.body)?
        };
        sent.check()?;
        let orphan = sent.orphan.map(|orphan| {
            let policy = if orphan { "Orphan" } else { "Background" };
            policy.to_owned()
        });
        Ok(DeleteOptions {
            grace: sent.grace,
            propagation: sent.propagation.or(orphan),
            uid: sent.uid,
            version: sent.version,
            dry: !sent.dry.is_empty(),
        })
    }

    /// Compares the preconditions with an object.
    ///
    /// # Errors
    /// 409.
    pub(super) fn check(&self, kind: &Kind, stored: &Stored) -> Result<(), Failure> {
        let (uid, version) = (&*stored.head.uid, stored.rv.to_string());
        if let Some(wanted) = self.uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            );
            return Err(Failure::precondition(kind, &stored.name, &why));
        }
        if let Some(wanted) = self.version.as_deref().filter(|wanted| *wanted != version) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            );
            return Err(Failure::precondition(kind, &stored.name, &why));
        }
        Ok(())
    }
}

impl Sent {
    /// The version in the query of a collection's delete is that of its list.
    fn in_query(query: &Query, one: bool) -> Result<Self, Failure> {
        let text = |key: &str| query.get(key).map(str::to_owned);
        let grace = query.get("gracePeriodSeconds").map(go_json::integer);
        Ok(Sent {
            grace: grace.transpose().map_err(Failure::bad_request)?,
            propagation: text("propagationPolicy"),
            orphan: query
                .get("orphanDependents")
                .map(|_| query.flag("orphanDependents")),
            uid: text("uid"),
            version: text("resourceVersion").filter(|_| one),
            dry: query.all("dryRun").map(str::to_owned).collect(),
        })
    }

    fn in_body(headers: &HeaderMap, bytes: &[u8]) -> Result<Self, Failure> {
        let body = body::parse(headers, bytes)?;
        if let Some(why) = body::untyped(&body) {
            return Err(Failure::bad_request(format!(
                "couldn't get version/kind; json parse error: {why}"
            )));
        }
        let Value::Object(map) = &body else {
            return Ok(Sent::default());
        };
        check_kind(&body)?;
        let mut sent = Sent::default();
        for (key, value) in map {
            sent.take(key, value).map_err(Failure::bad_request)?;
        }
        Ok(sent)
    }

    /// Reads one field of the body.
    fn take(&mut self, key: &str, value: &Value) -> Result<(), String> {
        const STRUCT: &str = "DeleteOptions";
        match key {
            "gracePeriodSeconds" => self.grace = go_json::whole(value, key, STRUCT)?,
            "propagationPolicy" => {
                self.propagation = go_json::text(value, key, STRUCT, "v1.DeletionPropagation")?;
            }
            "orphanDependents" => self.orphan = go_json::truth(value, key, STRUCT)?,
            "ignoreStoreReadErrorWithClusterBreakingPotential" => {
                go_json::truth(value, key, STRUCT)?;
            }
            "dryRun" => self.dry = go_json::texts(value, key, STRUCT)?,
            "preconditions" => self.preconditions(value)?,
            _ => {}
        }
        Ok(())
    }

    fn preconditions(&mut self, value: &Value) -> Result<(), String> {
        const STRUCT: &str = "Preconditions";
        let map = match value {
            Value::Null => return Ok(()),
            Value::Object(map) => map,
            other => {
                return Err(go_json::mismatch(
                    other,
                    "preconditions",
                    "DeleteOptions",
                    "v1.Preconditions",
                ));
            }
        };
        for (key, value) in map {
            let path = format!("preconditions.{key}");
            match key.as_str() {
                "uid" => self.uid = go_json::text(value, &path, STRUCT, "types.UID")?,
                "resourceVersion" => self.version = go_json::text(value, &path, STRUCT, "string")?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The rules of `validation.ValidateDeleteOptions`.
    fn check(&self) -> Result<(), Failure> {
        let mut causes = Vec::new();
        let policy = self.propagation.as_deref();
        if let Some(policy) = policy.filter(|_| self.orphan.is_some()) {
            causes.push(Cause::invalid(
                "propagationPolicy",
                &Value::from(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        } else if let Some(policy) = policy.filter(|one| !POLICIES.contains(one)) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            causes.push(Cause::unsupported("propagationPolicy", policy, &supported));
        }
        if self.dry.iter().any(|one| one != "All") {
            causes.push(Cause::dry_run(&self.dry));
        }
        if causes.is_empty() {
            return Ok(());
        }
        Err(Failure::invalid_as(
            "meta.k8s.io",
            "DeleteOptions",
            "",
            causes,
        ))
    }
}

/// A body that says what it is must say that it is options of a delete, of whatever version.
fn check_kind(body: &Value) -> Result<(), Failure> {
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or("");
    match (text("kind"), text("apiVersion")) {
        ("" | "DeleteOptions", _) => Ok(()),
        (kind, version) => {
            let version = if version.is_empty() {
                "meta.k8s.io/v1"
            } else {
                version
            };
            Err(Failure::bad_request(format!(
                "no kind {} is registered for version {} in scheme {}",
                quote(kind),
                quote(version),
                quote(SCHEME)
            )))
        }
    }
}
