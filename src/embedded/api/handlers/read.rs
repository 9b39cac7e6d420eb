//! get, list and watch.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::{Answer, Call};
use crate::embedded::api::registry::Storage;
use crate::embedded::api::selectors::{FieldSelector, LabelSelector, Selector};
use crate::embedded::api::status::{Cause, Failure, json_response};
use crate::embedded::api::store::{Interest, Listing};
use crate::embedded::api::watch;

/// One object.
pub(super) fn get(call: &Call) -> Answer {
    let stored = call.current()?;
    Ok(call.answer(200, &stored))
}

/// The options of list and watch.
struct ListOptions {
    interest: Interest,
    limit: usize,
    timeout: Option<Duration>,
    /// `None`: not given.
    version: Option<u64>,
    version_match: String,
    initial_events: Option<bool>,
}

fn integer(call: &Call, key: &str) -> Result<i64, Failure> {
    let text = call.query.text(key);
    if text.is_empty() {
        return Ok(0);
    }
    let invalid = || {
        Failure::bad_request(format!(
            "strconv.ParseInt: parsing {text:?}: invalid syntax"
        ))
    };
    text.parse::<i64>().map_err(|_| invalid())
}

fn options(call: &Call) -> Result<ListOptions, Failure> {
    let labels = LabelSelector::parse(call.query.text("labelSelector"))?;
    let fields = FieldSelector::parse(call.query.text("fieldSelector"), call.kind)?;
    let namespace = Some(call.namespace()).filter(|namespace| !namespace.is_empty());
    let mut interest = Interest::new(call.bucket(), namespace, Selector { labels, fields });
    if matches!(call.kind.storage, Storage::Shared(_)) {
        // The sibling kind offers other names for the same stored fields.
        interest.fields = Some(call.kind.fields);
    }
    let limit = usize::try_from(integer(call, "limit")?.max(0)).unwrap_or(0);
    let seconds = u64::try_from(integer(call, "timeoutSeconds")?.max(0)).unwrap_or(0);
    let options = ListOptions {
        interest,
        limit,
        timeout: (seconds > 0).then(|| Duration::from_secs(seconds.min(86_400))),
        version: version(call.query.text("resourceVersion"))?,
        version_match: call.query.text("resourceVersionMatch").to_owned(),
        initial_events: call
            .query
            .get("sendInitialEvents")
            .map(|_| call.query.flag("sendInitialEvents")),
    };
    check(
        &options,
        call.query.flag("watch"),
        !call.query.text("continue").is_empty(),
    )?;
    Ok(options)
}

fn version(text: &str) -> Result<Option<u64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map_err(|_| {
        Failure::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })?;
    Ok(Some(number))
}

/// The rules of `metainternalversion.ValidateListOptions`.
fn check(options: &ListOptions, watch: bool, continues: bool) -> Result<(), Failure> {
    let mut causes = Vec::new();
    let field = "resourceVersionMatch";
    let matched = options.version_match.as_str();
    if !matches!(matched, "" | "Exact" | "NotOlderThan") {
        causes.push(Cause::unsupported(
            field,
            matched,
            &["Exact", "NotOlderThan", ""],
        ));
    }
    match (watch, options.initial_events) {
        (false, Some(_)) => causes.push(Cause::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        )),
        (true, Some(_)) if matched != "NotOlderThan" => {
            causes.push(Cause::forbidden(
                field,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        (true, None) if !matched.is_empty() => {
            causes.push(Cause::forbidden(
                field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        (false, None) if !matched.is_empty() && continues => {
            causes.push(Cause::forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        (false, None) if !matched.is_empty() && options.version.is_none() => {
            causes.push(Cause::forbidden(
                field,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        (false, None) if matched == "Exact" && options.version == Some(0) => {
            causes.push(Cause::forbidden(
                field,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
        _ => {}
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Failure::invalid_as(
            "meta.k8s.io",
            "ListOptions",
            "",
            causes,
        ))
    }
}

/// Where the next page begins.
struct Page {
    version: u64,
    after: String,
}

impl Page {
    fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(
            json!({"v": "meta.k8s.io/v1", "rv": self.version, "start": self.after}).to_string(),
        )
    }

    fn parse(token: &str) -> Result<Self, Failure> {
        let invalid = |why: &str| Failure::bad_request(format!("continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .map_err(|_| invalid("illegal base64 data"))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| invalid("no JSON in it"))?;
        let version = value
            .get("rv")
            .and_then(Value::as_u64)
            .ok_or_else(|| invalid("incorrect encoded start resourceVersion"))?;
        let after = value
            .get("start")
            .and_then(Value::as_str)
            .ok_or_else(|| invalid("encoded start key is missing"))?;
        Ok(Page {
            version,
            after: after.to_owned(),
        })
    }
}

/// All objects, or a page of them.
pub(super) fn list(call: &Call) -> Answer {
    let options = options(call)?;
    let token = call.query.text("continue");
    let page = if token.is_empty() {
        None
    } else {
        Some(Page::parse(token)?)
    };
    let store = call.api.store();
    let listing = store.list(
        &options.interest,
        page.as_ref().map(|page| page.after.as_str()),
        options.limit,
    );
    if options.version.is_some_and(|version| version > listing.rv) {
        return Err(too_large(options.version.unwrap_or(0), listing.rv));
    }
    if let Some(page) = &page {
        let floor = store.history_floor();
        if page.version < floor || page.version > listing.rv {
            return Err(Failure::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
            ));
        }
    }
    // A continued list keeps the version of its first page: a watch from there replays what the pages missed.
    let version = page.map_or(listing.rv, |page| page.version);
    let metadata = list_metadata(&listing, version, options.interest.selector.is_empty());
    Ok(json_response(
        200,
        call.shape().list(&listing.items, metadata),
    ))
}

fn list_metadata(listing: &Listing, version: u64, everything: bool) -> Value {
    let mut metadata = Map::new();
    metadata.insert(
        "resourceVersion".to_owned(),
        Value::from(version.to_string()),
    );
    if let Some(next) = &listing.next {
        metadata.insert(
            "continue".to_owned(),
            Value::from(
                Page {
                    version,
                    after: next.clone(),
                }
                .token(),
            ),
        );
        if everything {
            metadata.insert(
                "remainingItemCount".to_owned(),
                Value::from(listing.remaining),
            );
        }
    }
    Value::Object(metadata)
}

fn too_large(asked: u64, current: u64) -> Failure {
    let message = format!("Too large resource version: {asked}, current: {current}");
    let details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
    Failure::status(504, "Timeout", message, details.as_object().cloned())
}

/// A stream of changes.
pub(super) fn watch(call: &Call) -> Answer {
    let options = options(call)?;
    let after = match (options.version.unwrap_or(0), options.initial_events) {
        (_, Some(true)) | (0, None) => None,
        (0, Some(false)) => Some(call.api.store().counter()),
        (version, _) => Some(version),
    };
    let stream = watch::Options {
        timeout: options.timeout,
        bookmarks: call.query.flag("allowWatchBookmarks"),
        mark_initial: options.initial_events == Some(true),
    };
    let body = match call.api.store().subscribe(options.interest, after) {
        Ok(subscription) => {
            watch::body(call.api.shared_store(), subscription, call.shape(), stream)
        }
        Err(error) => watch::expired(error),
    };
    Ok(json_response(200, body))
}
